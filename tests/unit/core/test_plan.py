from arriero.core.ids import RequestId, SequenceId
from arriero.core.plan import DecodeRow, PrefillChunk, StepShape
from arriero.core.request import Request

REQUEST = Request(request_id=RequestId(1), prompt=(5, 6, 7), max_tokens=2, arrival_at=0)


def test_a_chunk_has_a_row_for_each_token() -> None:
    assert PrefillChunk(REQUEST, SequenceId(0), 0, (5, 6), wants_logits=False).num_rows == 2
    assert PrefillChunk(REQUEST, SequenceId(0), 3, (), wants_logits=True).num_rows == 0


def test_a_decode_row_reads_like_a_chunk_of_one_token() -> None:
    row = DecodeRow(REQUEST, SequenceId(0), 3, 9)
    chunk = PrefillChunk(REQUEST, SequenceId(0), 3, (9,), wants_logits=True)
    assert (row.tokens, row.num_rows, row.wants_logits) == (chunk.tokens, chunk.num_rows, chunk.wants_logits)


def test_a_shape_counts_all_its_rows() -> None:
    shape = StepShape(decode_rows=3, prefill_rows=32, prefill_chunks=1, context_tokens=40, num_running=4)
    assert shape.num_rows == 35
