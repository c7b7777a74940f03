"""A journal, read for a what-if: what is simulated again from it is what it says."""

from dataclasses import replace
from pathlib import Path

import pytest

from arriero.core.errors import BadJournal
from arriero.core.events import CancelById
from arriero.kv.reuse import ReuseRules
from arriero.metrics.client_life import Outcome
from arriero.record.journal_setup import Setup
from arriero.sim.asked import Asked
from arriero.sim.composition import build_memory, build_scheduler
from arriero.sim.journal import SimulationJournal
from arriero.sim.own_answers import KnownAnswers
from arriero.sim.recorded_run import read_recorded_run
from arriero.sim.simulator import Answers, Cancellation, Message, NoAnswers, Simulator, Submission, always, never
from arriero.sim.synthetic_runs import END
from arriero.sim.whatif import simulate
from tests.unit.sim.whatif_rig import CALIBRATED, LINEAR, asked, one, setup_of

CROWD = asked(*((1500 * number, 5 + 11 * number % 90, 3 + number % 9) for number in range(24)))


def journal_of(
    tmp_path: Path, setup: Setup, work: tuple[Asked, ...], *, jumps: bool = False, shift: int = 0, **more: object
) -> Path:
    """The journal of these requests, `shift` microseconds later."""
    messages: list[Message] = []
    for each in work:
        messages.append(Submission(replace(each.request, arrival_at=each.request.arrival_at + shift)))
        if each.cancel_after_us is not None:
            at = each.request.arrival_at + shift + each.cancel_after_us
            messages.append(Cancellation(CancelById(each.request.request_id), at))
    answers: Answers = NoAnswers()
    if any(each.answer or each.request.cache_scope is not None for each in work):
        answers = KnownAnswers({each.request.request_id: each.answer for each in work})
    simulator = Simulator(
        scheduler=build_scheduler(setup, build_memory(setup)),
        cost=more.get("cost", LINEAR),  # type: ignore[arg-type]
        answers=answers,
        jumps=always if jumps else never,
    )
    path = tmp_path / "run.jsonl"
    with path.open("wb") as file:
        for _ in SimulationJournal(file.write).follow(simulator.run(messages, start_at=shift), setup):
            pass
    return path


@pytest.mark.parametrize("jumps", [False, True])
def test_simulating_a_recorded_simulation_gives_its_lives_again(tmp_path: Path, jumps: bool) -> None:  # noqa: FBT001
    setup = setup_of(sequences=3)
    run = read_recorded_run(journal_of(tmp_path, setup, CROWD, jumps=jumps, shift=7_000))
    again = simulate(run.setup, LINEAR, run.asked)
    assert run.setup == setup
    assert [life.chunk_at for life in run.lives] == [life.chunk_at for life in again.lives]
    assert [life.closed_at for life in run.lives] == [life.closed_at for life in again.lives]
    assert {life.outcome for life in run.lives} == {Outcome.LENGTH}
    assert len(run.steps) == again.num_steps
    assert run.busy_us == again.busy_us


def test_a_calibrated_cost_predicts_recorded_steps(tmp_path: Path) -> None:
    setup = setup_of(sequences=3)
    run = read_recorded_run(journal_of(tmp_path, setup, CROWD, cost=CALIBRATED))
    assert [CALIBRATED.time(step.rows) for step in run.steps] == [step.took_us for step in run.steps]


def test_answers_that_ended_themselves_do_so_again(tmp_path: Path) -> None:
    prompt = tuple(range(50, 80))
    ends = frozenset({END})
    work = (
        one(1, 0, prompt, 40, answer=(7, 8, END), end_tokens=ends),
        one(2, 100, 6, 40, answer=(END,), end_tokens=ends),
        one(3, 200, 6, 3),
    )
    run = read_recorded_run(journal_of(tmp_path, setup_of(), work))
    assert [life.outcome for life in run.lives] == [Outcome.STOP, Outcome.STOP, Outcome.LENGTH]
    assert [len(life.chunk_at) for life in run.lives] == [2, 0, 3]
    again = simulate(run.setup, LINEAR, run.asked)
    assert [(life.outcome, life.chunk_at, life.closed_at) for life in run.lives] == [
        (life.outcome, life.chunk_at, life.closed_at) for life in again.lives
    ]


def test_a_client_that_gave_up_does_so_again_as_late(tmp_path: Path) -> None:
    work = (one(1, 0, 8, 200, cancel_after_us=10_000), one(2, 500, 8, 5))
    run = read_recorded_run(journal_of(tmp_path, setup_of(sequences=1), work, shift=300))
    assert [life.outcome for life in run.lives] == [Outcome.CANCELLED_BY_CLIENT, Outcome.LENGTH]
    first = run.asked[0]
    assert first.request.max_tokens == 200, "nobody knows how long the answer would have been"
    assert first.cancel_after_us is not None
    assert 10_000 <= first.cancel_after_us < 12_000, "from the arrival to the boundary that acted on it"
    again = simulate(run.setup, LINEAR, run.asked)
    assert [life.outcome for life in again.lives] == [life.outcome for life in run.lives]


def test_prefixes_are_shared_as_far_as_they_were(tmp_path: Path) -> None:
    setup = setup_of(sequences=2, retained=3, reuse=ReuseRules(), cells=4096)
    common = tuple(range(100, 150))
    work = (
        one(1, 0, (*common, 1, 2), 4, answer=(9, 9, 9, 9)),
        one(2, 10**6, (*common, 3), 4, answer=(8, 8, 8, 8)),
        one(3, 2 * 10**6, (*common, 1, 2, 9, 9, 9, 9, 5), 4, answer=(6, 6, 6, 6)),
    )
    run = read_recorded_run(journal_of(tmp_path, setup, work))
    again = simulate(run.setup, LINEAR, run.asked)
    assert [life.cached_tokens for life in run.lives] == [life.cached_tokens for life in again.lives] == [0, 50, 55]


def test_who_was_rejected_is_left_out_and_counted(tmp_path: Path) -> None:
    work = (one(1, 0, 9000, 4), one(2, 10, 8, 4))
    run = read_recorded_run(journal_of(tmp_path, setup_of(), work))
    assert [each.name for each in run.asked] == ["journal-000002"]
    assert run.num_rejected == 1
    assert run.asked[0].request.request_id == 1


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (lambda lines: [*lines, *lines], "another run begins here"),
        (lambda lines: lines[:1], "nobody asked for anything"),
        (lambda lines: [lines[0], lines[1][:40]], "damaged"),
    ],
    ids=["two-runs", "empty", "cut"],
)
def test_what_cannot_be_simulated_again_is_told(tmp_path: Path, lines, says: str) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    path = journal_of(tmp_path, setup_of(), CROWD)
    path.write_bytes(b"".join(lines(path.read_bytes().splitlines(keepends=True))))
    with pytest.raises(BadJournal, match=says) as caught:
        read_recorded_run(path)
    assert caught.value.file == str(path)
