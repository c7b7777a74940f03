"""Everything that runs of a matrix say, from their records alone: the same records give the same analysis."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from arriero.core.errors import DataError
from arriero.core.version import VERSION
from arriero.lab.analysis.formats import DEFAULT_REFERENCE, compare_formats
from arriero.lab.analysis.groups import cv_extremes, groups_of
from arriero.lab.analysis.kv import kv_scaling
from arriero.lab.analysis.records import Rows, rows_of
from arriero.lab.analysis.rows import sift
from arriero.lab.analysis.scaling import length_curves, thread_curves
from arriero.record.cpu_lab.analysis import MatrixAnalysis, Quality, Source
from arriero.record.cpu_lab.environment import LabEnvironment
from arriero.record.cpu_lab.matrix import MatrixRecord
from arriero.record.cpu_lab.quality import QualityStatus
from arriero.record.cpu_lab.run_log import StoredRun
from arriero.record.machine import fact_lines

COMPLETE: Final = QualityStatus.COMPLETED.value


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRun:
    """A run folder that was read.

    Attributes:
        name: base name of the folder.
        sha256: of its log.
        run: what is in it.
    """

    name: str
    sha256: str
    run: StoredRun[MatrixRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownQuality:
    """What a quality file says.

    Attributes:
        of: SHA-256 of a model file -> its quality.
        source: where that comes from, in words.
    """

    of: Mapping[str, Quality]
    source: Mapping[str, str]


def analyse(
    runs: Sequence[NamedRun], quality: KnownQuality | None = None, reference: str = DEFAULT_REFERENCE
) -> MatrixAnalysis:
    """The analyses that these records allow.

    Args:
        runs: at least one; a folder that is given twice counts once, by its run id.
        quality: of the model files, where it was measured.
        reference: the format or model that formats are compared with.

    Raises:
        DataError: no record is a measured success.
    """
    distinct = {each.run.manifest.run_id: each for each in runs}
    read = {run_id: rows_of(each.run.records) for run_id, each in distinct.items()}
    sifted = sift(row for rows in read.values() for row in rows.rows)
    if not sifted.rows:
        names = ", ".join(each.name for each in runs)
        raise DataError(f"{names}: no measured repetition has succeeded, so there is nothing to report; look at stderr")
    groups = groups_of(sifted.rows)
    excluded = Counter(sifted.excluded)
    for rows in read.values():
        excluded.update(rows.excluded)
    return MatrixAnalysis(
        arriero=VERSION,
        evidence=tuple(dict.fromkeys(group.key.evidence for group in groups)),
        sources=tuple(_source(each, read[run_id]) for run_id, each in distinct.items()),
        excluded=dict(excluded),
        warnings=(*_quality_warnings(quality), *_warnings(runs, distinct, read, sifted.warnings)),
        groups=groups,
        threads=thread_curves(groups),
        lengths=length_curves(groups),
        formats=compare_formats(groups, {} if quality is None else quality.of, reference),
        kv=kv_scaling(groups),
        cv=cv_extremes(groups),
        quality_source=None if quality is None else dict(quality.source),
    )


def environment_words(environment: LabEnvironment) -> dict[str, str]:
    """Machine, library and revision in a few words each."""
    library = environment.library
    build = "none" if library is None else f"llama-cpp-python {library.binding}, {' '.join(library.features)}"
    state = f"{environment.revision or 'no checkout'}{', changed' if environment.is_dirty else ''}"
    return {
        **fact_lines(environment.machine),
        "instruction sets": " ".join(environment.isa) or "unknown",
        "llama.cpp": build,
        "arriero": f"{environment.version}, {state}",
        "fingerprint": environment.fingerprint,
    }


def _source(named: NamedRun, rows: Rows) -> Source:
    records = named.run.records
    return Source(
        name=named.name,
        run_id=named.run.manifest.run_id,
        sha256=named.sha256,
        num_records=sum(rows.statuses.values()),
        statuses=dict(rows.statuses),
        facts=environment_words(records[0].environment) if records else {},
    )


def _quality_warnings(quality: KnownQuality | None) -> tuple[str, ...]:
    status = COMPLETE if quality is None else quality.source.get("status", COMPLETE)
    return () if status == COMPLETE else (f"the quality file is not complete: {status}",)


def _warnings(
    runs: Sequence[NamedRun], distinct: Mapping[str, NamedRun], read: Mapping[str, Rows], sifted: Sequence[str]
) -> Iterator[str]:
    if len(distinct) < len(runs):
        yield f"{len(runs) - len(distinct)} of {len(runs)} folders hold a run that another one holds; it counts once"
    machines = {record.environment.fingerprint for each in distinct.values() for record in each.run.records}
    if len(machines) > 1:
        yield f"the records come from {len(machines)} environments; settings of different ones are not pooled"
    yield from dict.fromkeys(warning for rows in read.values() for warning in rows.warnings)
    yield from sifted
