"""The executor: what reaches the backend, what is reported as refused, whose rows are left out."""

from collections.abc import Sequence

import pytest

from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.backend.synthetic_memory import SyntheticStore
from arriero.core.errors import InvariantViolation
from arriero.core.events import (
    CopySequence,
    DropSequence,
    Finished,
    ForgetSaved,
    KvOp,
    MoveSequence,
    RestoreSequence,
    SaveSequence,
    TrimSequence,
)
from arriero.core.ids import SavedKey, SequenceId
from arriero.core.plan import BatchPlan, Row, Sampled, StepShape
from arriero.core.request import FinishReason, Request, RequestState, SamplingParams
from arriero.engine.executor import Executor
from arriero.testing.fakes import FaultyBackend
from arriero.testing.faults import Fault, RefusedOp
from arriero.testing.suite_rows import FIRST, SECOND, THIRD, chunk, request_of, tokens_of

KEY = SavedKey(1)
LAST = SequenceId(3)
PROMPT = tokens_of(6)
SAVE = SaveSequence(FIRST, KEY, 6, "scope", PROMPT)


class Rig:
    """An executor over a synthetic backend, with a prompt computed on the first sequence."""

    def __init__(self, *faults: Fault, check: bool = True) -> None:
        self.backend = FaultyBackend(SyntheticBackend(SyntheticOptions(), store=SyntheticStore()), *faults)
        self.executor = Executor(self.backend, check=check)
        self.request = request_of(PROMPT)
        self.run(chunk(self.request, FIRST))

    def run(self, *rows: Row) -> Sampled:
        outcome = self.executor.run(plan_of(rows))
        assert isinstance(outcome, Sampled)
        return outcome


def plan_of(rows: Sequence[Row]) -> BatchPlan:
    return BatchPlan(
        step=1,
        rows=tuple(rows),
        shape=StepShape(0, 0, 0, 0, 0),
        events=(),
        caps_hit=(),
        num_waiting=0,
        wake_at=None,
    )


def test_every_operation_reaches_the_memory_in_order() -> None:
    rig = Rig()
    reports = rig.executor.settle([
        CopySequence(FIRST, SECOND, 4),
        SAVE,
        MoveSequence(FIRST, THIRD),
        TrimSequence(THIRD, 5),
        RestoreSequence(FIRST, KEY, 3),
        ForgetSaved(KEY),
        DropSequence(THIRD),
    ])
    positions = [rig.backend.positions(SequenceId(each)) for each in range(4)]
    assert positions == [(0, 2), (0, 3), None, None]
    assert (reports[THIRD].pos_max, reports[THIRD].cleared) == (4, True)
    assert rig.run().refused == ()
    assert rig.executor.close() == (FIRST, SECOND)


@pytest.mark.parametrize(
    "op", [CopySequence(FIRST, SECOND, 4), MoveSequence(FIRST, SECOND), RestoreSequence(SECOND, KEY, 4)]
)
def test_rows_of_a_sequence_that_could_not_be_filled_are_left_out(op: KvOp) -> None:
    rig = Rig(RefusedOp(type(op), SECOND))
    other = request_of(tokens_of(4, first=9), request_id=2)
    rig.executor.settle([SAVE, op])
    outcome = rig.run(chunk(rig.request, SECOND, 4), chunk(other, THIRD))
    assert outcome.refused == (op,)
    assert list(outcome.tokens) == [THIRD]
    assert rig.backend.positions(SECOND) is None
    assert rig.run(chunk(rig.request, SECOND)).refused == (), "told once"


def test_a_run_that_could_not_be_saved_harms_nobody() -> None:
    rig = Rig(RefusedOp(SaveSequence))
    rig.executor.settle([SAVE])
    outcome = rig.run(chunk(request_of((*PROMPT, 30)), FIRST, 6))
    assert outcome.refused == (SAVE,)
    assert list(outcome.tokens) == [FIRST]


def test_what_follows_from_a_refused_operation_is_refused_too() -> None:
    rig = Rig(RefusedOp(CopySequence, SECOND))
    ops = [CopySequence(FIRST, SECOND, 4), CopySequence(SECOND, THIRD, 4), CopySequence(FIRST, LAST, 4)]
    rig.executor.settle(ops)
    outcome = rig.run(*(chunk(rig.request, each, 4) for each in (SECOND, THIRD, LAST)))
    assert outcome.refused == (ops[0], ops[1])
    assert list(outcome.tokens) == [LAST]


def test_only_a_clearing_is_tried_twice() -> None:
    rig = Rig(
        RefusedOp(DropSequence, FIRST, times=1),
        RefusedOp(TrimSequence, FIRST, times=1),
        RefusedOp(CopySequence, SECOND, times=1),
    )
    rig.executor.settle([TrimSequence(FIRST, 5), CopySequence(FIRST, SECOND, 4), DropSequence(FIRST)])
    assert rig.run().refused == (CopySequence(FIRST, SECOND, 4),)
    assert rig.backend.positions(FIRST) is None


def test_the_check_finds_a_bystander_that_moved() -> None:
    class AlsoTrims(FaultyBackend):
        def apply(self, op: KvOp) -> bool:
            return super().apply(TrimSequence(FIRST, 1)) and super().apply(op)

    for op in (CopySequence(FIRST, SECOND, 1), RestoreSequence(SECOND, KEY, 1), DropSequence(THIRD)):
        backend = AlsoTrims(SyntheticBackend(SyntheticOptions(), store=SyntheticStore()))
        executor = Executor(backend, check=True)
        executor.run(plan_of([chunk(request_of(PROMPT), FIRST)]))
        with pytest.raises(InvariantViolation, match="changed the positions of"):
            executor.settle([op])


def test_the_check_lets_a_move_change_both() -> None:
    rig = Rig(check=True)
    rig.executor.settle([MoveSequence(FIRST, SECOND)])
    assert rig.executor.close() == (SECOND,)


def test_an_end_forgets_the_sampler_of_its_request() -> None:
    rig = Rig()
    stochastic = request_of(tokens_of(3), request_id=5, sampling=SamplingParams(temperature=1.0, seed=1))
    first = rig.run(chunk(stochastic, SECOND)).tokens
    rig.executor.settle([DropSequence(SECOND), end_of(stochastic)])
    again = rig.run(chunk(stochastic, SECOND)).tokens
    assert first == again, "a new sampler begins with the seed again"


def end_of(request: Request) -> Finished:
    return Finished(
        request=request,
        reason=FinishReason.LENGTH,
        sequence_id=SECOND,
        step=1,
        num_decoded=1,
        num_computed=3,
        state=RequestState.DECODING,
        at=0,
    )
