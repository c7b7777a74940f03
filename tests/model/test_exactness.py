"""Exact mode: under its composition rule a row's logits do not depend, in any bit, on what else is computed.

The rule: separate streams, flash attention off, prefill and decode in calls of their own, no piece of one prompt row,
and a weight format that passes here. llama.cpp makes such a piece itself where prompts of lengths that differ by one
share a call, since it cuts a call into pieces of equal length, or where a chunk is one row longer than a micro-batch.
Which formats pass is a property of this build and this machine.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from arriero.backend.context import ContextOptions
from arriero.backend.llama_cpp import LlamaCppBackend
from arriero.backend.llama_model import LlamaModel
from arriero.backend.models import WeightFormat, quantize
from arriero.core.config import FlashAttention
from arriero.core.events import DropSequence, TrimSequence
from arriero.core.ids import RequestId, SequenceId
from arriero.core.plan import DecodeRow, PrefillChunk, Row
from arriero.core.request import Request

pytestmark = pytest.mark.model

EXACT = ContextOptions(
    ctx_size=8 * 256, num_sequences=8, num_rows=256, num_threads=1, flash_attention=FlashAttention.OFF
)
EXACT_FORMATS = {"Q4_1": None, "Q4_0": WeightFormat.Q4_0, "Q8_0": WeightFormat.Q8_0}  # None: the file as it is
PROMPT_LENGTH = 80
NUM_STEPS = 3
SUBJECT = 1  # the request that is looked at


@pytest.fixture(scope="module", params=EXACT_FORMATS)
def backend(
    request: pytest.FixtureRequest, llama_process: None, model_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LlamaCppBackend]:
    """A backend over the embedded model in each format."""
    del llama_process
    name: str = request.param
    path = model_path
    if weight_format := EXACT_FORMATS[name]:
        path = quantize(model_path, tmp_path_factory.mktemp("weights") / f"{name}.gguf", weight_format)
    loaded = LlamaModel(path)
    assert loaded.capabilities.weight_format.endswith(name)
    made = LlamaCppBackend(loaded, EXACT)
    yield made
    made.close()
    loaded.close()


@pytest.fixture(autouse=True)
def _empty_memory(backend: LlamaCppBackend) -> None:
    for sequence_id in range(EXACT.num_sequences):
        assert backend.apply(DropSequence(SequenceId(sequence_id)))


def request_with(request_id: int, length: int = PROMPT_LENGTH) -> Request:
    """A request whose prompt is random and its own."""
    prompt = np.random.default_rng(request_id).integers(100, 40_000, length)
    return Request(
        request_id=RequestId(request_id),
        prompt=tuple(int(token) for token in prompt),
        max_tokens=NUM_STEPS,
        arrival_at=0,
    )


def prefill(backend: LlamaCppBackend, request: Request, sequence_id: int, cuts: Sequence[int] = ()) -> bytes:
    """Prefill in chunks that end at the cuts; the bits of the last logits."""
    length = len(request.prompt)
    last = b""
    for start, end in pairwise((0, *cuts, length)):
        chunk = PrefillChunk(request, SequenceId(sequence_id), start, request.prompt[start:end], end == length)
        last = backend.decode([chunk]).tobytes()
    return last


def decode_row(request: Request, sequence_id: int, step: int) -> Row:
    """The row of one decode step; which token it holds is settled, whatever the model says."""
    token = 200 + 31 * step + request.request_id
    return DecodeRow(request, SequenceId(sequence_id), len(request.prompt) + step, token)


def solo(backend: LlamaCppBackend) -> list[bytes]:
    """What the subject's prefill and decode steps give when it is all alone, on sequence 0."""
    subject = request_with(SUBJECT)
    bits = [prefill(backend, subject, 0)]
    bits += [backend.decode([decode_row(subject, 0, step)]).tobytes() for step in range(NUM_STEPS)]
    assert len(set(bits)) == len(bits), "each step is another one: a comparison that cannot fail proves nothing"
    assert backend.apply(DropSequence(SequenceId(0)))
    return bits


def test_a_decode_row_does_not_depend_on_its_company(backend: LlamaCppBackend) -> None:
    alone = solo(backend)
    subject, last = request_with(SUBJECT), EXACT.num_sequences - 1
    company = [request_with(10 + i, 20 + 3 * i) for i in range(EXACT.num_sequences)]
    company[0] = company[last] = subject  # the first and the last row of a full batch
    for i, request in enumerate(company):
        bits = prefill(backend, request, i)
        assert request is not subject or bits == alone[0], f"prefill beside {i} resident prompts"
    for num_rows in (2, 3, 5, 8):
        for step in range(NUM_STEPS):
            logits = backend.decode([decode_row(company[i], i, step) for i in range(num_rows)])
            for place in {0, last} & set(range(num_rows)):
                assert logits[place].tobytes() == alone[1 + step], f"step {step}, row {place} of {num_rows}"
        for i in range(num_rows):
            assert backend.apply(TrimSequence(SequenceId(i), len(company[i].prompt)))


@pytest.mark.parametrize("size", [7, 37, 64])
def test_a_prompt_does_not_depend_on_its_chunks(backend: LlamaCppBackend, size: int) -> None:
    subject = request_with(SUBJECT)
    whole = prefill(backend, subject, 0)
    assert prefill(backend, subject, 1, range(size, PROMPT_LENGTH - 1, size)) == whole


def test_prompts_prefilled_in_one_call_do_not_see_one_another(backend: LlamaCppBackend) -> None:
    subject, other = request_with(SUBJECT), request_with(5, 40)
    whole = prefill(backend, subject, 0)
    rows = [
        PrefillChunk(request, SequenceId(i), 0, request.prompt, wants_logits=True)
        for i, request in ((1, other), (2, subject))
    ]
    assert backend.decode(rows)[1].tobytes() == whole
