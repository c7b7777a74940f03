"""What trace and diagnostics say of prefixes that are reused, and of the runs that stay for them."""

from collections.abc import Callable

import msgspec

from arriero.backend.protocol import Backend
from arriero.backend.synthetic import SyntheticOptions
from arriero.core.events import AdmissionSource, Admitted, DropSequence, Event, Finished, MoveSequence
from arriero.core.ids import RequestId, SequenceId
from arriero.core.request import FinishReason, Request, RequestState
from arriero.engine.diagnostics import Diagnostics
from arriero.engine.engine import Engine
from arriero.engine.options import EngineOptions
from arriero.engine.sequence_drops import evicted_sequences
from arriero.engine.trace import Tracer
from arriero.kv.reuse import ReuseRules
from arriero.record.diagnostics import EngineSummaryRow, IterRow, decode_row
from arriero.record.lines import LineList
from arriero.testing.fakes import ScriptedBackend
from tests.unit.engine.gate_runs import ENDLESS, step_by_hand
from tests.unit.engine.test_trace import Line, parsed

SESSIONS = ReuseRules(per_session=True, min_partial=4)
ONE_SLOT = SyntheticOptions(num_sequences=1, num_rows=32, num_cells=128)
TWO_SLOTS = SyntheticOptions(num_sequences=2, num_rows=32, num_cells=256)
PROMPT = [1, 2, 3, 4, 5]


def ask(prompt: list[int], session: str | None, *, tokens: int = 3) -> Callable[[Engine], object]:
    return lambda engine: engine.submit(prompt, tokens, end_tokens=ENDLESS, session_id=session, cache_scope=session)


def traced(served: Backend, reuse: ReuseRules, *acts: Callable[[Engine], object]) -> list[Line]:
    sink = LineList()
    options = EngineOptions(reuse=reuse, check=True)
    step_by_hand(served, [Tracer(sink, pool="dedicated")], [*acts, Engine.shutdown], options)
    return [parsed(line) for line in sink.lines]


def of_families(lines: list[Line], *begins: str) -> list[tuple[str, ...]]:
    return [(name, *values.values()) for name, values in lines if name.startswith(begins)]


def test_a_run_is_created_reused_and_cleared_at_the_end() -> None:
    goes_on = ask([*PROMPT, 1, 1, 9], "a")
    lines = traced(ScriptedBackend(options=ONE_SLOT), SESSIONS, ask(PROMPT, "a"), goes_on)
    assert of_families(lines, "resident_slot", "prefix_reused", "kv_cleared") == [
        ("resident_slot_created", "0", "7"),
        ("prefix_reused", "2", "0", "7", "session"),
        ("resident_slot_created", "0", "10"),
        ("resident_slot_cleared_teardown", "0"),
    ]
    admitted = [values["source"] for name, values in lines if name == "request_admitted_live"]
    assert admitted == ["initial_idle", "session_reuse"]


def test_a_run_of_another_session_is_evicted() -> None:
    lines = traced(ScriptedBackend(options=ONE_SLOT), SESSIONS, ask(PROMPT, "a"), ask(PROMPT, "b"), ask([8], None))
    assert [line[:2] for line in of_families(lines, "resident_slot", "kv_cleared")] == [
        ("resident_slot_created", "0"),
        ("resident_slot_evicted", "0"),
        ("resident_slot_created", "0"),
        ("resident_slot_evicted", "0"),
        ("kv_cleared", "0"),
    ]


def test_a_move_is_told_with_both_slots() -> None:
    lines = traced(
        ScriptedBackend(options=SyntheticOptions(num_sequences=3, num_rows=32, num_cells=384)),
        ReuseRules(),
        lambda engine: [ask([n], None, tokens=length)(engine) for n, length in enumerate((9, 2, 9))],
    )
    moves = [values for name, values in lines if name == "request_moved"]
    assert [(move["request"], move["seq_id"], move["to_seq_id"]) for move in moves] == [("3", "2", "1")]
    rows = [values["seq_id"] for name, values in lines if name == "admitted_decode_row" and values["request"] == "3"]
    assert rows == ["2"] * (len(rows) - rows.count("1")) + ["1"] * rows.count("1")
    assert of_families(lines, "kv_cleared")[-1][1] == "1"


