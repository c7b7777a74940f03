from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from arriero.core.errors import ConfigError
from arriero.lab.ab.judging import result_of
from arriero.lab.ab.outputs import parting
from arriero.lab.ab.plan import AbPlan
from arriero.lab.ab.session import read_summary
from arriero.lab.ab.variants import GENERATION_RATE, PROMPT_RATE
from arriero.record.cpu_lab.ab import AbResult
from arriero.record.cpu_lab.ab_run import AbManifest, AbPhase, AbRecord, MetricFacts, RuleFacts, RuleSet
from arriero.record.cpu_lab.matrix import RunStatus
from arriero.record.cpu_lab.run_log import Status, StoredRun, read_run
from tests.unit.lab.ab.runs import RATE, made_result, program, setup
from tests.unit.lab.analysis.matrix_rows import conditions

PLAN = AbPlan(num_pairs=20, num_aa_pairs=4, num_warm_ups=0, metrics=(RATE,), timeout_s=20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made")
    made_result(path, PLAN)
    return path / "run"


@pytest.fixture
def stored(folder: Path) -> StoredRun[AbRecord]:
    return read_run(folder, AbRecord)


def changed(stored: StoredRun[AbRecord], change: Callable[[AbRecord], AbRecord]) -> StoredRun[AbRecord]:
    return StoredRun(manifest=stored.manifest, records=tuple(change(record) for record in stored.records))


def with_manifest(stored: StoredRun[AbRecord], **values: object) -> StoredRun[AbRecord]:
    known = msgspec.convert(stored.manifest.manifest, AbManifest)
    plain = msgspec.to_builtins(msgspec.structs.replace(known, **values))
    return StoredRun(manifest=msgspec.structs.replace(stored.manifest, manifest=plain), records=stored.records)


def judged(stored: StoredRun[AbRecord], folder: Path) -> AbResult:
    return result_of(stored, read_summary(folder))


def test_power_and_floor_come_from_the_a_a_pairs(stored: StoredRun[AbRecord], folder: Path) -> None:
    found = judged(stored, folder)
    [rate] = found.deciding
    assert rate.floor is not None
    assert rate.power is not None
    assert rate.power.num_aa_pairs == 4
    assert rate.power.effect == 0.02
    assert rate.power.pairs is not None
    assert rate.power.smallest_effect is not None
    assert {each.metric.name for each in found.metrics} == {"rate", "duration_s", "peak_rss_kib"}
    assert not any(each.metric.decides for each in found.metrics[1:])


Answer = tuple[tuple[int, ...], str]


def text(tokens: tuple[int, ...], sha256: str, *, b: Answer | None = None) -> Callable[[AbRecord], AbRecord]:
    def change(record: AbRecord) -> AbRecord:
        own, word = b if b is not None and record.variant == "b" else (tokens, sha256)
        return msgspec.structs.replace(record, text_tokens=own, text_sha256=word)

    return change


def test_equal_greedy_answers(stored: StoredRun[AbRecord], folder: Path) -> None:
    found = judged(changed(stored, text((1, 2, 3), "h")), folder)
    assert found.outputs is not None
    assert (found.outputs.equal, found.outputs.differs_at, found.outputs.num_runs) == (True, None, 40)


def test_where_two_greedy_answers_part(stored: StoredRun[AbRecord], folder: Path) -> None:
    found = judged(changed(stored, text((1, 2, 3), "h", b=((1, 2, 9, 4), "i"))), folder)
    assert found.outputs is not None
    assert (found.outputs.equal, found.outputs.differs_at) == (False, 2)
    assert (found.outputs.a_tokens, found.outputs.b_tokens) == ((3,), (9, 4))
    assert any("differ from token 2 on" in flag for flag in found.flags)
    assert found.word == "POSITIVE"  # two formats may differ


def test_equal_texts_can_be_asked_for(stored: StoredRun[AbRecord], folder: Path) -> None:
    rules = RuleFacts(name=RuleSet.ARRIERO, error_rate=0.05, num_looks=1, margin=None, guard=0.01, same_text=True)
    strict = with_manifest(stored, rules=rules)
    found = judged(changed(strict, text((1, 2, 3), "h", b=((1,), "i"))), folder)
    assert (found.word, found.reasons[0]) == ("INCONCLUSIVE", "the greedy answers differ from token 1 on")
    assert judged(strict, folder).reasons[0].startswith("no run answered the fixed prompt")
    assert judged(changed(strict, text((1,), "h")), folder).word == "POSITIVE"


def test_parting() -> None:
    assert parting((1, 2), (1, 2)) is None
    assert parting((1, 2), (1, 3)) == 1
    assert parting((), (1,)) == 0


def published(stored: StoredRun[AbRecord]) -> StoredRun[AbRecord]:
    names = ((PROMPT_RATE, True), (GENERATION_RATE, True), ("duration_s", False))
    rules = RuleFacts(name=RuleSet.PUBLISHED, error_rate=None, num_looks=1, margin=None, guard=None)
    metrics = tuple(MetricFacts(name=name, higher_is_better=higher) for name, higher in names)
    found = with_manifest(stored, metrics=metrics, rules=rules)

    def change(record: AbRecord) -> AbRecord:
        rate = record.values["rate"]
        values = {PROMPT_RATE: rate, GENERATION_RATE: rate, "duration_s": 100 / rate}
        return msgspec.structs.replace(record, values=values)

    return changed(found, change)


def test_the_published_rules_judge_all_metrics_together(stored: StoredRun[AbRecord], folder: Path) -> None:
    found = judged(published(stored), folder)
    assert (found.word, found.confidence) == ("POSITIVE", 0.95)
    assert {each.reasons["verdict"] for each in found.metrics} == {"the published rules judge all metrics together"}
    assert all(each.verdict is None and each.floor is None and each.power is not None for each in found.metrics)


def test_the_published_rules_give_no_verdict_on_a_figure_of_nothing(stored: StoredRun[AbRecord], folder: Path) -> None:
    def change(record: AbRecord) -> AbRecord:
        return msgspec.structs.replace(record, values={**record.values, GENERATION_RATE: 0.0})

    found = judged(changed(published(stored), change), folder)
    assert found.word == "INCONCLUSIVE"
    assert found.reasons == (f"not every pair has a figure above 0 on both sides: {GENERATION_RATE}",)


@pytest.mark.parametrize("value", [0.0, float("inf")])
def test_pairs_without_a_ratio_give_no_floor_and_no_verdict(
    stored: StoredRun[AbRecord], folder: Path, value: float
) -> None:
    found = judged(changed(stored, lambda record: msgspec.structs.replace(record, values={"rate": value})), folder)
    assert found.word == "INCONCLUSIVE"
    assert found.metrics[0].floor is None


def test_a_load_that_cannot_be_read_is_told(stored: StoredRun[AbRecord], folder: Path) -> None:
    unread = conditions(None)
    found = judged(changed(stored, lambda record: msgspec.structs.replace(record, before=unread, after=unread)), folder)
    assert "how busy the machine was is not known around 48 of 48 runs" in found.flags


def test_what_disturbed_the_machine_is_told_with_the_number_of_runs(stored: StoredRun[AbRecord], folder: Path) -> None:
    def change(record: AbRecord) -> AbRecord:
        slow = 2_000.0 if record.execution_index == 0 else 3_000.0
        quiet = msgspec.structs.replace(conditions(0.1), steal_share=0.05, frequency_mhz=slow)
        loud = msgspec.structs.replace(quiet, steal_share=0.06, other_cores=0.3)
        return msgspec.structs.replace(record, before=quiet, after=loud if record.pair == 0 else quiet)

    flags = judged(changed(stored, change), folder).flags
    assert flags[-3:] == (
        "others kept more than 0.25 cores busy around 4 of 48 runs",
        "the hypervisor took more than 5 % of the cores around 4 of 48 runs",
        "the cores' frequency lay between 2000 and 3000 MHz",
    )


def test_pairs_that_an_interruption_split_are_told(stored: StoredRun[AbRecord], folder: Path) -> None:
    def change(record: AbRecord) -> AbRecord:
        is_late = record.phase == "ab" and (record.pair, record.place) >= (3, 1)
        return msgspec.structs.replace(record, session=int(is_late))

    flags = judged(changed(stored, change), folder).flags
    assert "the two runs of pair 4 lie on both sides of an interruption" in flags
    assert "the pairs were measured in more than one session" in flags
    assert not any("noise floor is of another time" in flag for flag in flags)


def test_a_floor_from_another_session_than_the_pairs_is_told(stored: StoredRun[AbRecord], folder: Path) -> None:
    later = changed(stored, lambda record: msgspec.structs.replace(record, session=int(record.phase is AbPhase.AB)))
    flags = judged(later, folder).flags
    assert "A/A pairs were measured in another session than the pairs: the noise floor is of another time" in flags
    assert not any("more than one session" in flag for flag in flags)


def test_a_manifest_that_was_overruled_is_told(stored: StoredRun[AbRecord], folder: Path) -> None:
    forced = msgspec.structs.replace(stored.manifest, forced_over=("0" * 64,))
    flags = judged(StoredRun(manifest=forced, records=stored.records), folder).flags
    assert "--force let this run go on under another manifest: records from before may be of something else" in flags
    assert not any("--force" in flag for flag in judged(stored, folder).flags)


def faster_later(record: AbRecord) -> AbRecord:
    """The machine speeds up by a tenth after the A/A pairs."""
    factor = 1.1 if record.phase is AbPhase.AB else 1.0
    return msgspec.structs.replace(record, values={name: factor * each for name, each in record.values.items()})


def test_a_level_of_a_that_moved_by_more_than_the_floor_is_told(stored: StoredRun[AbRecord], folder: Path) -> None:
    found = judged(changed(stored, faster_later), folder)
    [flag] = [flag for flag in found.flags if "moved" in flag]  # the other metrics decide nothing
    assert flag.startswith("A's median rate moved from 50.14 among the A/A pairs to 55.1")
    assert "(+10." in flag
    assert "more than the noise floor of 0." in flag
    assert found.word == "POSITIVE"  # pairs share it
    assert not any("moved" in flag for flag in judged(stored, folder).flags)


def test_levels_are_looked_at_under_the_published_rules_too(stored: StoredRun[AbRecord], folder: Path) -> None:
    found = judged(changed(published(stored), faster_later), folder)
    moved = [flag.split()[2] for flag in found.flags if "moved" in flag]
    assert moved == [PROMPT_RATE, GENERATION_RATE, "duration_s"]


def test_repeated_runs_are_counted_for_the_variant_that_ran_and_change_no_figure(
    stored: StoredRun[AbRecord], folder: Path
) -> None:
    def ended(status: Status, phase: AbPhase, side: str, number: int) -> AbRecord:
        record = stored.latest[f"{phase}:{number}:{side}"]
        return msgspec.structs.replace(record, status=status, values={}, problem="it did not end well")

    before = (
        ended(Status.TIMED_OUT, AbPhase.AA, "b", 0),  # an A, for it stands among the A/A pairs
        ended(Status.TIMED_OUT, AbPhase.AB, "a", 3),
        ended(Status.FAILED, AbPhase.AB, "b", 3),
    )
    found = judged(StoredRun(manifest=stored.manifest, records=(*before, *stored.records)), folder)
    plain = judged(stored, folder)
    assert found.flags[-3:-1] == (
        "A: 2 of 30 runs timed out and were repeated",
        "B: 1 of 21 runs failed and was repeated",
    )
    assert (found.metrics, found.verdict) == (plain.metrics, plain.verdict)
    assert not any(" runs " in flag for flag in plain.flags)

    last = ended(Status.FAILED, AbPhase.AB, "b", 19)
    partly = judged(StoredRun(manifest=stored.manifest, records=(*before, *stored.records, last)), folder)
    assert "B: 2 of 22 runs failed, and 1 of these was repeated" in partly.flags
    assert (partly.num_pairs, plain.num_pairs) == (19, 20)


def test_what_is_null_has_the_reason_that_is_true(stored: StoredRun[AbRecord], folder: Path) -> None:
    rate, duration, _ = judged(stored, folder).metrics
    assert rate.reasons == {}
    assert duration.reasons == dict.fromkeys(("verdict", "floor", "power"), "it does not decide")
    summary = msgspec.structs.replace(read_summary(folder), run_status=RunStatus.INTERRUPTED)
    assert result_of(stored, summary).metrics[0].reasons == dict.fromkeys(("verdict", "floor"), "the run has not ended")
    unpaired = changed(stored, lambda record: msgspec.structs.replace(record, values={"rate": 0.0}))
    reasons = judged(unpaired, folder).metrics[0].reasons
    assert reasons["ab"] == "not every pair has a figure above 0 on both sides"
    assert reasons["floor"] == "no A/A pair has a figure above 0 on both sides"
    assert judged(published(stored), folder).metrics[0].reasons["floor"] == "the published rules know none"


def test_plans_that_could_never_decide_are_refused(tmp_path: Path) -> None:
    sides = program(tmp_path, 1), program(tmp_path, 2)
    with pytest.raises(ConfigError, match="--pairs 5: 1 metrics need at least 6"):
        setup(*sides, AbPlan(num_pairs=5, metrics=(RATE,)))
    with pytest.raises(ConfigError, match="at 4 looks need at least 8"):
        setup(*sides, AbPlan(num_pairs=7, num_looks=4, metrics=(RATE,)))
    with pytest.raises(ConfigError, match="--metric rate: named twice"):
        setup(*sides, AbPlan(metrics=(RATE, RATE)))
    with pytest.raises(ConfigError, match="published rules look at"):
        setup(*sides, AbPlan(metrics=(RATE,), rules=RuleSet.PUBLISHED))
    with pytest.raises(ConfigError, match="--rules published: needs a prompt rate"):
        setup(*sides, AbPlan(rules=RuleSet.PUBLISHED))
