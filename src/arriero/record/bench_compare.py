"""CompareResult: the file of a comparison of two targets, schema `arriero-bench-compare-v1`.

`validity` is the first thing in it. What is read is checked against itself, as `bench_compare_check.py` says.
"""

from pathlib import Path
from typing import Final, Literal

from arriero.metrics.validity import Validity, worst
from arriero.record import bench_result_text as layout
from arriero.record.bench_compare_check import check_cell
from arriero.record.bench_compare_parts import CompareCell, Question, Search
from arriero.record.bench_parts import BenchPart, CalibrationFacts, Evidence, RunFacts, TargetFacts
from arriero.record.bench_result import broken, check_evidence
from arriero.record.machine import MachineFacts

SCHEMA: Final = "arriero-bench-compare-v1"


class CompareResult(BenchPart, frozen=True, kw_only=True):
    """A whole comparison.

    Attributes:
        validity: the least trustworthy of the A/A and A/B rounds; null if there are none.
        schema_version: of the file.
        status: `done`, or how far it came.
        error: what ended it; null if it is done.
        evidence: what its figures are.
        run: how it came about.
        machine: it ran on.
        a, b: the two targets.
        questions: stated before the run, at least one.
        calibration: of the instrument; null if it was left out.
        searches: for flags.
        cells: one for each setting, at least one.
    """

    validity: Validity | None
    schema_version: Literal["arriero-bench-compare-v1"] = SCHEMA
    status: Literal["done", "failed", "interrupted"]
    error: str | None
    evidence: Evidence
    run: RunFacts
    machine: MachineFacts
    a: TargetFacts
    b: TargetFacts
    questions: tuple[Question, ...]
    calibration: CalibrationFacts | None
    searches: tuple[Search, ...]
    cells: tuple[CompareCell, ...]


def encode_comparison(result: CompareResult, *, file: str = "comparison") -> bytes:
    """The bytes of the file; the same comparison always gives the same.

    Raises:
        DataError: the comparison would not be accepted when read.
    """
    check_comparison(result, file)
    return layout.encode(result, file=file)


def decode_comparison(text: bytes, *, file: str) -> CompareResult:
    """A comparison from the bytes of a file.

    Raises:
        DataError: as for `decode_result`; also a verdict that rests on an invalid round, on a sequential order, or on
            other values than the rounds hold.
    """
    result = layout.decode(text, CompareResult, SCHEMA, file=file)
    check_comparison(result, file)
    return result


def write_comparison(path: Path, result: CompareResult) -> None:
    """Put the file in place in one move.

    Raises:
        ConfigError: the file cannot be written.
        DataError: it would not be accepted when read.
    """
    layout.put_in_place(path, encode_comparison(result, file=str(path)))


def read_comparison(path: Path) -> CompareResult:
    """Read and check a file.

    Raises:
        DataError: as for `decode_comparison`, or it cannot be read.
    """
    return decode_comparison(layout.read(path), file=str(path))


def check_comparison(result: CompareResult, file: str) -> None:
    """Refuse a comparison that contradicts itself.

    Raises:
        DataError: names the field.
    """
    check_evidence(result.evidence, [result.a, result.b], file)
    metrics = [question.metric for question in result.questions]
    if not metrics or len(set(metrics)) != len(metrics):
        raise broken(file, "questions", "at least one, and each metric once; run again")
    if not result.cells:
        raise broken(file, "cells", "a comparison has at least one; run again")
    if (result.error is None) != (result.status == "done"):
        raise broken(file, "error", f"{result.error!a} does not fit the status {result.status}; run again")
    for index, cell in enumerate(result.cells):
        check_cell(cell, result.questions, f"cells[{index}]", file, is_done=result.status == "done")
    judged = [each.point.validity for cell in result.cells for each in cell.rounds if each.phase in {"aa", "ab"}]
    if result.validity != (worst(judged) if judged else None):
        raise broken(file, "validity", "is not that of the least trustworthy round; run again")
