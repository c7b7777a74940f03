"""Journals as the live engine writes them: tokens are told, callers cancel, records go missing."""

import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from arriero.core.events import AdmissionSource, PreemptionCause
from arriero.core.request import CancelReason, FinishReason, RequestState
from arriero.record.journal import chained_crc, encode_record
from arriero.record.journal_parts import (
    AdmittedRow,
    Dropped,
    EventRow,
    FinishedRow,
    MessageRow,
    OutcomeRow,
    PlannedRow,
    PlanRow,
    PreemptedRow,
    PromptShape,
    QueuedRow,
    RejectedRow,
    ShapeRow,
    SubmitRow,
    TokenRow,
)
from arriero.record.journal_schema import (
    SCHEMA,
    EndRecord,
    GapRecord,
    JournalRecord,
    StartRecord,
    StepRecord,
    TimeLine,
)
from arriero.record.journal_setup import (
    BlocksSetup,
    CellsSetup,
    DecodeFirstSetup,
    FirstComeSetup,
    LimitsSetup,
    LowestFirstSetup,
    MemorySetup,
    Setup,
)
from arriero.report.reading import read_runs
from arriero.report.run_view import RunView

CELLS = CellsSetup(num_cells=100, num_sequences=2, sequence_limit=100, unified=True)


def start(kv: MemorySetup = CELLS, time_line: TimeLine = TimeLine.MICROSECONDS, num_rows: int = 16) -> StartRecord:
    limits = LimitsSetup(
        num_rows=num_rows, prefill_rows_per_seq=None, prefill_rows_per_step=None, headroom_per_sequence=8
    )
    setup = Setup(kv=kv, ids=LowestFirstSetup(), planner=DecodeFirstSetup(), policy=FirstComeSetup(), limits=limits)
    return StartRecord(
        crc=0, schema=SCHEMA, written_by="arriero 0", time_line=time_line, setup=setup, kept_runs=1, kept_tokens=1
    )


def submit(number: int, request: int, prompt: int, at: float) -> SubmitRow:
    return SubmitRow(
        number=number, request=request, epoch=0, prompt=PromptShape(None, 0, prompt), max_tokens=9, min_tokens=0,
        has_end_tokens=False, arrival_at=at, expires_at=None, preloaded=False,
    )  # fmt: skip


def step(
    number: int,
    times: tuple[float, float],
    *,
    messages: tuple[MessageRow, ...] = (),
    rows: tuple[PlannedRow, ...] = (),
    events: tuple[EventRow, ...] = (),
    came: str = "sampled",
    equal: int = 1,
) -> StepRecord:
    """A step whose decode call took one unit less than the step."""
    began_at, ended_at = times
    prefill = sum(row.length for row in rows if row.length > 1)
    shape = ShapeRow(sum(row.length == 1 for row in rows), prefill, int(prefill > 0), 0, len(rows))
    plan = PlanRow(step=number, rows=rows, shape=shape, caps_hit=(), deferrals={}, num_waiting=0, wake_at=None)
    words: Any = {"came": came, "ends": (), "failures": (), "refused": (), "times": equal}
    outcome = OutcomeRow(**words) if rows else None
    return StepRecord(
        crc=0, began_at=began_at, committed_at=ended_at if rows else None, ended_at=ended_at,
        decode_time=ended_at - began_at - 1 if rows else 0, messages=messages, plan=plan, outcome=outcome,
        events=events,
    )  # fmt: skip


def admitted(request: int, sequence: int, *, resumed: bool = False) -> AdmittedRow:
    return AdmittedRow(request, sequence, next(iter(AdmissionSource)), None, resumed)


def finished(request: int, reason: FinishReason, cancel: CancelReason | None = None) -> FinishedRow:
    return FinishedRow(request, reason, 0, 1, 1, RequestState.DECODING, cancel, None)


def view(path: Path, *records: JournalRecord) -> RunView:
    lines: list[bytes] = []
    crc = 0
    for record in records:
        crc = chained_crc(record, crc)
        lines.append(encode_record(msgspec.structs.replace(record, crc=crc)) + b"\n")
    path.write_bytes(b"".join(lines))
    (run,) = read_runs([path])
    return run


END = EndRecord(crc=0, ended_at=9_000, given_up_at=None, crashed=None, events=())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "live.journal"


