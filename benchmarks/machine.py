"""Facts about the machine that stand beside every figure."""

import os
import platform
import time
from pathlib import Path


def machine_facts() -> dict[str, str]:
    """CPU, cores, load average and versions, each one line."""
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    return {
        "cpu": _cpu_model(),
        "cores": str(len(os.sched_getaffinity(0))),
        "load average before": load,
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def refuse_busy_machine(limit: float = 0.7) -> str | None:
    """One line if another process keeps the CPUs busy now, else None."""
    busy = _busy_share(seconds=1.0)
    return None if busy < limit else f"the machine is busy ({busy:.0%} of one core); figures would mean nothing"


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _busy_share(seconds: float) -> float:
    """Busy time of all cores over an interval, in cores."""
    first = _cpu_times()
    time.sleep(seconds)
    second = _cpu_times()
    busy_ticks = (second[0] - first[0]) - (second[1] - first[1])
    return busy_ticks / os.sysconf("SC_CLK_TCK") / seconds


def _cpu_times() -> tuple[int, int]:
    """All ticks and idle ticks since boot."""
    values = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    return sum(values[:8]), values[3] + values[4]
