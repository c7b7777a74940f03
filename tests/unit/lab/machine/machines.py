"""Machines of files below a folder, and results of machines that are not there."""

from collections.abc import Mapping
from pathlib import Path

from arriero.metrics.validity import BusyProcess
from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.cpu_lab.environment import LabEnvironment, LibraryFacts, LibraryFile, environment_fingerprint
from arriero.record.cpu_lab.machine_details import CacheFacts, MachineDetails, NodeFacts
from arriero.record.cpu_lab.machine_result import Ceiling, CeilingKind, MachineResult, MachineWarning
from arriero.record.machine import MachineFacts

NOW = "2026-01-02T03:04:05+00:00"


def put(root: Path, files: Mapping[str, str]) -> Path:
    """Write files below a root."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MACHINE = MachineFacts(
    cpu="Some CPU",
    cores=2,
    cores_online=2,
    cgroup_cores=None,
    governor="performance",
    frequency_mhz=3000.0,
    virtualised=False,
    memory_bytes=16 * 2**30,
    kernel="Linux 6.1",
    python="3.11.7 (cpython)",
    reasons={"cgroup_cores": "no limit is set"},
)
DETAILS = MachineDetails(
    usable_cpus=(0, 1),
    siblings=((0,), (1,)),
    caches=(
        CacheFacts(level=1, kind="Data", bytes=48 * 1024, cpus=1, instances=2),
        CacheFacts(level=3, kind="Unified", bytes=32 * 2**20, cpus=2, instances=1),
    ),
    nodes=(NodeFacts(node=0, cpus=(0, 1), memory_bytes=16 * 2**30),),
    governors=("performance",),
    max_mhz=4000.0,
    boost=False,
    memory_available_bytes=8 * 2**30,
    memory_limit_bytes=None,
    swap_used_bytes=0,
    throttled_periods=None,
    hugepages="madvise",
    hardware_events=True,
    perf_event_paranoid=1,
    thread_variables={},
    reasons={},
)
QUIET = ConditionSample(
    taken_at=NOW,
    seconds=1.0,
    load_average=(0.1, 0.2, 0.3),
    frequency_mhz=3000.0,
    temperature_c=50.0,
    steal_share=0.0,
    other_cores=0.02,
    others=(BusyProcess(name="idler", cores=0.02),),
    reasons={},
)
LIBRARY = LibraryFacts(
    binding="0.3.36",
    ggml="0.25.3",
    commit="0c1e570",
    features=("AVX2", "FMA"),
    compilers=("GCC: (Debian) 12.2.0",),
    files=(
        LibraryFile(name="libggml-cpu.so.0", bytes=10, sha256="a" * 64),
        LibraryFile(name="libllama.so", bytes=20, sha256="b" * 64),
    ),
)
ISA = ("avx2", "fma")
ENVIRONMENT = LabEnvironment(
    machine=MACHINE,
    isa=ISA,
    compilers={"gcc": "gcc (Debian) 12.2.0"},
    library=LIBRARY,
    version="0.1",
    revision="0" * 40,
    is_dirty=False,
    fingerprint=environment_fingerprint(MACHINE, ISA, LIBRARY),
    reasons={},
)
RESULT = MachineResult(
    made_at=NOW,
    environment=ENVIRONMENT,
    details=DETAILS,
    warnings=(MachineWarning(name="steal", says="2.0% went elsewhere", remedy="wait"),),
    ceilings=(
        Ceiling(kind=CeilingKind.READ, variant="stream", threads=1, rates=(10e9, 12e9, 11e9)),
        Ceiling(kind=CeilingKind.READ, variant="stream", threads=2, rates=(20e9,)),
        Ceiling(kind=CeilingKind.INT8, variant="avx2", threads=1, rates=(100e9,)),
        Ceiling(kind=CeilingKind.INT8, variant="avx512_vnni", threads=1, rates=(400e9,)),
        Ceiling(kind=CeilingKind.FP32, variant="numpy", threads=None, rates=(50e9,)),
    ),
    method="C programs, gcc 12.2.0 -O3",
    array_bytes=128 * 2**20,
    quick=False,
    busy=None,
    before=QUIET,
    after=QUIET,
    reasons={"int8-avx_vnni at 1 threads": "gcc 9 cannot build it"},
)