def lived(path: Path, *more: JournalRecord) -> RunView:
    """Request 7 gets two tokens on sequence 0; 8 is rejected; 9 is cancelled."""
    first = step(
        0,
        (1_000, 1_100),
        messages=(submit(1, 7, 5, 990), submit(2, 8, 500, 995), submit(3, 9, 3, 998)),
        rows=(PlannedRow(0, 7, 0, 5, wants_logits=True), PlannedRow(1, 9, 0, 3, wants_logits=True)),
        events=(
            QueuedRow(7, 0), RejectedRow(8, "ContextTooLong"), QueuedRow(9, 1), admitted(7, 0), admitted(9, 1),
            TokenRow(7, 0, 0), TokenRow(9, 1, 0),
        ),
    )  # fmt: skip
    second = step(
        1,
        (1_110, 1_150),
        rows=(PlannedRow(0, 7, 5, 1, wants_logits=True),),
        events=(
            finished(9, FinishReason.CANCELLED, CancelReason.USER), Dropped(1), TokenRow(7, 0, 1),
            finished(7, FinishReason.LENGTH), Dropped(0),
        ),
    )  # fmt: skip
    return view(path, start(), first, second, *more)


def test_times_count_from_the_first_arrival_and_are_measured(path: Path) -> None:
    run = lived(path, END)
    assert run.evidence == "MEASURED"
    assert run.requests.moments["arrival"].tolist() == [0, 5, 8]
    assert run.requests.moments["first"].tolist()[0] == 110
    assert run.requests.latencies["ttft"].tolist()[0] == 110
    assert run.requests.latencies["e2e"].tolist()[0] == 160
    assert run.notes == ()


def test_every_end_is_told_apart(path: Path) -> None:
    run = lived(path, END)
    assert run.requests.outcomes == ("finished", "rejected", "cancelled")
    assert run.requests.amounts["generated_tokens"].tolist() == [2, 0, 1]
    assert np.isnan(run.requests.moments["started"][1])


def test_cells_follow_from_admissions_rows_and_drops(path: Path) -> None:
    steps = lived(path, END).steps
    assert steps is not None
    assert steps.values["kv_held"].tolist() == [8, 0]
    assert steps.values["prefill_rows"].tolist() == [8, 0]


def test_an_answer_that_a_stop_string_ended_is_whole_and_faults_are_failures(path: Path) -> None:
    for reason, cancel, outcome in (
        (FinishReason.CANCELLED, CancelReason.STOP, "finished"),
        (FinishReason.STOP, None, "finished"),
        (FinishReason.ABORTED, None, "failed"),
        (FinishReason.FAILED, None, "failed"),
    ):
        only = step(
            0,
            (0, 10),
            messages=(submit(1, 1, 4, 0),),
            rows=(PlannedRow(0, 1, 0, 4, wants_logits=True),),
            events=(QueuedRow(1, 0), admitted(1, 0), TokenRow(1, 0, 0)),
        )
        end = msgspec.structs.replace(END, events=(finished(1, reason, cancel),))
        assert view(path, start(), only, end).requests.outcomes == (outcome,)


def test_a_step_that_gave_nothing_holds_no_cells_and_a_preemption_is_computed_again(path: Path) -> None:
    rows = (PlannedRow(0, 1, 0, 4, wants_logits=True),)
    told = (QueuedRow(1, 0), admitted(1, 0), TokenRow(1, 0, 0))
    lost = (PreemptedRow(1, 0, PreemptionCause.NO_ROOM, 4), Dropped(0))
    again = (admitted(1, 0, resumed=True), TokenRow(1, 0, 1))
    records = (
        step(0, (0, 10), messages=(submit(1, 1, 4, 0),), rows=rows, events=told),
        step(1, (10, 20), rows=(PlannedRow(0, 1, 4, 1, wants_logits=True),), came="no_room", events=lost),
        step(2, (20, 30), rows=(PlannedRow(0, 1, 0, 5, wants_logits=True),), events=again),
    )
    run = view(path, start(), *records, END)
    assert run.steps is not None
    assert run.steps.values["kv_held"].tolist() == [4, 0, 5]
    assert run.requests.amounts["preemptions"].tolist() == [1]
    assert run.requests.amounts["recomputed_tokens"].tolist() == [4]


