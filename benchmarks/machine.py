"""Facts about the machine as lines that stand beside every figure of these scripts."""

import os

from arriero.record.machine import fact_lines
from arriero.record.machine import machine_facts as read_facts
from arriero.record.machine_load import BUSY_CORES, busy_now


def machine_facts() -> dict[str, str]:
    """CPU, cores, load average and versions, each one line."""
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    return {**fact_lines(read_facts()), "load average before": load}


def refuse_busy_machine(limit: float = BUSY_CORES) -> str | None:
    """One line if another process keeps the CPUs busy now, else None."""
    return busy_now(limit=limit)
