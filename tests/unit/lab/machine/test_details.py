import errno
from pathlib import Path

import pytest

from arriero.lab.machine.details import machine_details
from arriero.lab.machine.hardware_events import Events, events_refused, probe_events
from arriero.lab.machine.limits import memory_limits, throttled_periods
from arriero.lab.machine.topology import caches, cpu_list, nodes, siblings
from arriero.record.machine import usable_cpus
from tests.unit.lab.machine.machines import put

CPU = "sys/devices/system/cpu"
NO_EVENTS = Events(available=False, reason="there are none")


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0-3,8", (0, 1, 2, 3, 8)), ("5", (5,)), ("", ()), (None, ()), ("a-b,1", (1,)), ("2-1", ()), ("²", ())],
)
def test_lists_of_cpus(text: str | None, cpus: tuple[int, ...]) -> None:
    assert cpu_list(text) == cpus


def test_cores_are_groups_of_siblings(tmp_path: Path) -> None:
    pairs = {0: "0,2", 2: "0,2", 1: "1,3", 3: "1,3"}
    put(tmp_path, {f"{CPU}/cpu{cpu}/topology/thread_siblings_list": text for cpu, text in pairs.items()})
    folder = tmp_path / CPU
    assert siblings(folder, (0, 1, 2, 3)) == ((0, 2), (1, 3))
    assert siblings(folder, (0, 1)) == ((0,), (1,))  # the others are not ours
    assert siblings(folder, (0, 7)) == ()  # nothing is known of the last


def test_each_cache_is_counted_once(tmp_path: Path) -> None:
    for cpu in (0, 1):
        base = f"{CPU}/cpu{cpu}/cache"
        put(tmp_path, {
            f"{base}/index0/level": "1", f"{base}/index0/type": "Data", f"{base}/index0/size": "48K",
            f"{base}/index0/shared_cpu_list": str(cpu),
            f"{base}/index3/level": "3", f"{base}/index3/type": "Unified", f"{base}/index3/size": "32M",
            f"{base}/index3/shared_cpu_list": "0-1",
            f"{base}/index4/level": "4", f"{base}/index4/type": "Unified", f"{base}/index4/size": "odd",
        })  # fmt: skip
    found = caches(tmp_path / CPU, (0, 1))
    assert [(each.level, each.kind, each.bytes, each.cpus, each.instances) for each in found] == [
        (1, "Data", 48 * 1024, 1, 2), (3, "Unified", 32 * 2**20, 2, 1),
    ]  # fmt: skip


def test_nodes_come_by_number(tmp_path: Path) -> None:
    folder = "sys/devices/system/node"
    put(tmp_path, {
        f"{folder}/node10/cpulist": "4-5",
        f"{folder}/node2/cpulist": "0-1",
        f"{folder}/node2/meminfo": "Node 2 MemTotal:  2048 kB\nNode 2 MemFree: 1 kB\n",
    })  # fmt: skip
    assert [(each.node, each.cpus, each.memory_bytes) for each in nodes(tmp_path / folder)] == [
        (2, (0, 1), 2048 * 1024), (10, (4, 5), None),
    ]  # fmt: skip


def test_limits_of_memory_of_both_versions_of_cgroups(tmp_path: Path) -> None:
    put(tmp_path, {
        "proc/self/cgroup": "4:memory:/box\n0::/a/b\n",
        "sys/fs/cgroup/a/memory.max": "5000\n",
        "sys/fs/cgroup/a/b/memory.max": "max\n",
        "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "7000\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    })  # fmt: skip
    assert sorted(memory_limits(tmp_path)) == [5000, 7000]


def test_throttling_counts_only_where_there_is_a_quota(tmp_path: Path) -> None:
    put(
        tmp_path,
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.stat": "usage_usec 5\nnr_periods 0\nnr_throttled 0\n"},
    )
    assert throttled_periods(tmp_path) is None
    put(tmp_path, {"sys/fs/cgroup/cpu.stat": "nr_periods 10\nnr_throttled 4\n"})
    assert throttled_periods(tmp_path) == 4


def test_what_cannot_be_read_is_null_with_a_reason(tmp_path: Path) -> None:
    found = machine_details(tmp_path, environment={}, events=NO_EVENTS)
    nulls = {
        "max_mhz", "boost", "memory_available_bytes", "memory_limit_bytes", "swap_used_bytes", "throttled_periods",
        "hugepages", "perf_event_paranoid",
    }  # fmt: skip
    assert {name for name in nulls if getattr(found, name) is None} == nulls
    assert set(found.reasons) == nulls | {"hardware_events"}
    assert (found.num_cores, found.largest_cache_bytes) == (len(usable_cpus()), 0)


def test_what_can_be_read_is_there(tmp_path: Path) -> None:
    put(tmp_path, {
        "proc/meminfo": "MemAvailable: 100 kB\nSwapTotal: 10 kB\nSwapFree: 4 kB\nHugePages_Total: 0\n",
        "proc/sys/kernel/perf_event_paranoid": "-1\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        f"{CPU}/intel_pstate/no_turbo": "0\n",
        f"{CPU}/cpu{usable_cpus()[0]}/cpufreq/cpuinfo_max_freq": "4000000\n",
        f"{CPU}/cpu{usable_cpus()[0]}/cpufreq/scaling_governor": "powersave\n",
    })  # fmt: skip
    events = Events(available=True, reason=None)
    found = machine_details(tmp_path, environment={"OMP_WAIT_POLICY": "passive", "HOME": "/"}, events=events)
    assert (found.memory_available_bytes, found.swap_used_bytes) == (100 * 1024, 6 * 1024)
    assert (found.perf_event_paranoid, found.hugepages, found.boost) == (-1, "madvise", True)
    assert (found.max_mhz, found.governors, found.hardware_events) == (4000.0, ("powersave",), True)
    assert found.thread_variables == {"OMP_WAIT_POLICY": "passive"}
    put(tmp_path, {f"{CPU}/cpufreq/boost": "0\n"})
    assert machine_details(tmp_path, environment={}, events=events).boost is False


def test_the_kernel_answers_about_events() -> None:
    found = probe_events()
    assert (found.reason is None) == (found.available is True)
    before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").is_dir() else 0
    probe_events()
    if before:
        assert len(list(Path("/proc/self/fd").iterdir())) == before  # what it was given it gave back


@pytest.mark.parametrize(
    ("code", "available", "says"),
    [
        (errno.ENOENT, False, "virtual machines"),
        (errno.EACCES, False, "perf_event_paranoid"),
        (errno.ENOSYS, False, "no perf events"),
        (errno.EMFILE, None, "refused"),
    ],
)
def test_each_refusal_has_its_words(code: int, available: bool | None, says: str) -> None:  # noqa: FBT001 - a table
    found = events_refused(code)
    assert found.available is available
    assert says in (found.reason or "")
