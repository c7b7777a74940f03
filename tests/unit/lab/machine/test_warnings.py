import msgspec
import pytest

from arriero.lab.machine.warnings import RULES, Seen, find_warnings
from arriero.metrics.validity import BusyProcess
from arriero.record.cpu_lab.machine_details import NodeFacts
from tests.unit.lab.machine.machines import DETAILS, ENVIRONMENT, LIBRARY, MACHINE, QUIET

replace = msgspec.structs.replace
SOUND = Seen(ENVIRONMENT, DETAILS, QUIET, (), ())


def details(**changes: object) -> Seen:
    return SOUND._replace(details=replace(DETAILS, **changes))


def condition(**changes: object) -> Seen:
    return SOUND._replace(condition=replace(QUIET, **changes))


def machine(**changes: object) -> Seen:
    return SOUND._replace(environment=replace(ENVIRONMENT, machine=replace(MACHINE, **changes)))


CASES = [
    ("governor", details(governors=("performance", "powersave")), "powersave"),
    ("frequency", details(governors=()), "neither"),
    ("boost", details(boost=True), "base frequency"),
    ("smt", details(siblings=((0, 1),)), "2 CPUs are threads of 1 cores"),
    ("cgroup-quota", machine(cgroup_cores=1.5), "1.5 cores"),
    ("cgroup-throttled", details(throttled_periods=3), "3 periods"),
    ("affinity", machine(cores_online=8), "2 of 8"),
    ("memory", details(memory_available_bytes=2**30), "1024 MiB"),
    ("memory", details(memory_limit_bytes=2**29), "512 MiB"),
    ("swap", details(swap_used_bytes=2**20), "1 MiB"),
    ("steal", condition(steal_share=0.02), "2.0%"),
    ("neighbours", condition(other_cores=0.9, others=(BusyProcess(name="cc", cores=0.9),)), "cc 0.90"),
    ("load", condition(load_average=(1.5, 0.0, 0.0)), "1.50"),
    ("temperature", condition(temperature_c=91.0), "91"),
    ("hardware-events", details(hardware_events=False, reasons={"hardware_events": "none here"}), "none here"),
    (
        "numa",
        details(nodes=(NodeFacts(node=0, cpus=(0,), memory_bytes=1), NodeFacts(node=1, cpus=(1,), memory_bytes=1))),
        "2 NUMA nodes",
    ),
    ("thread-variables", details(thread_variables={"OMP_THREAD_LIMIT": "1"}), "OMP_THREAD_LIMIT=1"),
    ("build", SOUND._replace(unused=("AVX512",)), "does not use AVX512"),
    ("build", SOUND._replace(lacking=("AMX_INT8",)), "needs AMX_INT8"),
    (
        "mixed-builds",
        SOUND._replace(environment=replace(ENVIRONMENT, library=replace(LIBRARY, strays=("libggml.so",)))),
        "libggml.so",
    ),
    ("compiler", SOUND._replace(environment=replace(ENVIRONMENT, compilers={})), "no C compiler"),
]


def test_a_sound_machine_has_no_warnings() -> None:
    assert find_warnings(SOUND) == ()


@pytest.mark.parametrize(("name", "seen", "says"), CASES)
def test_each_fault_has_one_warning_with_a_remedy(name: str, seen: Seen, says: str) -> None:
    (warning,) = find_warnings(seen)
    assert warning.name == name
    assert says in warning.says
    assert warning.remedy


def test_every_rule_has_a_case() -> None:
    assert len(RULES) == len({name for name, _, _ in CASES})


def test_what_is_unknown_warns_of_nothing() -> None:
    unknown = SOUND._replace(
        details=replace(
            DETAILS, siblings=(), nodes=(), boost=None, memory_available_bytes=None, swap_used_bytes=None,
            hardware_events=None,
        ),
        condition=replace(QUIET, load_average=None, temperature_c=None, steal_share=None, other_cores=None),
        environment=replace(ENVIRONMENT, library=None, machine=replace(MACHINE, cores_online=None)),
    )  # fmt: skip
    assert find_warnings(unknown) == ()
