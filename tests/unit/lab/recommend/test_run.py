"""Recommendations on machines whose speeds are known."""

import random
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from arriero.lab.recommend.rounds import RecommendRecord, Setting, Stage, visits
from arriero.lab.recommend.run import recommend
from arriero.lab.recommend.worker import Measured
from arriero.record.cpu_lab.recommendation import Counts, recommendations_of
from arriero.record.cpu_lab.run_log import LINES, RunLog, Status, read_run
from arriero.record.cpu_lab.worker import WorkerOptions
from tests.unit.lab.analysis.matrix_rows import conditions
from tests.unit.lab.recommend.fake_machines import FACTS, FakeMachine, flat, plan, result, run_of, scaling
from tests.unit.record.cpu_lab.recommendations import BEST, PRESENT, candidate


def test_the_counts_that_are_faster_beyond_the_noise_are_recommended(tmp_path: Path) -> None:
    found = run_of(tmp_path, plan(), FakeMachine(scaling))
    choice = found.choice(PRESENT)
    assert choice.counts == Counts(decode=1, prefill=2)
    assert choice.judged is not None
    assert choice.judged.is_better
    assert choice.judged.ratio == pytest.approx((0.5 + 2.0) / (0.5 + 2.5), rel=0.01)
    assert (found.best, found.judged, found.num_rounds) == (PRESENT, None, (2, 10))


def test_the_file_that_is_faster_is_recommended_with_counts_of_its_own(tmp_path: Path) -> None:
    found = run_of(tmp_path, plan(PRESENT, BEST), FakeMachine(scaling))
    assert found.best == BEST
    assert found.judged is not None
    assert found.judged.is_better
    assert found.judged.baseline == f"{PRESENT} with 1,2 threads", "a server gives it these from now on"
    assert found.judged.candidate == f"{BEST} with 1,2 threads"
    assert [each.counts for each in recommendations_of(found)] == [Counts(decode=1, prefill=2)] * 2
    # three questions: each interval is asked for at 1 - 0.05 / 3
    assert found.judged.confidence == pytest.approx(1 - 0.05 / 3)


def deceiving(file: str, decode: int, prefill: int) -> tuple[float, float]:
    """The other file looks fastest in the first rounds, and is slow with two numbers; the present one gains by them."""
    if file == PRESENT:
        return 100.0 * prefill, 50.0 if decode == 1 else 25.0
    return 100.0 * prefill, {(1, 1): 80.0, (1, 2): 36.0}.get((decode, prefill), 38.0)


def test_another_file_has_to_beat_what_threads_alone_bring(tmp_path: Path) -> None:
    """It beats the present setting, and yet is slower than what is recommended for the present file."""
    found = run_of(tmp_path, plan(PRESENT, BEST), FakeMachine(deceiving))
    assert found.choice(PRESENT).counts == Counts(decode=1, prefill=2)
    assert found.choice(BEST).counts == found.present
    assert found.judged is not None
    assert (found.judged.verdict, found.judged.is_better) == ("worse", False)
    assert found.judged.baseline == f"{PRESENT} with 1,2 threads"
    assert found.best == PRESENT


@pytest.mark.parametrize("seed", range(4))
def test_nothing_that_is_recommended_is_slower_than_what_it_replaces(tmp_path: Path, seed: int) -> None:
    """On machines whose speeds are drawn, those of two different numbers too."""
    chance = random.Random(seed)
    names = (PRESENT, BEST, "m.Q8_0.gguf")
    speeds = {
        (name, decode, prefill): (chance.uniform(100, 200), chance.uniform(20, 40))
        for name in names
        for decode in (1, 2)
        for prefill in (1, 2)
    }
    asked = plan(*names)

    def truth(name: str, counts: Counts) -> float:
        return asked.mix.seconds(*speeds[name, counts.decode, counts.prefill])

    machine = FakeMachine(lambda name, decode, prefill: speeds[name, decode, prefill], seed=seed)
    found = run_of(tmp_path, asked, machine)
    for choice in found.choices:
        assert truth(choice.file, choice.counts) <= truth(choice.file, found.present)
    recommended = truth(found.best, found.choice(found.best).counts)
    assert recommended <= truth(PRESENT, found.choice(PRESENT).counts)


def test_on_a_machine_without_a_difference_everything_stays(tmp_path: Path) -> None:
    """At most 5 % of runs may say otherwise; of 20 no more than 4 do with a probability of 99.7 %."""
    wrong = 0
    for seed in range(20):
        found = run_of(tmp_path / f"{seed}", plan(PRESENT, BEST), FakeMachine(flat, noise=0.1, seed=seed))
        stays = found.best == PRESENT and all(choice.counts == found.present for choice in found.choices)
        wrong += not stays
    assert wrong <= 4


def test_what_the_noise_hides_stays(tmp_path: Path) -> None:
    found = run_of(tmp_path, plan(), FakeMachine(scaling, noise=1.5, seed=3))
    judged = found.choice(PRESENT).judged
    assert judged is None or not judged.is_better
    assert found.choice(PRESENT).counts == found.present


def test_too_few_rounds_decide_nothing(tmp_path: Path) -> None:
    found = run_of(tmp_path, plan(num_confirming=2), FakeMachine(scaling))
    judged = found.choice(PRESENT).judged
    assert judged is not None
    assert not judged.is_better
    assert any("no fewer than" in reason for reason in judged.reasons)
    assert found.choice(PRESENT).counts == found.present


