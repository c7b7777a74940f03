import msgspec
import pytest

from arriero.lab.machine.ceilings import MIB, plan_ceilings
from tests.unit.lab.machine.machines import DETAILS, ISA

replace = msgspec.structs.replace


@pytest.mark.parametrize(("cpus", "threads"), [(1, (1,)), (2, (1, 2)), (6, (1, 2, 4, 6)), (8, (1, 2, 4, 8))])
def test_threads_are_powers_of_two_and_all(cpus: int, threads: tuple[int, ...]) -> None:
    details = replace(DETAILS, usable_cpus=tuple(range(cpus)))
    assert plan_ceilings(details, ISA, quick=False).threads == threads


def test_arrays_are_larger_than_the_caches() -> None:
    assert plan_ceilings(DETAILS, ISA, quick=False).array_bytes == 4 * 32 * MIB
    assert plan_ceilings(replace(DETAILS, caches=()), ISA, quick=False).array_bytes == 64 * MIB


def test_arrays_leave_room_for_others() -> None:
    small = replace(DETAILS, memory_available_bytes=256 * MIB, memory_limit_bytes=80 * MIB + 4000)
    assert plan_ceilings(small, ISA, quick=False).array_bytes == 10 * MIB
    assert plan_ceilings(replace(small, memory_limit_bytes=1), ISA, quick=False).array_bytes == MIB


def test_a_quick_plan_is_small_and_short() -> None:
    quick, full = plan_ceilings(DETAILS, ISA, quick=True), plan_ceilings(DETAILS, ISA, quick=False)
    assert quick.array_bytes < full.array_bytes
    assert quick.repetitions * quick.milliseconds < full.repetitions * full.milliseconds
    assert plan_ceilings(DETAILS, ISA, quick=True, threads=(2, 1, 2)).threads == (1, 2)
