"""sample_conditions: load, frequency, temperature, stolen time and busy neighbours, now.

Taken before and after each invocation that is measured, never during: reading costs a few milliseconds of one core.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Final

from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.machine import ROOT, as_number, file_text, usable_cpus
from arriero.record.machine_load import load_between, take_snapshot

WATCH_S: Final = 0.25
"""Long enough for the kernel's ticks of 10 ms to tell a busy neighbour, short beside what is measured."""

CPU_SENSORS: Final = frozenset({"coretemp", "k10temp", "zenpower", "cpu_thermal", "x86_pkg_temp", "acpitz"})
"""Drivers and zones that tell the temperature of a processor; others are of disks, radios and batteries."""


def sample_conditions(seconds: float = WATCH_S, *, root: Path = ROOT) -> ConditionSample:
    """Watch the machine for a moment.

    Args:
        seconds: how long; this thread sleeps meanwhile.
        root: where `proc` and `sys` are.
    """
    first = take_snapshot(root)
    time.sleep(seconds)
    load = load_between(first, take_snapshot(root))
    frequency = mean_frequency_mhz(root)
    temperature = max(_temperatures(root), default=None)
    steal = None if load.stolen_cores is None else min(1.0, load.stolen_cores / len(usable_cpus()))
    reasons = {
        "load_average": None if load.load_average else "this system keeps none",
        "frequency_mhz": None if frequency else "neither cpufreq nor /proc/cpuinfo tells it",
        "temperature_c": "no sensor of the processor can be read here" if temperature is None else None,
        "steal_share": load.reasons.get("stolen_cores"),
        "other_cores": load.reasons.get("other_cores"),
    }
    return ConditionSample(
        taken_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        seconds=load.seconds,
        load_average=load.load_average,
        frequency_mhz=frequency,
        temperature_c=temperature,
        steal_share=steal,
        other_cores=load.other_cores,
        others=load.others,
        reasons={name: reason for name, reason in reasons.items() if reason is not None},
    )


def mean_frequency_mhz(root: Path = ROOT) -> float | None:
    """Over the cores that this process may use: what cpufreq says, else /proc/cpuinfo; None where neither does."""
    folder = root / "sys/devices/system/cpu"
    texts = [file_text(folder / f"cpu{cpu}/cpufreq/scaling_cur_freq") for cpu in usable_cpus()]
    kilohertz = [number for text in texts if (number := as_number(text)) is not None]
    if kilohertz:
        return fmean(kilohertz) / 1000
    lines = (file_text(root / "proc/cpuinfo") or "").splitlines()
    values = [as_number(line.partition(":")[2]) for line in lines if line.startswith("cpu MHz")]
    megahertz = [value for value in values if value is not None]
    return fmean(megahertz) if megahertz else None


def _temperatures(root: Path) -> Iterator[float]:
    """Degrees Celsius of every sensor of a processor."""
    for folder in sorted((root / "sys/class/thermal").glob("thermal_zone*")):
        kind = file_text(folder / "type") or ""
        if kind in CPU_SENSORS or kind.startswith("cpu"):
            yield from _degrees(folder / "temp")
    for folder in sorted((root / "sys/class/hwmon").glob("hwmon*")):
        if file_text(folder / "name") in CPU_SENSORS:
            for path in sorted(folder.glob("temp*_input")):
                yield from _degrees(path)


def _degrees(path: Path) -> Iterator[float]:
    thousandths = as_number(file_text(path))
    if thousandths is not None:
        yield thousandths / 1000