def test_a_refused_file_is_not_measured(tmp_path: Path) -> None:
    asked = plan()
    files = (*asked.files, candidate(BEST, refused="KL 1 is above 0.05"))
    machine = FakeMachine(scaling)
    found = run_of(tmp_path, replace(asked, files=files), machine)
    assert found.best == PRESENT
    assert [choice.file for choice in found.choices] == [PRESENT]
    assert not any(BEST in options.model for options in machine.asked)
    assert found.file(BEST).refused == "KL 1 is above 0.05"


def test_failures_are_records_and_leave_their_pair_out(tmp_path: Path) -> None:
    machine = FakeMachine(scaling, fails=frozenset({1, 9}))
    found = run_of(tmp_path, plan(), machine)
    assert found.failures == 2
    judged = found.choice(PRESENT).judged
    assert judged is not None
    assert judged.num_pairs in {9, 10}
    assert found.choice(PRESENT).counts == Counts(decode=1, prefill=2)


def test_where_everything_fails_everything_stays(tmp_path: Path) -> None:
    found = run_of(tmp_path, plan(PRESENT, BEST), FakeMachine(scaling, fails=frozenset(range(1000))))
    assert (found.best, found.judged) == (PRESENT, None)
    assert all(each.prefill is None for each in found.screened)


def test_a_neighbour_that_came_meanwhile_makes_it_doubtful(tmp_path: Path) -> None:
    means = FakeMachine(flat).means()
    with RunLog.create(tmp_path, RecommendRecord, {"what": "test"}, sync=False) as log:
        asked = plan(num_confirming=1)
        found = recommend(log, asked, replace(means, sample=lambda: conditions(1.5)), FACTS)
    assert found.busy is not None
    assert "ran beside others that kept more than 0.25 cores busy" in found.busy


def test_where_nothing_looks_faster_nothing_is_confirmed(tmp_path: Path) -> None:
    machine = FakeMachine(lambda _file, decode, prefill: (100.0 * prefill, 50.0 * decode))
    found = run_of(tmp_path, plan(), machine)
    assert found.num_rounds == (2, 0)
    assert len(machine.asked) == 4


class Interrupted(FakeMachine):
    """Stops as a user does."""

    def __call__(self, options: WorkerOptions) -> Measured:
        if len(self.asked) == 7:
            raise KeyboardInterrupt
        return super().__call__(options)


def test_an_interrupted_run_goes_on_without_loss_or_duplicates(tmp_path: Path) -> None:
    whole = FakeMachine(scaling, noise=0.0)
    expected = run_of(tmp_path / "whole", plan(), whole)
    with pytest.raises(KeyboardInterrupt):
        run_of(tmp_path / "cut", plan(), Interrupted(scaling, noise=0.0))
    rest = FakeMachine(scaling, noise=0.0)
    with RunLog.resume(tmp_path / "cut", RecommendRecord, {"what": "test"}, sync=False) as log:
        found = recommend(log, plan(), rest.means(), FACTS)
        assert len(log.latest) == len(whole.asked)
    assert len(rest.asked) == len(whole.asked) - 7
    assert found.choices == expected.choices


def test_a_run_that_was_killed_anywhere_comes_to_the_same_end(tmp_path: Path) -> None:
    """A kill leaves a beginning of the log, perhaps with half a line; the rest is measured once, and nothing twice."""
    whole = tmp_path / "whole"
    expected = run_of(whole, plan(), FakeMachine(scaling, noise=0.0))
    lines = (whole / LINES).read_bytes()
    ids = [record.invocation_id for record in read_run(whole, RecommendRecord).records]
    chance = random.Random(8081)
    for number in range(5):
        folder = shutil.copytree(whole, tmp_path / f"{number}")
        (folder / LINES).write_bytes(lines[: chance.randrange(len(lines))])
        rest = FakeMachine(scaling, noise=0.0)
        with RunLog.resume(folder, RecommendRecord, {"what": "test"}, repair=True, sync=False) as log:
            num_kept = len(log.latest)
            found = recommend(log, plan(), rest.means(), FACTS)
        assert [record.invocation_id for record in read_run(folder, RecommendRecord).records] == ids
        assert len(rest.asked) == len(ids) - num_kept
        assert (found.choices, found.best, found.screened) == (expected.choices, expected.best, expected.screened)


def test_orders_are_drawn_and_balanced() -> None:
    settings = [Setting(name, Counts(decode=1, prefill=1)) for name in "abcd"]
    planned = list(visits(Stage.CONFIRMING, settings, 10))
    assert planned == list(visits(Stage.CONFIRMING, settings, 10))
    places = {(visit.round, visit.setting.file): visit.place for visit in planned}
    first = Counter(places[number, "a"] < places[number, "b"] for number in range(1, 11))
    assert first[True] == first[False] == 5
    assert len({tuple(visit.setting.file for visit in planned if visit.round == number) for number in range(1, 11)}) > 4
    assert len({visit.invocation_id for visit in planned}) == 40


def test_a_run_without_both_rates_has_no_seconds(tmp_path: Path) -> None:
    run_of(tmp_path, plan(), FakeMachine(scaling))
    with RunLog.resume(tmp_path, RecommendRecord, {"what": "test"}, sync=False) as log:
        record = next(iter(log.latest.values()))
    mix = plan().mix
    assert msgspec.structs.replace(record, result=result(None, 1.0)).seconds(mix) is None
    assert msgspec.structs.replace(record, status=Status.FAILED).seconds(mix) is None
