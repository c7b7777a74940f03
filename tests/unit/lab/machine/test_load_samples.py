from pathlib import Path

import msgspec
import pytest

from arriero.lab.machine.load_samples import mean_frequency_mhz, sample_conditions
from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.machine import usable_cpus
from tests.unit.lab.machine.machines import put

STAT = "cpu  100 0 50 1000 0 0 0 7 0 0\n"


def test_a_machine_that_tells_nothing_has_a_reason_for_each_gap(tmp_path: Path) -> None:
    sample = sample_conditions(0.0, root=tmp_path)
    for name in ("frequency_mhz", "temperature_c", "steal_share", "other_cores"):
        assert getattr(sample, name) is None
        assert sample.reasons[name]
    assert ("load_average" in sample.reasons) == (sample.load_average is None)
    assert sample.others == ()


def test_a_machine_that_tells_all_has_no_reasons(tmp_path: Path) -> None:
    put(tmp_path, {
        "proc/stat": STAT,
        "sys/class/hwmon/hwmon0/name": "k10temp\n",
        "sys/class/hwmon/hwmon0/temp1_input": "61500\n",
        "sys/class/hwmon/hwmon0/temp2_input": "unreadable\n",
        "sys/class/hwmon/hwmon1/name": "nvme\n",
        "sys/class/hwmon/hwmon1/temp1_input": "99000\n",
        "sys/class/thermal/thermal_zone0/type": "x86_pkg_temp\n",
        "sys/class/thermal/thermal_zone0/temp": "60000\n",
        **{f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq": "3000000\n" for cpu in usable_cpus()},
    })  # fmt: skip
    sample = sample_conditions(0.0, root=tmp_path)
    assert (sample.temperature_c, sample.frequency_mhz) == (61.5, 3000.0)  # a hot disk is no hot processor
    assert (sample.steal_share, sample.other_cores) == (0.0, 0.0)
    assert set(sample.reasons) <= {"load_average"}


def test_frequencies_are_averaged_over_cores(tmp_path: Path) -> None:
    put(tmp_path, {"proc/cpuinfo": "cpu MHz\t: 2000.0\nflags : x\ncpu MHz\t: 3000.0\ncpu MHz\t: odd\n"})
    assert mean_frequency_mhz(tmp_path) == 2500.0


def test_stolen_time_is_a_share_of_the_usable_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, {"proc/stat": STAT})

    def steal(_seconds: float) -> None:  # all that can be stolen, and more than the clock allows
        put(tmp_path, {"proc/stat": "cpu  100 0 50 1000 0 0 0 9000000 0 0\n"})

    monkeypatch.setattr("arriero.lab.machine.load_samples.time.sleep", steal)
    sample = sample_conditions(1.0, root=tmp_path)
    assert sample.steal_share == 1.0
    assert sample.others[-1].name == "stolen by the hypervisor"


def test_this_machine_has_a_sample_that_a_file_can_hold() -> None:
    sample = sample_conditions(0.01)
    assert sample.seconds >= 0.01
    assert msgspec.json.decode(msgspec.json.encode(sample), type=ConditionSample) == sample
