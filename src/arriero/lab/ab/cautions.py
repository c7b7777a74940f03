"""Cautions: what a reader has to know of a comparison before any of its figures, a sentence each."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from types import MappingProxyType
from typing import Final

from arriero.lab.ab.series import Measured, Pair
from arriero.metrics.ab_level import level_shift
from arriero.record.cpu_lab.ab import Endings, MetricResult, OutputFacts, StatusCount
from arriero.record.cpu_lab.ab_run import AbManifest, AbRecord
from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.cpu_lab.run_log import Status

_NEIGHBOUR_CORES: Final = 0.25
_STEAL_SHARE: Final = 0.05
_FREQUENCY: Final = 0.1  # relative
_ENDED: Final[Mapping[Status, str]] = MappingProxyType({
    Status.FAILED: "failed",
    Status.TIMED_OUT: "timed out",
    Status.PARSE_ERROR: "gave no figures that are understood",
})


def cautions(
    measured: Measured, metrics: Sequence[MetricResult], outputs: OutputFacts | None, endings: Endings
) -> Iterator[str]:
    """All that apply.

    Args:
        measured: the pairs.
        metrics: what was found of them.
        outputs: their greedy answers.
        endings: of all runs, in pairs or not.
    """
    records = [record for pair in (*measured.aa, *measured.ab) for record in pair]
    yield from _stated(measured)
    yield from _libraries(measured.manifest, records)
    yield from _outputs(outputs)
    yield from _endings(endings)
    yield from _sessions(measured)
    yield from _levels(metrics)
    yield from _conditions(records)


def _stated(measured: Measured) -> Iterator[str]:
    """What the manifest alone says."""
    manifest = measured.manifest
    if manifest.is_aa:
        yield "both sides are the same: this is an A/A, and a difference would be an error of the instrument"
    if manifest.num_pairs and not measured.aa:
        yield "no A/A pair was measured: the noise floor of this machine is not known"
    if manifest.inherited:
        words = ", ".join(f"{name}={value}" for name, value in manifest.inherited.items())
        yield f"both sides run with {words}, which the caller has set"
    if measured.was_forced:
        yield "--force let this run go on under another manifest: records from before may be of something else"


def _libraries(manifest: AbManifest, records: Sequence[AbRecord]) -> Iterator[str]:
    for side, facts in (("A", manifest.a), ("B", manifest.b)):
        if facts.library and not any(record.library for record in records if record.variant == side.lower()):
            yield f"{side} names a build of llama.cpp, and its runs do not say whether they loaded it"
    loaded = {side: {tuple(sorted(r.library.items())) for r in records if r.variant == side} for side in "ab"}
    for side, found in loaded.items():
        if len(found) > 1:
            yield f"runs of {side.upper()} loaded different libraries"


def _outputs(outputs: OutputFacts | None) -> Iterator[str]:
    if outputs is None:
        return
    for side, hashes in (("A", outputs.a_sha256), ("B", outputs.b_sha256)):
        if len(hashes) > 1:
            yield f"{side} gave {len(hashes)} different greedy answers to one prompt"
    if outputs.differs_at is not None:
        yield (
            f"the greedy answers of the sides differ from token {outputs.differs_at} on "
            f"(of {outputs.num_tokens}): they do not compute the same"
        )


def _endings(endings: Endings) -> Iterator[str]:
    for side, found in (("A", endings.a), ("B", endings.b)):
        for each in found.unsuccessful:
            yield f"{side}: {each.num_runs} of {found.num_runs} runs {_ENDED[each.status]}{_repeated_words(each)}"


def _repeated_words(each: StatusCount) -> str:
    if each.num_repeated == 0:
        return ""
    if each.num_repeated < each.num_runs:
        return f", and {each.num_repeated} of these {'was' if each.num_repeated == 1 else 'were'} repeated"
    return f" and {'was' if each.num_runs == 1 else 'were'} repeated"


def _sessions(measured: Measured) -> Iterator[str]:
    split = [pair.a.pair + 1 for pair in measured.ab if pair.a.session != pair.b.session]
    if split:
        yield f"the two runs of pair {', '.join(map(str, split))} lie on both sides of an interruption"
    ab = _sessions_of(measured.ab)
    if len(ab) > 1:
        yield "the pairs were measured in more than one session"
    if ab and _sessions_of(measured.aa) - ab:
        yield "A/A pairs were measured in another session than the pairs: the noise floor is of another time"


def _sessions_of(pairs: Sequence[Pair]) -> set[int]:
    return {record.session for pair in pairs for record in pair}


def _levels(metrics: Sequence[MetricResult]) -> Iterator[str]:
    """A is the same thing among the A/A pairs and among the pairs, so a shift between them is the machine's."""
    for each in metrics:
        floor = each.shown_floor
        if not each.metric.decides or each.aa is None or each.ab is None or floor is None:
            continue
        shift = level_shift(each.aa.pairs, each.ab.pairs, floor)
        if shift is not None:
            yield (
                f"A's median {each.metric.name} moved from {shift.before:,.4g} among the A/A pairs to "
                f"{shift.after:,.4g} among the pairs ({100 * shift.change:+.2f} %), more than the noise floor of "
                f"{100 * shift.floor:.2f} %: the machine changed in between, and the floor is of before"
            )


def _conditions(records: Sequence[AbRecord]) -> Iterator[str]:
    around = [[each for each in (r.before, r.after) if each is not None] for r in records]
    num_known = sum(bool(each) for each in around)
    if records and not num_known:
        yield "nobody looked at the machine while it ran"
        return
    busy = sum(any((each.other_cores or 0) > _NEIGHBOUR_CORES for each in samples) for samples in around)
    if busy:
        yield f"others kept more than {_NEIGHBOUR_CORES:g} cores busy around {busy} of {num_known} runs"
    stolen = sum(any((each.steal_share or 0) > _STEAL_SHARE for each in samples) for samples in around)
    if stolen:
        share = f"{100 * _STEAL_SHARE:.0f} %"
        yield f"the hypervisor took more than {share} of the cores around {stolen} of {num_known} runs"
    unread = sum(any(each.other_cores is None for each in samples) for samples in around if samples)
    if unread:
        yield f"how busy the machine was is not known around {unread} of {num_known} runs"
    yield from _frequencies([each for samples in around for each in samples])


def _frequencies(samples: Sequence[ConditionSample]) -> Iterator[str]:
    known = [each.frequency_mhz for each in samples if each.frequency_mhz is not None]
    if known and max(known) - min(known) > _FREQUENCY * median(known):
        yield f"the cores' frequency lay between {min(known):.0f} and {max(known):.0f} MHz"
