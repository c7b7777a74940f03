"""Bursts: how they are made, what a bare loop computes, what is judged, and both quick variants on the formula."""

import itertools

import pytest
from msgspec.structs import replace

from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.bench.experiments.bare_loop import BareLoop
from arriero.bench.experiments.burst_load import Burst, BurstRun, BurstShape, burst_of
from arriero.bench.experiments.burst_rounds import BurstLab, first_share, speed_share
from arriero.bench.experiments.burst_sides import BARE
from arriero.bench.experiments.cold_fan_out import EXPERIMENT as COLD_FAN_OUT
from arriero.bench.experiments.cold_fan_out import judge as judge_fan_out
from arriero.bench.experiments.definition import read_definition
from arriero.bench.experiments.experiment import Judgement
from arriero.bench.experiments.failed_cells import FailedCells
from arriero.bench.experiments.shared_burst import EXPERIMENT as SHARED_BURST
from arriero.bench.experiments.sides import OURS, THEIRS
from arriero.core.errors import ConfigError
from arriero.metrics.client_life import ClientLife, Outcome
from tests.unit.bench.experiments.running import definition, find, not_so, rows_of, run_quick

MS = 1_000_000
SHAPE = BurstShape(
    requests=6, clients=3, prefix_tokens=20, own_tokens=5, budget=4, first_token=0, vocabulary=200
)  # fmt: skip


def test_prompts_of_a_burst_share_its_prefix_and_not_one_token_more() -> None:
    burst = burst_of(SHAPE, 3, seed=1)
    assert burst == burst_of(SHAPE, 3, seed=1)
    assert len(burst.prefix) == 20
    assert [len(own) for own in burst.owns] == [5] * 6
    firsts = [own[0] for own in burst.owns]
    assert len(set(firsts)) == 6
    assert SHAPE.ideal_rows == 20 + 6 * 5
    assert burst_of(SHAPE, 4, seed=1).prefix != burst.prefix


def test_more_requests_than_ids_are_refused() -> None:
    with pytest.raises(ConfigError, match="vocabulary: 6 ids"):
        replace(SHAPE, vocabulary=6).check()


class Counted(SyntheticBackend):
    """Counts the rows that it computes."""

    num_rows = 0

    def decode(self, rows):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201 - as in the protocol
        self.num_rows += sum(row.num_rows for row in rows)
        return super().decode(rows)


@pytest.mark.parametrize("unified", [False, True])
def test_bare_loop_computes_the_prefix_once_and_answers_as_the_formula_does_alone(unified: bool) -> None:  # noqa: FBT001 - a table
    options = SyntheticOptions(num_sequences=3, num_rows=32, num_cells=3 * 64, unified=unified)
    backend = Counted(options)
    ticks = itertools.count(0, MS)
    burst = burst_of(SHAPE, 0, seed=2)
    lives = BareLoop(backend, clock=lambda: next(ticks)).serve(SHAPE, burst)
    assert sorted(life.request_id for life in lives) == [burst.request_id(number) for number in range(6)]
    assert all(life.num_tokens == 4 and len(life.chunk_at) == 4 for life in lives)
    decoded = 6 * (SHAPE.budget - 1)
    assert backend.num_rows == SHAPE.ideal_rows + decoded
    sent = [life.sent_at for life in lives]
    assert sum(at == 0 for at in sent) == 3, "the others are sent when a lane is free"


def test_bare_loop_refuses_a_context_that_is_too_small() -> None:
    backend = SyntheticBackend(SyntheticOptions(num_sequences=2, num_rows=32, num_cells=256))
    with pytest.raises(ConfigError, match="3 sequences"):
        BareLoop(backend).serve(SHAPE, Burst(name="b", prefix=(1, 2), owns=((3,), (4,), (5,))))


def run_of(side: str, number: int, *, first_ms: float = 10, total_ms: float = 100, rows: int | None = 50,
           requests: int = 6) -> BurstRun:  # fmt: skip
    lives = tuple(
        ClientLife(
            request_id=f"r{index}", intended_at=None, sent_at=0, chunk_at=(int(first_ms * MS),),
            closed_at=int(total_ms * MS), outcome=Outcome.LENGTH, asked_tokens=4, num_tokens=4,
        )
        for index in range(requests)
    )  # fmt: skip
    return BurstRun(side=side, round=number, lives=lives, prefill_rows=rows)


def test_speed_is_compared_round_by_round() -> None:
    runs = [run_of(OURS, 0, total_ms=50), run_of(THEIRS, 0), run_of(OURS, 1, total_ms=100), run_of(THEIRS, 1)]
    found = speed_share(runs, THEIRS, 1.4, why_not="none")
    assert (found.measured, found.judgement) == (1.5, Judgement.HOLDS)
    assert speed_share(runs, THEIRS, 2.2, why_not="none").judgement is Judgement.BROKEN
    assert speed_share(runs, BARE, 0.9, why_not="no round").judgement is Judgement.OPEN


def test_p99_is_judged_from_a_hundred_requests_on() -> None:
    few = [run_of(OURS, 0, requests=99), run_of(THEIRS, 0, requests=100)]
    assert first_share(few).judgement is Judgement.OPEN
    for first_ms, expected in ((2, Judgement.HOLDS), (3, Judgement.BROKEN)):
        runs = [run_of(OURS, 0, requests=100, first_ms=first_ms), run_of(THEIRS, 0, requests=100)]
        assert first_share(runs).judgement is expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [((50, 50), Judgement.HOLDS), ((50, 51), Judgement.BROKEN), ((50, None), Judgement.BROKEN)],
)
def test_fan_out_must_compute_exactly_the_prefix_and_own_parts(
    rows: tuple[int | None, ...], expected: Judgement
) -> None:
    config = replace(read_definition(definition(COLD_FAN_OUT), BurstLab), burst=SHAPE)
    runs = [run_of(OURS, number, rows=each) for number, each in enumerate(rows)]
    statements = list(judge_fan_out(config, runs, FailedCells()))
    assert find(statements, "prompt rows of every round").judgement is expected


def test_fan_out_with_fewer_clients_than_requests_is_refused() -> None:
    config = read_definition(definition(COLD_FAN_OUT), BurstLab, quick=True)
    with pytest.raises(ConfigError, match=r"burst\.clients"):
        COLD_FAN_OUT.run(replace(config, burst=SHAPE), lambda _: None)


@pytest.mark.slow
def test_quick_fan_out_computes_its_prefix_once() -> None:
    outcome = run_quick(COLD_FAN_OUT)
    assert not_so(outcome.statements, "TTFT p99") == []
    (row,) = rows_of(outcome, "Bursts over HTTP")
    assert row["prompt rows"] == "150 ... 150"
    assert row["ideal"] == 150


@pytest.mark.slow
def test_quick_burst_runs_the_server_and_the_bare_loop() -> None:
    outcome = run_quick(SHARED_BURST)
    assert not_so(outcome.statements, "llama-server", "bare loop") == []
    assert find(outcome.statements, "/ bare loop").measured is not None
    (bare,) = rows_of(outcome, "The same bursts")
    assert (bare["side"], bare["requests"]) == (BARE, 6)