def test_rows_count_residents_and_evictions_and_the_summary_has_the_published_names() -> None:
    sink = LineList()
    acts = [ask(PROMPT, "a"), ask([*PROMPT, 7, 7], "a"), ask(PROMPT, "b"), Engine.shutdown]
    options = EngineOptions(reuse=SESSIONS)
    step_by_hand(ScriptedBackend(options=ONE_SLOT), [Diagnostics(sink)], acts, options)
    rows = [decode_row(line) for line in sink.lines]
    steps = [row for row in rows if isinstance(row, IterRow)]
    assert sum(row.evicted_in_iter for row in steps) == 1
    assert {row.resident_count for row in steps} == {0, 1}
    summary = rows[-1]
    assert isinstance(summary, EngineSummaryRow)
    assert (summary.prefix_hits, summary.reused_tokens, summary.reused_tokens_by_source["session"]) == (1, 5, 5)
    figures = msgspec.structs.asdict(summary)
    assert {name: figures[name] for name in figures if name.startswith(("session_", "lcp_", "resident_"))} == {
        "session_reuse_admitted_count": 0,
        "session_reuse_prefill_skipped_tokens": 0,
        "lcp_reuse_admitted_count": 1,
        "lcp_reuse_matched_tokens": 5,
        "lcp_reuse_trimmed_tokens": 2,
        "lcp_trim_refused": 0,
        "resident_slots_created_count": 3,
        "resident_slots_evicted_count": 1,
    }
    assert (summary.last_evicted_resident_lru, summary.reuse_overtakes) == (2, 0)
    assert summary.residual_kv_empty


def test_without_reuse_the_same_fields_are_there_and_empty() -> None:
    sink = LineList()
    step_by_hand(ScriptedBackend(options=TWO_SLOTS), [Diagnostics(sink)], [ask(PROMPT, "a"), Engine.shutdown])
    summary = decode_row(sink.lines[-1])
    assert isinstance(summary, EngineSummaryRow)
    assert (summary.lookups_by_verdict, summary.last_evicted_resident_lru) == ({}, -1)


# ── evictions among the events ──────────────────────────────────────────────────────────────────────────────────────

REQUEST = Request(request_id=RequestId(1), prompt=(1,), max_tokens=1, arrival_at=0)


def drop(sequence_id: int) -> DropSequence:
    return DropSequence(SequenceId(sequence_id))


def end(sequence_id: int | None) -> Finished:
    return Finished(
        request=REQUEST,
        reason=FinishReason.LENGTH,
        sequence_id=None if sequence_id is None else SequenceId(sequence_id),
        step=1,
        num_decoded=1,
        num_computed=1,
        state=RequestState.DECODING,
        at=0,
    )


def start(sequence_id: int) -> Admitted:
    source = AdmissionSource.EVICTED_RECLAIM
    return Admitted(REQUEST, SequenceId(sequence_id), 1, source, None, resumed=False, at=0)


def test_what_is_cleared_before_an_end_is_no_eviction() -> None:
    cases: list[tuple[list[Event], list[int]]] = [
        ([drop(2), end(2)], []),
        ([drop(2)], [2]),
        ([drop(1), drop(2), end(2), end(None)], [1]),
        ([drop(2), start(2), end(2)], [2]),  # evicted, and the next run on it stays
        ([drop(2), start(2), drop(2), end(2)], [2]),
        ([MoveSequence(SequenceId(3), SequenceId(1)), drop(3)], []),
    ]
    for events, expected in cases:
        assert evicted_sequences(events) == expected
