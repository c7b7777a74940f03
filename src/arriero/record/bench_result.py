"""BenchResult: the one file of a load generator's run, schema `arriero-bench-v1`.

`validity` is the first thing in it. What is read is checked against itself: the flag is that of the least trustworthy
point, and where the raw log was kept, the figures of the summary come out of it again.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from arriero.core.errors import DataError
from arriero.metrics.client_summary import remake
from arriero.metrics.definitions import ARRIERO
from arriero.metrics.validity import Flag, Validity, worst
from arriero.record import bench_result_text as layout
from arriero.record.bench_parts import BenchPart, CalibrationFacts, Evidence, Point, RunFacts, TargetFacts
from arriero.record.machine import MachineFacts

SCHEMA: Final = "arriero-bench-v1"


class BenchResult(BenchPart, frozen=True, kw_only=True):
    """A whole result.

    Attributes:
        validity: the least trustworthy of its points.
        schema_version: of the file.
        evidence: what its figures are.
        run: how it came about.
        machine: it ran on.
        target: it measured.
        calibration: of the instrument; null for a simulation, or if it was left out.
        definitions: the words of the figures: latency -> sentence.
        points: at least one.
    """

    validity: Validity
    schema_version: Literal["arriero-bench-v1"] = SCHEMA
    evidence: Evidence
    run: RunFacts
    machine: MachineFacts
    target: TargetFacts
    calibration: CalibrationFacts | None
    definitions: dict[str, str]
    points: tuple[Point, ...]


def encode_result(result: BenchResult, *, file: str = "result") -> bytes:
    """The bytes of the file; the same result always gives the same.

    Raises:
        DataError: the result would not be accepted when read.
    """
    _check(result, file)
    return layout.encode(result, file=file)


def decode_result(text: bytes, *, file: str) -> BenchResult:
    """A result from the bytes of a file.

    Raises:
        DataError: it is cut off, of another version, has an unknown, missing or impossible field, or figures that do
            not agree with each other; one line that names the field.
    """
    result = layout.decode(text, BenchResult, SCHEMA, file=file)
    _check(result, file)
    return result


def write_result(path: Path, result: BenchResult) -> None:
    """Put the file in place in one move, so that nobody ever reads half of it.

    Raises:
        ConfigError: the file cannot be written.
        DataError: the result would not be accepted when read.
    """
    layout.put_in_place(path, encode_result(result, file=str(path)))


def read_result(path: Path) -> BenchResult:
    """Read and check a file.

    Raises:
        DataError: as for `decode_result`, or it cannot be read.
    """
    return decode_result(layout.read(path), file=str(path))


def why_not_comparable(result: BenchResult) -> str | None:
    """Why no comparison may use a result, in a sentence without its name; None if nothing is in the way."""
    if result.validity.flag is not Flag.INVALID:
        return None
    return f"is invalid ({'; '.join(result.validity.reasons)})"


def check_point(point: Point, place: str, file: str) -> None:
    """Refuse a point that contradicts itself.

    Raises:
        DataError: names the field.
    """
    check_validity(point.validity, f"{place}.validity", file)
    if point.summary.definitions != ARRIERO.name:
        what = f"{point.summary.definitions!a} is a view of other words; keep the summary under {ARRIERO.name}"
        raise broken(file, f"{place}.summary.definitions", what)
    if not point.keeps_lives:
        if point.lives:
            raise broken(file, f"{place}.keeps_lives", "false, but there are lives")
        return
    made = remake(point.summary, point.lives)
    for name in made.__dataclass_fields__:
        if getattr(made, name) != getattr(point.summary, name):
            raise broken(file, f"{place}.summary.{name}", "does not follow from the lives; run again")


def check_validity(validity: Validity, place: str, file: str) -> None:
    """Refuse a flag without its reasons.

    Raises:
        DataError: names the field.
    """
    if (validity.flag is Flag.VALID) == bool(validity.reasons):
        raise broken(file, f"{place}.reasons", f"{len(validity.reasons)} reasons do not fit the flag {validity.flag}")


def check_evidence(evidence: Evidence, targets: Sequence[TargetFacts], file: str) -> None:
    """Refuse figures of a simulation that do not say so, and the other way round.

    Raises:
        DataError: names the field.
    """
    for target in targets:
        if (target.kind == "simulated") != (evidence is Evidence.SIMULATED):
            raise broken(file, "evidence", f"{evidence} does not fit the {target.kind} target {target.name}; run again")


def _check(result: BenchResult, file: str) -> None:
    check_evidence(result.evidence, [result.target], file)
    if not result.points:
        raise broken(file, "points", "a result has at least one; run again")
    for index, point in enumerate(result.points):
        check_point(point, f"points[{index}]", file)
    if result.validity != worst(point.validity for point in result.points):
        raise broken(file, "validity", "is not that of the least trustworthy point; run again")


def broken(file: str, field: str, what: str) -> DataError:
    """The error for a field that contradicts others."""
    return DataError(f"{field}: {what}", file=file, field=field)
