"""Model files side by side: speed at the very same workload, size, and quality where somebody measured it.

A ratio is taken only between two groups whose keys differ in the model alone. A workload that the reference was not
measured at has no ratio; nothing near it stands in.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from arriero.metrics.spread import Spread, ratio
from arriero.metrics.standings import Offer, Standing, offer_standings
from arriero.record.cpu_lab.analysis import FormatCell, FormatFile, Formats, Group, ParetoPoint, Phase, Quality
from arriero.record.cpu_lab.run_key import MODEL_FIELDS, RunKey, without

DEFAULT_REFERENCE: Final = "F16"
_NO_ROW: Final = "the reference was not measured at this workload"


class _File(NamedTuple):
    """What tells model files apart."""

    model: str
    sha256: str | None
    weights: str


class _Reference(NamedTuple):
    file: _File | None
    reason: str | None  # why there is none


def compare_formats(
    groups: Sequence[Group], qualities: Mapping[str, Quality], reference: str = DEFAULT_REFERENCE
) -> Formats | None:
    """All files against one of them; None with fewer than two.

    Args:
        groups: the baseline.
        qualities: SHA-256 of a file -> how good its answers are.
        reference: a weights format or a logical name.
    """
    files = list(dict.fromkeys(_file(group.key) for group in groups))
    if len(files) < 2:
        return None
    found = _find(files, reference)
    sizes = {_file(group.key): group.model_bytes for group in groups if group.model_bytes is not None}
    return Formats(
        reference=None if found.file is None else f"{found.file.model} ({found.file.weights})",
        reason=found.reason,
        files=tuple(_format_file(each, sizes, found.file, qualities) for each in files),
        cells=tuple(_cells(groups, found)),
        pareto=tuple(_pareto(groups, qualities)),
    )


def _file(key: RunKey) -> _File:
    return _File(key.model, key.model_sha256, key.weights)


def _find(files: Sequence[_File], reference: str) -> _Reference:
    named = [each for each in files if reference == each.model]
    alike = named or [each for each in files if reference.upper() == each.weights.upper()]
    if not alike:
        return _Reference(None, f"no file is {reference}, so there are no ratios; name another with --reference")
    if len(alike) > 1:
        names = ", ".join(each.model for each in alike)
        return _Reference(None, f"{len(alike)} files are {reference} ({names}); name one of them with --reference")
    return _Reference(alike[0], None)


def _format_file(
    file: _File, sizes: Mapping[_File, int], reference: _File | None, qualities: Mapping[str, Quality]
) -> FormatFile:
    size_ratio = None if reference is None else ratio(sizes.get(file), sizes.get(reference))
    return FormatFile(
        model=file.model,
        weights=file.weights,
        sha256=file.sha256,
        num_bytes=sizes.get(file),
        size_ratio=size_ratio,
        reduction=None if size_ratio is None else 1 - size_ratio,
        quality=qualities.get(file.sha256 or ""),
    )


def _cells(groups: Iterable[Group], reference: _Reference) -> Iterator[FormatCell]:
    listed = list(groups)
    bases = {without(group.key, MODEL_FIELDS): group for group in listed if _file(group.key) == reference.file}
    for group in listed:
        base = bases.get(without(group.key, MODEL_FIELDS))
        reason = reference.reason or (_NO_ROW if base is None else None)
        yield FormatCell(
            group=group,
            prefill_ratio=None if base is None else ratio(_mean(group.prefill), _mean(base.prefill)),
            decode_ratio=None if base is None else ratio(_mean(group.decode), _mean(base.decode)),
            reason=reason,
        )


def _mean(found: Spread | None) -> float | None:
    return None if found is None else found.mean


def _pareto(groups: Iterable[Group], qualities: Mapping[str, Quality]) -> Iterator[ParetoPoint]:
    """The front of each workload that several files were measured at; files without a size are on none."""
    workloads: dict[tuple[object, ...], list[Group]] = {}
    for group in groups:
        if group.model_bytes is not None:
            workloads.setdefault(without(group.key, MODEL_FIELDS), []).append(group)
    for members in workloads.values():
        for phase in Phase:
            yield from _front(members, phase, qualities)


def _front(members: Iterable[Group], phase: Phase, qualities: Mapping[str, Quality]) -> Iterator[ParetoPoint]:
    """One phase of one workload; a file is off the front only if it is beaten beyond what repetitions differ by."""
    keys: list[RunKey] = []
    offers: list[Offer] = []
    for group in members:
        rate, quality = group.rate(phase), qualities.get(group.key.model_sha256 or "")
        if rate is not None and group.model_bytes is not None:
            kl, high = (None, None) if quality is None else (quality.kl_mean, quality.kl_high)
            keys.append(group.key)
            offers.append(Offer(group.model_bytes, rate, kl, high))
    if len(offers) < 2:
        return
    for key, offer, standing in zip(keys, offers, offer_standings(offers), strict=True):
        yield ParetoPoint(
            phase=phase,
            key=key,
            num_bytes=offer.num_bytes,
            rate=offer.rate.mean,
            kl_mean=offer.divergence,
            on_front=standing is not Standing.BEATEN,
        )
