from collections.abc import Container, Sequence
from dataclasses import replace

import pytest

from arriero.core.errors import ConfigError
from arriero.core.ids import RequestId, SequenceId
from arriero.core.plan import Cap, Deferral, OverTarget, PrefillChunk, StepShape
from arriero.core.request import Request
from arriero.kv.protocol import NO_HIT, PrefixHit
from arriero.scheduler.draft import UNMETERED, PrefillBudget, StepDraft
from arriero.scheduler.progress import Progress
from arriero.scheduler.step_target import StepTarget
from arriero.testing.costs import flat_cost


class EndlessRoom:
    """Room for everybody, until `is_full`."""

    is_full = False

    def lookup(self, progress: Progress) -> PrefixHit:
        del progress
        return NO_HIT

    def foreseen(self, progress: Progress) -> int:
        del progress
        return 0

    def lend(self, progress: Progress) -> None:
        del progress

    def closed_to_all(self) -> Deferral | None:
        return None

    def cells_in_use(self) -> int:
        return 0

    def overtake(self, progress: Progress, hit: PrefixHit) -> Deferral | None:
        return self.admit(progress, hit)

    def admit(self, progress: Progress, hit: PrefixHit | None = None) -> Deferral | None:
        del progress, hit
        return Deferral.KV if self.is_full else None

    def promise(self, row: PrefillChunk) -> None:
        del row

    def extend_each(self, sequence_ids: Sequence[SequenceId]) -> bool:
        del sequence_ids
        return not self.is_full

    def extend(self, progress: Progress, taken: Container[SequenceId]) -> Deferral | None:
        assert progress.held_sequence not in taken
        return Deferral.YIELDED if self.is_full else None


def running(sequence_id: int, prompt: int = 10, *, decoding: bool = False) -> Progress:
    request = Request(request_id=RequestId(sequence_id), prompt=(1,) * prompt, max_tokens=9, arrival_at=0)
    progress = Progress(request, (sequence_id,))
    progress.admit(SequenceId(sequence_id), sequence_id)
    if decoding:
        progress.advance(progress.chunk(prompt))
        progress.append(5)
    return progress


def draft(num_rows: int = 16, per_sequence: int | None = None, per_step: int | None = None) -> StepDraft:
    return StepDraft(EndlessRoom(), num_rows=num_rows, budget=PrefillBudget(per_sequence, per_step))


@pytest.mark.parametrize(("field", "value"), [("per_sequence", 0), ("per_step", -1)])
def test_a_budget_under_which_nothing_moves_is_refused(field: str, value: int) -> None:
    with pytest.raises(ConfigError, match=field):
        replace(UNMETERED, **{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("num_rows", "per_sequence", "per_step", "taken", "caps"),
    [
        (16, None, None, [10, 6], (Cap.BATCH,)),
        (16, 4, None, [4, 4], (Cap.PER_SEQUENCE,)),
        (16, None, 12, [10, 2], (Cap.PER_STEP,)),
        (16, 8, 12, [8, 4], (Cap.PER_SEQUENCE, Cap.PER_STEP)),
        (30, 10, 20, [10, 10], ()),
    ],
)
def test_prompts_share_what_the_tightest_cap_leaves_and_the_cap_is_named(
    num_rows: int, per_sequence: int | None, per_step: int | None, taken: list[int], caps: tuple[Cap, ...]
) -> None:
    step = draft(num_rows, per_sequence, per_step)
    for each in (0, 1):
        assert step.prefill(running(each)) is None
    assert [row.num_rows for row in step.rows()] == taken
    assert step.caps_hit == caps


def test_a_prompt_that_gets_no_row_is_told_what_was_missing() -> None:
    step = draft(per_step=10)
    step.prefill(running(0))
    assert step.chunk_limit(running(1), 10) == 0
    assert step.prefill(running(1)) is Deferral.PREFILL_BUDGET
    step = draft(10)
    step.prefill(running(0))
    assert step.prefill(running(1)) is Deferral.ROWS
    assert step.decode(running(2, decoding=True)) is Deferral.ROWS


def test_a_planner_may_ask_for_fewer_rows_than_the_caps_allow() -> None:
    step = draft()
    assert step.prefill(running(0), 3) is None
    assert [row.num_rows for row in step.rows()] == [3]


def test_who_gave_its_place_away_has_no_row() -> None:
    room = EndlessRoom()
    step = StepDraft(room, num_rows=16, budget=UNMETERED)
    room.is_full = True
    assert step.decode(running(0, decoding=True)) is Deferral.YIELDED
    assert step.start(running(1)) is Deferral.KV
    assert step.rows() == ()


def test_rows_ascend_by_sequence_and_the_shape_counts_them() -> None:
    step = draft()
    step.decode(running(3, decoding=True))
    step.prefill(running(1, prompt=4))
    step.decode(running(0, decoding=True))
    assert [row.sequence_id for row in step.rows()] == [0, 1, 3]
    assert step.shape(5) == StepShape(decode_rows=2, prefill_rows=4, prefill_chunks=1, context_tokens=20, num_running=5)


def test_a_target_bounds_prompts_beside_decode_rows_only_and_the_tightest_cap_is_named() -> None:
    within = StepTarget(limit=2000, cost=flat_cost(1000, 100), least_rows=2)  # ten rows in all
    alone = StepDraft(EndlessRoom(), num_rows=64, budget=PrefillBudget(within=within))
    assert alone.prefill(running(1, prompt=40)) is None
    assert [row.num_rows for row in alone.rows()] == [40]
    for per_step, expected, cap in ((None, 9, Cap.ITL_TARGET), (30, 9, Cap.ITL_TARGET), (4, 4, Cap.PER_STEP)):
        step = StepDraft(EndlessRoom(), num_rows=64, budget=PrefillBudget(per_step=per_step, within=within))
        step.decode(running(0, decoding=True))
        assert step.prefill(running(1, prompt=40)) is None
        assert [row.num_rows for row in step.rows()] == [1, expected]
        assert step.caps_hit == (cap,)
        assert step.prefill(running(2, prompt=40)) is Deferral.PREFILL_BUDGET
        assert step.over_target is None


def test_a_prompt_that_gets_its_least_rows_beyond_the_target_is_told() -> None:
    within = StepTarget(limit=1200, cost=flat_cost(1000, 100), least_rows=3)
    step = StepDraft(EndlessRoom(), num_rows=64, budget=PrefillBudget(within=within))
    step.decode(running(0, decoding=True))
    step.prefill(running(1, prompt=40))
    assert [row.num_rows for row in step.rows()] == [1, 3]
    assert step.over_target is OverTarget.LEAST_ROWS


def test_rows_of_a_prompt_are_bounded_where_decode_rows_wait_for_a_step_of_their_own() -> None:
    within = StepTarget(limit=3000, cost=flat_cost(1000, 100), least_rows=2)
    step = StepDraft(EndlessRoom(), num_rows=64, budget=PrefillBudget(within=within))
    step.let_wait([running(3, decoding=True), running(0, decoding=True)], running(1, prompt=40))
    # a row for the prompt as well, which may come to its end
    assert step.chunk_limit(running(1, prompt=40), 20) == 7
    assert step.prefill(running(1, prompt=40)) is None
    assert [row.num_rows for row in step.rows()] == [7]
