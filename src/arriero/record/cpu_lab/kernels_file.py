"""The file of a kernel workbench: written whole, and checked against its own times when it is read."""

import math
from typing import Final

from msgspec.structs import asdict

from arriero.core.errors import DataError
from arriero.metrics.kernel_times import Ratio, TimeFigures, ratio_of_medians, time_figures
from arriero.record.bench_parts import Evidence
from arriero.record.cpu_lab.kernels import SCHEMA, KernelsResult, TimedSize
from arriero.record.cpu_lab.result_file import ResultFile


def _check(result: KernelsResult, file: str) -> None:
    """Make every figure again from the times, and see that no candidate went past a failed gate.

    Raises:
        DataError: names the field.
    """
    if result.evidence is not Evidence.MICROBENCHMARK:
        what = f"evidence: {result.evidence} is not what a workbench gives; it is {Evidence.MICROBENCHMARK}"
        raise DataError(what, file=file, field="evidence")
    for index, candidate in enumerate(result.candidates):
        place = f"candidates[{index}]"
        if not all(gate.passed for gate in candidate.gates[:-1]):
            raise DataError(f"{place}.gates: goes on after a failed gate; run again", file=file, field=f"{place}.gates")
        if candidate.sizes and candidate.skipped is not None:
            raise DataError(f"{place}.sizes: times of what was skipped; run again", file=file, field=f"{place}.sizes")
        for number, size in enumerate(candidate.sizes):
            _check_size(size, result, file, f"{place}.sizes[{number}]")


def _check_size(size: TimedSize, result: KernelsResult, file: str, place: str) -> None:
    if [kernel.role for kernel in size.kernels[:2]] != ["baseline", "candidate"]:
        raise DataError(f"{place}.kernels: baseline and candidate come first", file=file, field=f"{place}.kernels")
    for number, kernel in enumerate(size.kernels):
        _require_same(kernel.figures, time_figures(kernel.nanoseconds, size.calls), file, f"{place}.kernels[{number}]")
    first, second = (kernel.nanoseconds for kernel in size.kernels[:2])
    if len(first) != len(second):
        raise DataError(f"{place}: unequal numbers of repetitions; run again", file=file, field=place)
    made = ratio_of_medians(first, second, seed=result.seed, resamples=result.resamples)
    _require_same(size.ratio, made, file, f"{place}.ratio")


def _require_same(kept: TimeFigures | Ratio, made: TimeFigures | Ratio, file: str, place: str) -> None:
    values: dict[str, float | None] = asdict(kept)
    for name, expected in asdict(made).items():
        found = values[name]
        if found is None or expected is None:
            is_same = found is expected
        else:
            is_same = math.isclose(found, expected, rel_tol=1e-9)
        if not is_same:
            what = f"{place}.{name}: {found} does not follow from the times, which give {expected}; run again"
            raise DataError(what, file=file, field=f"{place}.{name}")


_FILE: Final = ResultFile(kind=KernelsResult, schema=SCHEMA, check=_check)
write_kernels: Final = _FILE.write
read_kernels: Final = _FILE.read
