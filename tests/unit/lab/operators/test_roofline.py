import pytest
from msgspec.structs import replace

from arriero.core.choices import KvType
from arriero.core.errors import ConfigError
from arriero.lab.operators.roofline import ceilings_for, roofline_of
from arriero.lab.operators.work import CallShape, operations_by_arithmetic, work_of
from arriero.record.cpu_lab.machine_result import Ceiling, CeilingKind, MachineResult
from arriero.record.cpu_lab.roofline import Arithmetic, Binding
from tests.unit.lab.machine.machines import RESULT
from tests.unit.lab.operators.test_work import header
from tests.unit.record.cpu_lab.operator_files import SETTINGS, phase

RATES = {CeilingKind.READ: 1e10, CeilingKind.INT8: 4e11, CeilingKind.FP32: 1e11}


def machine(threads: int | None = 2, without: CeilingKind | None = None) -> MachineResult:
    ceilings = tuple(
        Ceiling(kind=kind, variant="avx2", threads=threads, rates=(rate, rate / 2, rate))
        for kind, rate in RATES.items()
        if kind is not without
    )
    return replace(RESULT, ceilings=ceilings, reasons={"int8-dot": "no compiler"} if without else {})


def test_the_bound_is_the_longer_of_memory_and_arithmetic() -> None:
    found = roofline_of(header(), SETTINGS, (phase("prefill"), phase("decode")), machine())
    for each, rows, context in zip(found.phases, (8, 1), (0, 9), strict=True):
        parts = work_of(header(), CallShape(rows, context, 1, KvType.F16))
        num_bytes = sum(part.bytes for part in parts if part.from_memory)
        operations = operations_by_arithmetic(parts)
        assert each.memory_ns == pytest.approx(num_bytes / 1e10 * 1e9)
        arithmetic = operations[Arithmetic.INT8] / 4e11 + operations[Arithmetic.FP32] / 1e11
        assert each.arithmetic_ns == pytest.approx(arithmetic * 1e9)
        assert each.bound_ns == max(each.memory_ns, each.arithmetic_ns)
        assert each.achieved == pytest.approx(each.bound_ns / 101_000)
        assert each.bytes == num_bytes
    assert found.phases[1].binding is Binding.MEMORY
    assert [each.kind for each in found.ceilings] == ["memory-read", "int8-dot", "fp32-fma"]


def test_arithmetic_binds_where_many_rows_share_the_weights() -> None:
    settings = replace(SETTINGS, prompt=512)
    wide = replace(phase("prefill"), rows=512)
    (found,) = roofline_of(header(), settings, (wide,), machine()).phases
    assert found.binding is Binding.ARITHMETIC
    assert found.intensity is not None
    assert found.intensity > 10


def test_a_ceiling_of_a_library_that_chose_its_threads_is_taken() -> None:
    assert ceilings_for(machine(threads=None), 2).bandwidth.threads is None


def test_a_ceiling_of_other_threads_is_not_taken() -> None:
    with pytest.raises(ConfigError, match=r"no ceiling memory-read was measured .*arriero lab machine --threads 4"):
        ceilings_for(machine(threads=2), 4)


def test_a_missing_ceiling_is_told_with_its_reason() -> None:
    with pytest.raises(ConfigError, match=r"no ceiling int8-dot was measured \(no compiler\)"):
        ceilings_for(machine(without=CeilingKind.INT8), 2)