def test_what_is_missing_is_said(path: Path) -> None:
    unknown = step(5, (2_000, 2_010), rows=(PlannedRow(0, 40, 3, 1, wants_logits=True),), events=(TokenRow(40, 0, 3),))
    run = lived(path, GapRecord(crc=0, dropped=12), unknown)
    assert any("12 records are missing" in note for note in run.notes)
    assert any("no end record" in note for note in run.notes)
    assert run.requests.num_requests == 3


@pytest.mark.parametrize(("time_line", "us"), [(TimeLine.MICROSECONDS, 1), (TimeLine.MILLISECONDS, 1_000)])
def test_equal_steps_of_one_record_are_steps_of_their_own(path: Path, time_line: TimeLine, us: int) -> None:
    first = step(
        0,
        (10, 20),
        messages=(submit(1, 1, 4, 10), submit(2, 2, 3, 10)),
        rows=(PlannedRow(0, 1, 0, 4, wants_logits=True), PlannedRow(1, 2, 0, 3, wants_logits=True)),
        events=(QueuedRow(1, 0), QueuedRow(2, 1), admitted(1, 0), admitted(2, 1)),
        came="counted",
    )
    rows = (PlannedRow(0, 1, 4, 1, wants_logits=True), PlannedRow(1, 2, 3, 1, wants_logits=True))
    told = (finished(2, FinishReason.LENGTH), Dropped(1))
    equal = step(1, (20, 50), rows=rows, events=told, came="counted", equal=3)
    alone = step(4, (50, 60), rows=(PlannedRow(0, 1, 7, 1, wants_logits=True),), came="counted")
    run = view(path, start(time_line=time_line), first, equal, alone, END)
    assert run.steps is not None
    assert run.steps.began_at.tolist() == [each * us for each in (0, 10, 20, 30, 40)]
    assert run.steps.ended_at.tolist() == [each * us for each in (10, 20, 30, 40, 50)]
    assert run.steps.values["decode_rows"].tolist() == [0, 2, 2, 2, 1]
    assert run.steps.values["kv_held"].tolist() == [7, 9, 11, 7, 8]  # after each; the third of them ends a request
    assert run.step_figures.num_steps == 5
    assert run.step_figures.kv_peak == 13  # while that one still holds its cells
    assert run.requests.amounts["generated_tokens"].tolist() == [5, 4]
    assert run.requests.gaps.pooled == {10 * us: 7}
    assert run.requests.moments["ended"].tolist()[1] == 40 * us


def test_float_milliseconds_become_microseconds(path: Path) -> None:
    only = step(
        0,
        (10.0, 12.5),
        messages=(submit(1, 1, 4, 10.0),),
        rows=(PlannedRow(0, 1, 0, 4, wants_logits=True),),
        events=(QueuedRow(1, 0), admitted(1, 0), TokenRow(1, 0, 0), finished(1, FinishReason.LENGTH)),
    )
    run = view(path, start(time_line=TimeLine.MILLISECONDS), only, END)
    assert run.requests.latencies["ttft"].tolist() == [2_500]


def test_steps_without_a_bound_of_rows_use_no_share_of_it(path: Path) -> None:
    only = step(0, (0, 10), messages=(submit(1, 1, 4, 0),), rows=(PlannedRow(0, 1, 0, 4, wants_logits=False),))
    assert view(path, start(num_rows=16), only, END).step_figures.batch_utilization == 0.25
    unbounded = view(path, start(num_rows=sys.maxsize), only, END)
    assert unbounded.limits.rows is None
    assert unbounded.step_figures.batch_utilization is None


def test_other_memory_than_cells_is_not_drawn(path: Path) -> None:
    blocks = BlocksSetup(
        num_blocks=4, block_size=4, is_cached=False, release_refreshes=False, deepest_first=False, has_heirs=False,
        shares_at_once=False,
    )  # fmt: skip
    only = step(0, (0, 5), messages=(submit(1, 1, 4, 0),), rows=(PlannedRow(0, 1, 0, 4, wants_logits=False),))
    run = view(path, start(blocks), only, END)
    assert run.limits.kv_places is None
    assert run.steps is not None
    assert "kv_held" not in run.steps.values
    assert any("drawn for cells only" in note for note in run.notes)
