"""machine_details: caches, siblings, nodes and limits, from `/proc` and `/sys`; what cannot be read is null."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from arriero.lab.machine.hardware_events import Events, probe_events
from arriero.lab.machine.limits import memory_info, memory_limits, throttled_periods
from arriero.lab.machine.topology import caches, nodes, siblings, whole
from arriero.record.cpu_lab.machine_details import MachineDetails
from arriero.record.machine import ROOT, as_number, file_text, usable_cpus

THREAD_VARIABLES: Final = (
    "OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "OMP_WAIT_POLICY", "OMP_PROC_BIND", "OMP_PLACES", "OMP_DYNAMIC",
    "GOMP_CPU_AFFINITY", "GOMP_SPINCOUNT", "KMP_AFFINITY", "KMP_BLOCKTIME",
)  # fmt: skip


def machine_details(
    root: Path = ROOT, *, environment: Mapping[str, str] = os.environ, events: Events | None = None
) -> MachineDetails:
    """Read them now.

    Args:
        root: where `proc` and `sys` are.
        environment: variables of the process that will compute.
        events: whether the CPU's counters can be had; None asks the kernel.
    """
    cpus = usable_cpus()
    folder = root / "sys/devices/system/cpu"
    memory = memory_info(root)
    swap = (memory.get("SwapTotal"), memory.get("SwapFree"))
    counters = probe_events() if events is None else events
    hugepages = file_text(root / "sys/kernel/mm/transparent_hugepage/enabled") or ""
    values = {
        "max_mhz": _scaled(file_text(folder / f"cpu{cpus[0]}/cpufreq/cpuinfo_max_freq"), 1000),
        "boost": _boost(folder),
        "memory_available_bytes": memory.get("MemAvailable"),
        "memory_limit_bytes": min(memory_limits(root), default=None),
        "swap_used_bytes": None if swap[0] is None or swap[1] is None else swap[0] - swap[1],
        "throttled_periods": throttled_periods(root),
        "hugepages": hugepages.partition("[")[2].partition("]")[0] or None,
        "hardware_events": counters.available,
        "perf_event_paranoid": whole(file_text(root / "proc/sys/kernel/perf_event_paranoid")),
    }
    reasons = {name: _REASONS[name] for name, value in values.items() if value is None and name in _REASONS}
    if counters.reason is not None:
        reasons["hardware_events"] = counters.reason
    found = {
        **values,
        "usable_cpus": cpus,
        "siblings": siblings(folder, cpus),
        "caches": caches(folder, cpus),
        "nodes": tuple(nodes(root / "sys/devices/system/node")),
        "governors": sorted(set(filter(None, (_governor(folder, cpu) for cpu in cpus)))),
        "thread_variables": {name: environment[name] for name in THREAD_VARIABLES if name in environment},
        "reasons": reasons,
    }
    return msgspec.convert(found, MachineDetails)


_REASONS: Final = MappingProxyType({
    "max_mhz": "no cpufreq here: the hypervisor or the firmware decides",
    "boost": "no cpufreq here: the hypervisor or the firmware decides",
    "memory_available_bytes": "/proc/meminfo: MemAvailable cannot be read here",
    "memory_limit_bytes": "no limit is set, or none that can be seen from here",
    "swap_used_bytes": "/proc/meminfo: SwapTotal and SwapFree cannot be read here",
    "throttled_periods": "no cgroup with a quota can be seen from here",
    "hugepages": "/sys/kernel/mm/transparent_hugepage cannot be read here",
    "perf_event_paranoid": "/proc/sys/kernel/perf_event_paranoid cannot be read here",
})


def _governor(folder: Path, cpu: int) -> str | None:
    return file_text(folder / f"cpu{cpu}/cpufreq/scaling_governor")


def _boost(folder: Path) -> bool | None:
    boost, no_turbo = file_text(folder / "cpufreq/boost"), file_text(folder / "intel_pstate/no_turbo")
    if boost is not None:
        return boost == "1"
    return None if no_turbo is None else no_turbo == "0"


def _scaled(text: str | None, divisor: float) -> float | None:
    number = as_number(text)
    return None if number is None else number / divisor
