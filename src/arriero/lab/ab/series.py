"""Series: the records of a run as pairs of figures in their order, and what a look at them says."""

from collections.abc import Mapping
from typing import NamedTuple

from arriero.metrics.ab_verdict import AbJudged, AbRules, MetricSeries, judge_metrics, look_points
from arriero.metrics.paired_verdict import Verdict
from arriero.record.cpu_lab.ab_run import AbManifest, AbPhase, AbRecord, RuleSet
from arriero.record.cpu_lab.run_log import Status

Records = Mapping[str, AbRecord]


class Pair(NamedTuple):
    """Both runs of a pair that succeeded."""

    a: AbRecord
    b: AbRecord

    @property
    def letters(self) -> str:
        """In the order of running."""
        return "AB" if self.a.execution_index < self.b.execution_index else "BA"


class Measured(NamedTuple):
    """What a run has to show.

    Attributes:
        manifest: the latest one.
        aa, ab: the complete pairs.
        was_forced: it went on although an earlier manifest was another one.
    """

    manifest: AbManifest
    aa: list[Pair]
    ab: list[Pair]
    was_forced: bool


def pairs_of(records: Records, phase: AbPhase, num_pairs: int) -> list[Pair]:
    """The complete pairs among the first so many of a phase, by number."""
    found: list[Pair] = []
    for number in range(num_pairs):
        a, b = records.get(f"{phase}:{number}:a"), records.get(f"{phase}:{number}:b")
        if a is not None and b is not None and a.status is Status.SUCCESS and b.status is Status.SUCCESS:
            found.append(Pair(a, b))
    return found


def values_of(pairs: list[Pair], metric: str) -> list[tuple[float, float]]:
    """A metric of the pairs that have it on both sides."""
    return [
        (pair.a.values[metric], pair.b.values[metric])
        for pair in pairs
        if metric in pair.a.values and metric in pair.b.values
    ]


def judge(manifest: AbManifest, ab: list[Pair], aa: list[Pair]) -> AbJudged:
    """What arriero's rules say of the deciding metrics."""
    series = [
        MetricSeries(
            name=metric.name,
            higher_is_better=metric.higher_is_better,
            pairs=tuple(values_of(ab, metric.name)),
            aa_pairs=tuple(values_of(aa, metric.name)),
        )
        for metric in manifest.deciding
    ]
    return judge_metrics(series, rules_of(manifest), order="".join(pair.letters for pair in ab))


def rules_of(manifest: AbManifest) -> AbRules:
    """Arriero's rules as they were stated before the run."""
    stated = manifest.rules
    own = AbRules()
    return AbRules(
        error_rate=own.error_rate if stated.error_rate is None else stated.error_rate,
        num_looks=stated.num_looks,
        margin=stated.margin,
        guard=own.guard if stated.guard is None else stated.guard,
        seed=manifest.seed,
    )


def looks_decided(manifest: AbManifest, records: Records, num_pairs: int) -> bool:
    """Whether a planned interim look falls on this number of pairs, and finds a difference."""
    rules = manifest.rules
    if rules.name is not RuleSet.ARRIERO or rules.num_looks == 1:
        return False
    if num_pairs not in look_points(manifest.num_pairs, rules.num_looks)[:-1]:
        return False
    aa = pairs_of(records, AbPhase.AA, manifest.num_aa_pairs)
    verdict = judge(manifest, pairs_of(records, AbPhase.AB, num_pairs), aa).judged.verdict
    return verdict in {Verdict.BETTER, Verdict.WORSE}
