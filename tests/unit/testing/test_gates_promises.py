"""A run that breaks a promise is found out, whatever the promise."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from arriero.core.config import ServeConfig
from arriero.core.events import Finished
from arriero.core.request import CancelReason, FinishReason
from arriero.engine.handle import CloseReason, Result
from arriero.engine.placement import Dedicated
from arriero.testing.gates import SMALL, Findings, GateContext, SyntheticBackends
from arriero.testing.gates.primitive import run_mix
from arriero.testing.gates.promises import check_run, hash_of, wasted_rows
from arriero.testing.gates.run_record import Answer, RunRecord

CONFIG = ServeConfig(ctx_size=12 * 256, sequences=12, batch=512)


@pytest.fixture(scope="module")
def run() -> RunRecord:
    context = GateContext(backends=SyntheticBackends(CONFIG), placement=Dedicated(), size=SMALL)
    findings = Findings()
    found = asyncio.run(run_mix(context, findings, 3))
    assert findings.reason is None
    return found


def broken(run: RunRecord) -> tuple[str, ...]:
    findings = Findings()
    check_run(run, findings)
    return findings.broken


def with_answer(run: RunRecord, **changes: Any) -> RunRecord:  # noqa: ANN401 - fields of every type
    first, *rest = run.answers
    return replace(run, answers=(replace(first, **changes), *rest))


def with_result(run: RunRecord, **changes: Any) -> RunRecord:  # noqa: ANN401 - fields of every type
    """The same run, in which the first request's result is another one, for its caller and in the log."""
    log = type(run.log)()
    for record in run.log.records:
        log.on_step(record)
    first: Answer = run.answers[0]
    result: Result = replace(first.result, **changes)
    log.results = [result if each == first.result else each for each in run.log.results]
    log.summary = run.log.summary
    return replace(with_answer(run, result=result), log=log)


def with_snapshot(run: RunRecord, **changes: Any) -> RunRecord:  # noqa: ANN401 - fields of every type
    assert run.log.summary is not None
    log = with_result(run).log
    summary = replace(run.summary, snapshot=replace(run.summary.snapshot, **changes))
    log.summary = summary
    return replace(run, log=log, summary=summary)


def test_sound_run_breaks_nothing(run: RunRecord) -> None:
    assert broken(run) == ()


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"streamed": (1, 2)}, "streamed 2 ids"),
        ({"close_reason": CloseReason.CANCELLED}, "its stream closed as cancelled"),
        ({"closed_first": False}, "its result came before its stream was closed"),
    ],
)
def test_stream_that_disagrees_with_its_result_is_found(run: RunRecord, changes: dict[str, Any], word: str) -> None:
    assert word in broken(with_answer(run, **changes))[0]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"token_hash": 7}, "its hash is 0x0000000000000007"),
        ({"decode_budget": 2}, "it decoded 4 of 2"),
        ({"kv_cleared": False}, "its sequence was not cleared"),
        ({"pos_max_at_clear": 3}, "its highest position was 3"),
        ({"finished_at": 0}, "its stamps are out of order"),
        ({"prompt_tokens": 16, "pos_max_at_clear": 18}, "17 prompt rows were computed for 16 prompt tokens"),
        ({"reason": FinishReason.CANCELLED, "num_decoded_at_cancel": 3}, "3 when its cancel was observed"),
    ],
)
def test_result_that_breaks_a_promise_is_found(run: RunRecord, changes: dict[str, Any], word: str) -> None:
    assert any(word in each for each in broken(with_result(run, **changes)))


def test_request_that_resolves_twice_is_found(run: RunRecord) -> None:
    twice = with_result(run)
    twice.log.results.append(twice.log.results[0])
    assert "not so: every request resolves exactly once" in broken(twice)


def test_end_of_a_run_is_checked(run: RunRecord) -> None:
    snapshot = run.summary.snapshot
    kv = replace(snapshot.scheduler.kv, active_cells=5)
    for changes, word in (
        ({"streams": replace(snapshot.streams, opened=4)}, "streams do not add up"),
        ({"totals": replace(snapshot.totals, submitted=4)}, "4 requests were submitted and 3 resolved"),
        ({"totals": replace(snapshot.totals, completed=4)}, "4 ends were counted for 3 results"),
        ({"scheduler": replace(snapshot.scheduler, kv=kv)}, "5 cells and 0 sequences are still held"),
    ):
        assert any(word in each for each in broken(with_snapshot(run, **changes)))


def test_memory_left_at_the_end_and_a_crash_are_found(run: RunRecord) -> None:
    log = with_result(run).log
    log.summary = replace(run.summary, residual_sequences=(2,), crashed="it fell over")
    found = broken(replace(run, log=log))
    assert found[:2] == ("the engine crashed: it fell over", "KV is left in sequences [2]")


def test_run_without_an_end_is_found(run: RunRecord) -> None:
    log = with_result(run).log
    log.summary = None
    assert broken(replace(run, log=log))[0] == "the engine never said that it has ended"


def test_steps_beyond_the_batch_or_out_of_order_are_found(run: RunRecord) -> None:
    assert "step 0 has 51 rows, and a batch holds 50" in broken(replace(run, num_rows=50))
    log = type(run.log)()
    for record in run.log.records:
        log.on_step(replace(record, plan=replace(record.plan, rows=record.plan.rows[::-1])))
    log.results, log.summary = run.log.results, run.log.summary
    assert broken(replace(run, log=log))[0] == "step 0 has its sequences in the order [2, 1, 0]"


def test_rows_of_a_request_that_has_ended_are_wasted(run: RunRecord) -> None:
    assert wasted_rows(run.log) == 0
    log = type(run.log)()
    for record in run.log.records:
        log.on_step(record)
    last = next(record for record in run.log.records if any(isinstance(event, Finished) for event in record.events))
    log.on_step(replace(last, events=()))
    # the request that ended there is computed once more, with the two that go on
    assert wasted_rows(log) == 3


def test_hash_is_folded_from_whole_ids() -> None:
    assert hash_of(()) == 0
    assert hash_of((1,)) == ((0xCBF29CE484222325 ^ 1) * 0x100000001B3) % 2**64
    assert hash_of((1, 2)) != hash_of((2, 1))


def test_answer_that_ended_at_a_stop_string_is_complete_to_its_reader(run: RunRecord) -> None:
    changes = {"reason": FinishReason.CANCELLED, "num_decoded_at_cancel": 4}
    assert broken(with_result(run, cancel_reason=CancelReason.STOP, **changes)) == ()
    assert "its stream closed as completed" in broken(with_result(run, cancel_reason=CancelReason.USER, **changes))[0]
