"""The lifecycle trace: published counts, families, order."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import pytest

from arriero.core.plan import Row
from arriero.core.request import CancelReason
from arriero.engine.engine import Engine
from arriero.engine.handle import Result
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated
from arriero.engine.trace import Tracer
from arriero.record.lines import LineList, LineWriter, Render
from arriero.record.trace import TRACE_EVENTS, trace_gap_line
from arriero.testing.fakes import FaultyBackend, ScriptedBackend
from arriero.testing.faults import FailedRequest, Fault, NoPlace
from tests.unit.engine.gate_runs import (
    CANCEL_AFTER_16,
    ENDLESS,
    JOIN_WITHIN_S,
    NO_CANCELS,
    PROMPT,
    Steering,
    backend,
    published_budgets,
    run_preloaded,
    step_by_hand,
)

Line = tuple[str, dict[str, str]]


def parsed(line: bytes) -> Line:
    """Name and values; a line that is not of the published form fails here."""
    pairs = [pair.partition("=") for pair in line.decode().split(" ")]
    name = pairs[0][2]
    assert pairs[0][0] == "event"
    assert tuple(key for key, _, _ in pairs[1:]) == TRACE_EVENTS[name]
    return name, {key: value for key, _, value in pairs[1:]}


def gate(
    num_active: int, num_waiting: int = 0, *, cancels: Mapping[int, int] = NO_CANCELS, stream: bool = False
) -> tuple[list[Line], list[Result]]:
    sink = LineList()
    _, results = run_preloaded(
        [Tracer(sink, pool="dedicated", checks_siblings=True)],
        published_budgets(num_active, num_waiting),
        num_active=num_active,
        cancels=cancels,
        stream=stream,
    )
    return [parsed(line) for line in sink.lines], results


def by_hand(*acts: Callable[[Engine], object], served: FaultyBackend | ScriptedBackend | None = None) -> list[Line]:
    sink = LineList()
    step_by_hand(
        backend(1) if served is None else served,
        [Tracer(sink, pool="shared")],
        [*acts, Engine.shutdown],
        EngineOptions(check=True),
    )
    return [parsed(line) for line in sink.lines]


def counted(lines: list[Line]) -> Counter[str]:
    return Counter(name for name, _ in lines)


def named(lines: list[Line], name: str) -> list[dict[str, str]]:
    return [values for each, values in lines if each == name]


def ask(engine: Engine, budget: int = 3, *, request_id: int | None = None, stream: bool = False) -> None:
    engine.submit(PROMPT, budget, request_id=request_id, want_stream=stream, end_tokens=ENDLESS)


def ask_two(engine: Engine) -> None:
    for number in (1, 2):
        ask(engine, 6, request_id=number, stream=True)


class Crash(Fault):
    """Something that no backend should ever raise."""

    def before_decode(self, call: int, rows: Sequence[Row]) -> None:
        if call == 2:
            raise ZeroDivisionError(f"{len(rows)} rows")


def test_g3_six_cancels_of_99_have_their_own_family() -> None:
    lines, _ = gate(99, cancels=CANCEL_AFTER_16)
    counts = counted(lines)
    assert {counts[name] for name in ("seq_complete", "kv_cleared", "promise_fulfilled")} == {93}
    cancels = {name: count for name, count in counts.items() if name.startswith("cancel_")}
    assert cancels.keys() >= {"cancel_requested", "cancel_observed", "cancel_kv_cleared", "cancel_future_fulfilled"}
    assert set(cancels.values()) == {6}
    assert {(each["iter"], each["n_decoded"]) for each in named(lines, "cancel_observed")} == {("16", "16")}
    assert {each["pos_max_at_clear"] for each in named(lines, "cancel_kv_cleared")} == {"20"}
    assert counts["decode_row"] == 33 * (7 + 63 + 255) - 864


def test_g8_admitted_requests_have_their_own_family() -> None:
    lines, _ = gate(93, 6, cancels=CANCEL_AFTER_16)
    counts = counted(lines)
    assert counts["decode_row"] - counts["admitted_decode_row"] == 31 * (7 + 63 + 255) - 864
    expected = {
        "request_admitted": 93,
        "seq_prefilled": 93,
        "request_queued": 6,
        "request_admitted_live": 6,
        "seq_reused": 6,
        "admitted_prefilled": 6,
        "admitted_decode_row": 378,
        "seq_complete": 87,
        "admitted_complete": 6,
        "kv_cleared": 93,
        "promise_fulfilled": 93,
    }
    assert {name: counts[name] for name in expected} == expected
    assert [each["queue_pos"] for each in named(lines, "request_queued")] == list("012345")
    admitted = [
        (each["request"], each["reused_seq_id"], each["iter"]) for each in named(lines, "request_admitted_live")
    ]
    assert admitted == [(str(93 + n), seq, "17") for n, seq in enumerate("124578")]
    assert {each["done_iter"] for each in named(lines, "admitted_complete")} == {"80"}
    assert counts["request_submitted_external"] == counts["arrival_drained"] == 0


def test_a_run_begins_and_ends_once_and_names_its_placement() -> None:
    lines, _ = gate(3)
    assert lines[0] == ("engine_start", {"n_seqs": "3", "prompt_tokens": "6", "max_budget": "256"})
    assert lines[1] == ("engine_task_placement", {"pool": "dedicated"})
    assert lines[-1][0] == "engine_stop"
    assert lines[-1][1]["decode_calls"] == "256"
    counts = counted(lines)
    assert counts["engine_start"] == counts["engine_task_placement"] == counts["engine_stop"] == 1


def test_positions_and_hashes_are_those_of_the_results() -> None:
    lines, results = gate(3)
    complete = {(each["seq"], each["done_iter"], each["hash"]) for each in named(lines, "seq_complete")}
    assert complete == {(str(each.sequence_id), str(each.done_step), f"0x{each.token_hash:016x}") for each in results}
    assert [each["pos_max_at_clear"] for each in named(lines, "kv_cleared")] == ["12", "68", "260"]
    assert {each["cross_talk_ok"] for each in named(lines, "kv_cleared")} == {"true"}
    rows = [(each["iter"], each["pos"]) for each in named(lines, "decode_row") if each["seq"] == "0"]
    assert rows == [(str(step), str(5 + step)) for step in range(1, 8)]


def test_g15_streams_are_told_token_by_token_between_one_opening_and_one_close() -> None:
    lines, _ = gate(3, cancels={1: 16}, stream=True)
    counts = counted(lines)
    assert counts["token_stream_token"] == 8 + 16 + 256
    assert counts["token_stream_opened"] == 3
    closed = {each["request"]: (each["n_tokens"], each["reason"]) for each in named(lines, "token_stream_closed")}
    assert closed == {"0": ("8", "completed"), "1": ("16", "cancelled"), "2": ("256", "completed")}
    of_one = [(name, values) for name, values in lines if values.get("request") == "1"]
    assert [name for name, _ in of_one] == [
        "token_stream_opened",
        *["token_stream_token"] * 16,
        "cancel_drained",
        "cancel_active_observed",
        "token_stream_closed",
    ]
    assert [values["pos"] for name, values in of_one if name == "token_stream_token"] == [str(6 + n) for n in range(16)]


def test_a_stream_is_closed_after_kv_is_cleared_and_before_the_result() -> None:
    lines, _ = gate(1, stream=True)
    names = [name for name, _ in lines]
    tail = ["seq_complete", "kv_cleared", "token_stream_closed", "promise_fulfilled", "engine_stop"]
    assert names[-len(tail) :] == tail


def test_an_external_request_waits_and_is_then_admitted() -> None:
    lines = by_hand(lambda engine: ask(engine, 2))
    names = [name for name, _ in lines]
    assert names == [
        "engine_start",
        "engine_task_placement",
        "request_submitted_external",
        "arrival_drained",
        "request_queued",
        "request_admitted_live",
        "admitted_prefilled",
        "decode_row",
        "admitted_decode_row",
        "admitted_complete",
        "kv_cleared",
        "promise_fulfilled",
        "engine_stop",
    ]
    assert lines[0][1] == {"n_seqs": "1", "prompt_tokens": "-1", "max_budget": "-1"}
    (admitted,) = named(lines, "request_admitted_live")
    assert (admitted["reused_seq_id"], admitted["seq_id"], admitted["source"]) == ("-1", "0", "initial_idle")
    assert {each["cross_talk_ok"] for each in named(lines, "kv_cleared")} == {"-1"}


def cancel_before_and_twice(engine: Engine) -> None:
    for _ in range(2):
        engine.cancel(7)
        engine.cancel_submission(8, 2)
    ask(engine, request_id=7, stream=True)
    ask(engine, request_id=8)


def test_cancels_that_come_before_their_request_end_it_in_the_queue() -> None:
    lines = by_hand(cancel_before_and_twice)
    counts = counted(lines)
    assert counts["cancel_drained"] == counts["cancel_drained_token"] == 2
    assert counts["cancel_request_duplicate"] == counts["cancel_request_duplicate_token"] == 1
    assert {each["request"] for each in named(lines, "queued_cancelled")} == {"7", "8"}
    assert named(lines, "token_stream_opened") == [{"request": "7", "seq_id": "-1"}]
    (closed,) = named(lines, "token_stream_closed")
    assert (closed["n_tokens"], closed["reason"]) == ("0", "cancelled")
    assert counts["request_admitted_live"] == counts["cancel_future_fulfilled"] == 0


def stale_and_unknown(engine: Engine) -> None:
    ask(engine, request_id=42)


def live_again(engine: Engine) -> None:
    ask(engine, request_id=42)
    engine.cancel_submission(42, 1)
    engine.cancel_submission(5, 1)
    engine.cancel(6)


def test_g6_a_stale_token_and_cancels_of_nobody_have_lines_of_their_own() -> None:
    lines = by_hand(stale_and_unknown, live_again)
    counts = counted(lines)
    assert named(lines, "cancel_unknown_request_id_token") == [
        {"request": "42", "epoch": "1"},
        {"request": "5", "epoch": "1"},
    ]
    # kept for a submission to come, and given up at the end
    assert [name for name, _ in lines[-2:]] == ["cancel_unknown_request_id", "engine_stop"]
    assert counts["admitted_complete"] == 2
    assert counts["cancel_active_observed"] == counts["cancel_observed"] == 0


def test_a_waiter_that_shutdown_ends_is_told_after_the_last_step() -> None:
    sink = LineList()
    run_preloaded([Tracer(sink, pool="dedicated")], [8, 64], num_active=1, stream=True)
    lines = [parsed(line) for line in sink.lines]
    # without `reuse_completed` the slot of a completed request is not used again: its waiter can never start
    names = [name for name, _ in lines]
    assert names[-4:] == ["queued_shutdown_aborted", "token_stream_opened", "token_stream_closed", "engine_stop"]
    assert named(lines, "token_stream_closed")[-1]["reason"] == "error"


def test_a_failed_request_is_told_with_its_code_and_leaves_the_others() -> None:
    lines = by_hand(
        ask_two,
        served=FaultyBackend(backend(2), FailedRequest(1)),
    )
    assert [(each["request"], each["code"]) for each in named(lines, "request_failed")] == [("1", "decode_failed")]
    closed = {each["request"]: each["reason"] for each in named(lines, "token_stream_closed")}
    assert closed == {"1": "error", "2": "completed"}
    assert len(named(lines, "promise_fulfilled")) == 1


def test_a_preempted_request_resumes_with_its_stream_and_prefills_once() -> None:
    lines = by_hand(
        ask_two,
        served=FaultyBackend(backend(2), NoPlace(2)),
    )
    counts = counted(lines)
    assert counts["request_preempted"] == counts["request_resumed"] == 1
    assert counts["request_admitted_live"] == counts["admitted_prefilled"] == counts["token_stream_opened"] == 2
    assert counts["token_stream_token"] == 12
    assert named(lines, "request_preempted")[0]["cause"] == "no_room"


@pytest.mark.parametrize("reason", [CancelReason.STOP, CancelReason.DISCONNECT])
def test_a_cancel_for_a_stop_string_completes_the_answer(reason: CancelReason) -> None:
    sink = LineList()

    def start(engine: Engine) -> None:
        steering.engine = engine
        ask(engine, 20, stream=True)

    steering = Steering({1: 2}, by_token=reason)
    step_by_hand(backend(1), [Tracer(sink, pool="shared"), steering], [start, Engine.shutdown])
    lines = [parsed(line) for line in sink.lines]
    word = "completed" if reason is CancelReason.STOP else "cancelled"
    assert [each["status"] for each in named(lines, "cancel_future_fulfilled")] == [word]
    assert [each["reason"] for each in named(lines, "token_stream_closed")] == [word]
    assert len(named(lines, "cancel_active_observed_token")) == 1
    assert len(named(lines, "seq_complete")) == len(named(lines, "admitted_complete")) == 0


def test_a_crash_is_named_and_closes_every_stream() -> None:
    sink = LineList()
    tracer = Tracer(sink, pool="dedicated")
    engine = Engine(FaultyBackend(backend(2), Crash()), observers=[tracer])
    ask_two(engine)
    engine.start(Dedicated())
    summary = engine.join(JOIN_WITHIN_S)
    assert summary.crashed is not None
    lines = [parsed(line) for line in sink.lines]
    closed = [("token_stream_closed", each["n_tokens"], each["reason"]) for each in named(lines, "token_stream_closed")]
    assert closed == [("token_stream_closed", "2", "error")] * 2
    assert [name for name, _ in lines[-2:]] == ["engine_crashed", "engine_stop"]
    assert named(lines, "engine_crashed") == [{"error": "ZeroDivisionError"}]


class Leaky:
    """A sink that drops some entries, as a full queue does."""

    def __init__(self, *dropped: int) -> None:
        self.lines: list[bytes] = []
        self._dropped = dropped
        self._number = -1

    def put(self, render: Render, *, keep: bool = False) -> bool:
        del keep
        self._number += 1
        if self._number in self._dropped:
            return False
        self.lines.extend(render())
        return True


def test_after_a_gap_the_trace_goes_on_and_remembers_nobody() -> None:
    sink = Leaky(0, 3)
    tracer = Tracer(sink, pool="dedicated")
    run_preloaded([tracer], [8, 8, 12], num_active=3, stream=True)
    lines = [parsed(line) for line in sink.lines]
    assert lines[-1][0] == "engine_stop"
    assert len(named(lines, "seq_complete")) == len(named(lines, "promise_fulfilled")) == 3
    assert named(lines, "token_stream_token") == []  # who has a stream was said in the step that is missing
    assert not tracer._teller._lives


def test_a_line_has_no_word_of_a_prompt_and_a_quoted_text_stays_one_value() -> None:
    assert trace_gap_line(3) == b"event=trace_gap dropped=3"
    allowed = {"first_token", "token"}
    assert {name for name, keys in TRACE_EVENTS.items() if allowed.intersection(keys)} == {
        "seq_prefilled",
        "token_stream_token",
    }
    assert not any("text" in key for keys in TRACE_EVENTS.values() for key in keys)


def test_the_writing_thread_gives_the_same_lines(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("trace") / "trace.txt"
    kept = LineList()
    with LineWriter.to_path(str(path), trace_gap_line, option="--trace") as writer:
        observers = [Tracer(writer, pool="dedicated"), Tracer(kept, pool="dedicated")]
        run_preloaded(observers, published_budgets(6), num_active=6, cancels={1: 3}, stream=True)
    assert path.read_bytes().splitlines() == kept.lines


def test_a_request_whose_id_is_alive_is_told_as_rejected() -> None:
    def same_id_twice(engine: Engine) -> None:
        ask(engine, request_id=1)
        ask(engine, request_id=1, stream=True)

    lines = by_hand(same_id_twice)
    assert named(lines, "request_rejected") == [{"request": "1", "error": "InvalidRequest"}]
    assert [each["reason"] for each in named(lines, "token_stream_closed")] == ["error"]
    assert len(named(lines, "admitted_complete")) == 1
