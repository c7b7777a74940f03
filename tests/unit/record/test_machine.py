from pathlib import Path

import msgspec
import pytest

from arriero.record.machine import MachineFacts, fact_lines, machine_facts, usable_cpus

CPUINFO = """processor\t: 0
model name\t: Some CPU @ 2.60GHz
cpu MHz\t\t: 2599.5
flags\t\t: fpu avx2 hypervisor

processor\t: 1
model name\t: Another CPU
"""


def put(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_facts_are_read_from_the_files_of_the_system(tmp_path: Path) -> None:
    put(tmp_path, "proc/cpuinfo", CPUINFO)
    put(tmp_path, "proc/meminfo", "MemTotal:       1024 kB\nMemFree: 5 kB\n")
    put(tmp_path, "proc/self/cgroup", "0::/a/b\n")
    put(tmp_path, "sys/fs/cgroup/a/cpu.max", "150000 100000\n")
    put(tmp_path, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n")
    put(tmp_path, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n")
    facts = machine_facts(tmp_path)
    assert (facts.cpu, facts.frequency_mhz, facts.virtualised) == ("Some CPU @ 2.60GHz", 2599.5, True)
    assert (facts.memory_bytes, facts.cgroup_cores, facts.governor) == (1024 * 1024, 1.5, "performance")
    assert (facts.cores, facts.reasons) == (len(usable_cpus()), {})


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"proc/self/cgroup": "4:cpu,cpuacct:/x", "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us": "50000",
          "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us": "100000"}, 0.5),
        ({"proc/self/cgroup": "1:cpu:/", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
          "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, None),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "200000 100000"}, 2.0),
        ({"proc/self/cgroup": "0::/../..", "sys/fs/cgroup/cpu.max": "nonsense"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_limits_of_both_versions_of_cgroups(tmp_path: Path, files: dict[str, str], cores: float | None) -> None:
    for name, text in files.items():
        put(tmp_path, name, text)
    facts = machine_facts(tmp_path)
    assert facts.cgroup_cores == cores
    assert ("cgroup_cores" in facts.reasons) == (cores is None)


def test_what_cannot_be_read_is_null_with_a_reason(tmp_path: Path) -> None:
    facts = machine_facts(tmp_path)
    for name in ("cpu", "governor", "frequency_mhz", "virtualised", "memory_bytes", "cgroup_cores"):
        assert getattr(facts, name) is None
        assert facts.reasons[name]
    put(tmp_path, "proc/cpuinfo", "cpu MHz : fast\nflags : fpu\n")
    assert machine_facts(tmp_path).frequency_mhz is None
    assert machine_facts(tmp_path).virtualised is False


def test_this_machine_has_facts_that_a_file_can_hold() -> None:
    facts = machine_facts()
    assert facts.cores >= 1
    assert msgspec.json.decode(msgspec.json.encode(facts), type=MachineFacts) == facts
    lines = fact_lines(facts)
    assert all(lines.values())
    assert lines["cores"].startswith(str(facts.cores))


def test_a_limit_stands_beside_the_cores(tmp_path: Path) -> None:
    limited = msgspec.structs.replace(machine_facts(tmp_path), cores=8, cgroup_cores=1.5)
    lines = fact_lines(limited)
    assert (lines["cores"], lines["cpu"], lines["virtualised"]) == ("8, limited to 1.5", "unknown", "unknown")
