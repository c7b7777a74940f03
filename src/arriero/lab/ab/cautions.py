"""Cautions: what a reader has to know of a comparison before any of its figures, a sentence each."""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from arriero.lab.ab.series import Pair
from arriero.record.cpu_lab.ab import OutputFacts
from arriero.record.cpu_lab.ab_run import AbManifest, AbRecord
from arriero.record.cpu_lab.conditions import ConditionSample

NEIGHBOUR_CORES: Final = 0.25
STEAL_SHARE: Final = 0.05
_FREQUENCY: Final = 0.1  # relative


def cautions(
    manifest: AbManifest, ab: Sequence[Pair], aa: Sequence[Pair], outputs: OutputFacts | None
) -> Iterator[str]:
    """All that apply."""
    records = [record for pair in (*aa, *ab) for record in pair]
    if manifest.is_aa:
        yield "both sides are the same: this is an A/A, and a difference would be an error of the instrument"
    if manifest.num_pairs and not aa:
        yield "no A/A pair was measured: the noise floor of this machine is not known"
    if manifest.inherited:
        words = ", ".join(f"{name}={value}" for name, value in manifest.inherited.items())
        yield f"both sides run with {words}, which the caller has set"
    yield from _libraries(manifest, records)
    yield from _outputs(outputs)
    yield from _sessions(ab)
    yield from _conditions(records)


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


def _sessions(ab: Sequence[Pair]) -> Iterator[str]:
    split = [pair.a.pair + 1 for pair in ab if pair.a.session != pair.b.session]
    if split:
        yield f"the two runs of pair {', '.join(map(str, split))} lie on both sides of an interruption"
    if len({record.session for pair in ab for record in pair}) > 1:
        yield "the pairs were measured in more than one session"


def _conditions(records: Sequence[AbRecord]) -> Iterator[str]:
    around = [[each for each in (r.before, r.after) if each is not None] for r in records]
    num_known = sum(bool(each) for each in around)
    if records and not num_known:
        yield "nobody looked at the machine while it ran"
        return
    busy = sum(any((each.other_cores or 0) > NEIGHBOUR_CORES for each in samples) for samples in around)
    if busy:
        yield f"others kept more than {NEIGHBOUR_CORES:g} cores busy around {busy} of {num_known} runs"
    stolen = sum(any((each.steal_share or 0) > STEAL_SHARE for each in samples) for samples in around)
    if stolen:
        yield f"the hypervisor took more than {STEAL_SHARE:.0%} of the cores around {stolen} of {num_known} runs"
    unread = sum(any(each.other_cores is None for each in samples) for samples in around if samples)
    if unread:
        yield f"how busy the machine was is not known around {unread} of {num_known} runs"
    yield from _frequencies([each for samples in around for each in samples])


def _frequencies(samples: Sequence[ConditionSample]) -> Iterator[str]:
    known = [each.frequency_mhz for each in samples if each.frequency_mhz is not None]
    if known and max(known) - min(known) > _FREQUENCY * median(known):
        yield f"the cores' frequency lay between {min(known):.0f} and {max(known):.0f} MHz"
