"""Journals, explained: what the records do not say outright, and what is missing."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from arriero.core.errors import BadJournal
from arriero.core.events import PreemptionCause
from arriero.core.request import FinishReason
from arriero.metrics.explain_parts import Basis, Explanation, Part, State
from arriero.record.cost_parts import cost_setup
from arriero.record.journal import chained_crc, encode_record
from arriero.record.journal_parts import EventRow, FinishedRow, PlannedRow, PreemptedRow, QueuedRow, TokenRow
from arriero.record.journal_schema import EndRecord, GapRecord, JournalRecord, StepRecord, TimeLine
from arriero.report.explain_journal import ExplainedRun, explain_journal
from tests.unit.costmodel.test_calibrated import COST
from tests.unit.report.test_journals import END, admitted, finished, start, step, submit


def journal(path: Path, *records: JournalRecord) -> Path:
    lines: list[bytes] = []
    crc = 0
    for record in records:
        crc = chained_crc(record, 0 if not lines else crc)
        lines.append(encode_record(msgspec.structs.replace(record, crc=crc)) + b"\n")
    path.write_bytes(b"".join(lines))
    return path


def explain(path: Path, *records: JournalRecord) -> ExplainedRun:
    (run,) = explain_journal(journal(path / "some.journal", *records))
    return run


def by_id(run: ExplainedRun) -> dict[int, Explanation]:
    return {each.request_id: each for each in run.requests}


def prompt(request: int, sequence: int, rows: int, *, wants: bool = True) -> PlannedRow:
    return PlannedRow(sequence, request, 0, rows, wants)


def row(request: int, sequence: int, position: int) -> PlannedRow:
    return PlannedRow(sequence, request, position, 1, wants_logits=True)


def began(*requests: int, at: int = 1_000) -> JournalRecord:
    """These have come at 990, start at once and get their first tokens; every prompt has 5 tokens."""
    events: list[EventRow] = [QueuedRow(each, 0) for each in requests]
    events += [admitted(each, each) for each in requests]
    events += [TokenRow(each, each, 0) for each in requests]
    return step(
        1,
        (at, at + 101),
        messages=tuple(submit(number, each, 5, 990) for number, each in enumerate(requests, start=1)),
        rows=tuple(prompt(each, each, 5) for each in requests),
        events=tuple(events),
    )


def test_a_run_that_was_measured_says_so_and_has_a_host(tmp_path: Path) -> None:
    run = explain(
        tmp_path,
        start(),
        began(1),
        step(2, (1_110, 1_121), rows=(row(1, 1, 5),), events=(TokenRow(1, 1, 1), finished(1, FinishReason.LENGTH))),
        END,
    )
    assert (run.name, run.evidence, run.basis, run.num_lost) == ("some", "MEASURED", Basis.ROWS, 0)
    (each,) = run.requests
    assert each.until_first.named == {"queue": 10, "own_prefill": 100, "host": 1}
    assert each.between.named == {"decode": 10, "host": 9 + 1}
    assert each.ending.state is State.LENGTH


def test_a_prompt_of_one_token_beside_decode_rows_is_no_decode_row(tmp_path: Path) -> None:
    second = step(
        2,
        (1_110, 1_131),
        messages=(submit(2, 2, 1, 1_100),),
        rows=(row(1, 1, 5), prompt(2, 2, 1)),
        events=(QueuedRow(2, 0), admitted(2, 2), TokenRow(1, 1, 1), TokenRow(2, 2, 0)),
    )
    shape = msgspec.structs.replace(second.plan.shape, decode_rows=1, prefill_rows=1, prefill_chunks=1)
    second = msgspec.structs.replace(second, plan=msgspec.structs.replace(second.plan, shape=shape))
    third = step(3, (1_140, 1_151), rows=(row(1, 1, 6), row(2, 2, 1)), events=(TokenRow(1, 1, 2), TokenRow(2, 2, 1)))
    found = by_id(explain(tmp_path, start(), began(1), second, third, END))
    assert found[1].split.of(Part.OTHERS_PREFILL) == found[2].split.of(Part.OWN_PREFILL) == 10
    assert found[2].split.of(Part.OTHERS_DECODE) == found[2].split.of(Part.DECODE) == 10
    assert found[1].split.of(Part.DECODE) == 20


def yielded(request: int) -> PreemptedRow:
    return PreemptedRow(request, request, PreemptionCause.NO_ROOM, 5)


def failed(request: int, error: str) -> FinishedRow:
    return msgspec.structs.replace(finished(request, FinishReason.FAILED), error=error)


@pytest.mark.parametrize(
    ("came", "events", "redone"),
    [
        # of the plan: whoever yielded there has no part in the step
        ("sampled", (yielded(2), TokenRow(1, 1, 1)), {1: 0, 2: 0}),
        # of the commit, after the call that found no room
        ("no_room", (yielded(2),), {1: 40, 2: 40}),
        # one of each
        ("no_room", (yielded(3), yielded(2)), {1: 40, 2: 40, 3: 0}),
        # the last one failed instead of yielding
        ("no_room", (yielded(3), failed(1, "kv_no_room")), {1: 40, 2: 40, 3: 0}),
        ("interrupted", (), {1: 40, 2: 40, 3: 40}),
        ("failed", (failed(1, "decode_failed"),), {1: 40, 2: 40}),
    ],
)
def test_who_lost_its_slot_before_the_rows_ran_has_no_part_in_them(
    tmp_path: Path, came: str, events: Sequence[EventRow], redone: dict[int, int]
) -> None:
    second = step(2, (1_101, 1_142), rows=(row(1, 1, 5),), events=tuple(events), came=came)
    found = by_id(explain(tmp_path, start(), began(1, 2, 3), second, END))
    assert {number: found[number].split.of(Part.REDONE) for number in redone} == redone
    for each in found.values():
        assert each.split.total == each.total


def test_missing_records_are_counted_and_those_alive_are_not_told_of(tmp_path: Path) -> None:
    run = explain(
        tmp_path,
        start(),
        began(1, 2),
        GapRecord(crc=0, dropped=3),
        step(7, (2_000, 2_011), rows=(row(1, 1, 9),), events=(TokenRow(1, 1, 5), finished(1, FinishReason.LENGTH))),
        step(
            8,
            (2_020, 2_051),
            messages=(submit(9, 5, 6, 2_011),),
            rows=(row(2, 2, 9), prompt(5, 0, 5)),
            events=(QueuedRow(5, 0), admitted(5, 0), TokenRow(2, 2, 5), TokenRow(5, 0, 0)),
        ),
        END,
    )
    assert run.num_lost == 2
    (each,) = run.requests
    assert (each.request_id, each.ending.state) == (5, State.UNFINISHED)
    assert each.split.total == each.total == 40


def test_a_run_that_crashed_leaves_those_alive_unfinished(tmp_path: Path) -> None:
    crashed = EndRecord(crc=0, ended_at=5_000, given_up_at=None, crashed="ZeroDivisionError", events=())
    (each,) = explain(tmp_path, start(), began(1), crashed).requests
    assert (each.ending.state, each.moments.until) == (State.UNFINISHED, 1_101)


def test_who_was_given_up_after_the_last_step_waited_until_then(tmp_path: Path) -> None:
    first = step(1, (1_000, 1_000), messages=(submit(1, 1, 5, 990),), events=(QueuedRow(1, 0),))
    ended = msgspec.structs.replace(finished(1, FinishReason.ABORTED), sequence=None)
    end = EndRecord(crc=0, ended_at=3_100, given_up_at=3_000, crashed=None, events=(ended,))
    (each,) = explain(tmp_path, start(), first, end).requests
    assert (each.ending.state, each.split.named) == (State.ABORTED, {"queue": 2_010})


def test_milliseconds_with_a_fraction_become_whole_microseconds(tmp_path: Path) -> None:
    first = step(
        1,
        (1.5, 3.25),
        messages=(submit(1, 1, 5, 1.25),),
        rows=(prompt(1, 1, 5),),
        events=(QueuedRow(1, 0), admitted(1, 1), TokenRow(1, 1, 0), finished(1, FinishReason.LENGTH)),
    )
    first = msgspec.structs.replace(first, decode_time=1.75)
    run = explain(
        tmp_path,
        start(time_line=TimeLine.MILLISECONDS),
        first,
        EndRecord(crc=0, ended_at=4.0, given_up_at=None, crashed=None, events=()),
    )
    assert run.evidence == "SIMULATED"
    assert run.requests[0].split.named == {"queue": 250, "own_prefill": 1_750}


def test_equal_steps_of_one_record_are_so_many_tokens(tmp_path: Path) -> None:
    counted = step(1, (1_000, 1_101), messages=(submit(1, 1, 5, 1_000),), rows=(prompt(1, 1, 5),), came="counted")
    counted = msgspec.structs.replace(counted, events=(QueuedRow(1, 0), admitted(1, 1)))
    jump = step(2, (1_101, 1_142), rows=(row(1, 1, 5),), events=(finished(1, FinishReason.LENGTH),), came="counted")
    outcome = jump.outcome
    assert outcome is not None
    jump = msgspec.structs.replace(jump, outcome=msgspec.structs.replace(outcome, times=4))
    (each,) = explain(tmp_path, start(), counted, jump, END).requests
    assert (each.num_tokens, each.moments.first_token, each.moments.last_token) == (5, 1_101, 1_142)
    assert each.between.named == {"decode": 40, "host": 1}


def test_costs_in_the_journal_divide_its_steps_and_those_that_are_given_go_before(tmp_path: Path) -> None:
    plain = start()
    setup = msgspec.structs.replace(
        plain.setup, limits=msgspec.structs.replace(plain.setup.limits, cost=cost_setup(COST))
    )
    costed = msgspec.structs.replace(plain, setup=setup)
    for first, given, basis in ((plain, None, Basis.ROWS), (plain, COST, Basis.COST), (costed, None, Basis.COST)):
        path = journal(tmp_path / "some.journal", first, began(1), END)
        (run,) = explain_journal(path, given)
        assert run.basis is basis


def test_two_runs_of_a_file_are_told_apart(tmp_path: Path) -> None:
    one = journal(tmp_path / "one", start(), began(1), END).read_bytes()
    (tmp_path / "both.jsonl").write_bytes(one + one)
    assert [run.name for run in explain_journal(tmp_path / "both.jsonl")] == ["both #1", "both #2"]


def test_a_damaged_journal_names_its_file_and_line(tmp_path: Path) -> None:
    path = journal(tmp_path / "some.journal", start(), began(1), END)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(BadJournal, match="line 3"):
        explain_journal(path)


def test_who_waits_for_a_prefix_is_named_by_the_plans(tmp_path: Path) -> None:
    first = began(1)
    assert isinstance(first, StepRecord)
    plan = msgspec.structs.replace(first.plan, followers=(2,))
    first = msgspec.structs.replace(
        first,
        plan=plan,
        messages=(*first.messages, submit(2, 2, 9, 995)),
        events=(*first.events[:1], QueuedRow(2, 0), *first.events[1:]),
    )
    found = by_id(explain(tmp_path, start(), first, END))
    assert found[2].split.named == {"queue": 5, "prefix": 101}
