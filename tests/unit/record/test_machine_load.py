import os
from pathlib import Path

import pytest

from arriero.record.machine_load import CpuSnapshot, ProcessTicks, busy_now, load_between, take_snapshot

HZ = os.sysconf("SC_CLK_TCK")
ME = os.getpid()


Processes = dict[int, tuple[str, int, float]]


def snapshot(at_s: float, busy: float | None, processes: Processes, stolen: float = 0) -> CpuSnapshot:
    """Name, parent and CPU seconds by process id."""
    return CpuSnapshot(
        at_ns=round(at_s * 1e9),
        busy_ticks=None if busy is None else round(busy * HZ),
        stolen_ticks=round(stolen * HZ),
        processes={
            pid: ProcessTicks(name, parent, 7, round(seconds * HZ))
            for pid, (name, parent, seconds) in processes.items()
        },
        load_average=(1.0, 2.0, 3.0),
    )


def test_time_goes_to_generator_server_and_others() -> None:
    before: Processes = {
        1: ("init", 0, 5),
        ME: ("client", 1, 1),
        50: ("server", ME, 2),
        60: ("worker", 50, 0),
        70: ("compiler", 1, 9),
    }
    after: Processes = {
        1: ("init", 0, 5),
        ME: ("client", 1, 1.5),
        50: ("server", ME, 3),
        60: ("worker", 50, 1),
        61: ("helper", ME, 0.1),
        70: ("compiler", 1, 10.8),
    }
    first, second = snapshot(10, 100, before), snapshot(12, 105, after, stolen=0.2)
    load = load_between(first, second, server=[50])
    assert load.seconds == 2
    assert load.busy_cores == pytest.approx(2.5)
    assert load.own_cores == pytest.approx(0.3)  # itself and what it started, without the server
    assert load.server_cores == pytest.approx(1.0)
    assert load.other_cores == pytest.approx(1.2)
    assert load.stolen_cores == pytest.approx(0.1)
    assert [(each.name, round(each.cores, 6)) for each in load.others] == [
        ("compiler", 0.9),
        ("all others", 0.3),  # what ended in between
        ("stolen by the hypervisor", 0.1),
    ]
    assert load.reasons == {}


def test_a_process_id_that_came_back_is_another_process() -> None:
    first = snapshot(0, 0, {9: ("old", 1, 50)})
    second = snapshot(1, 1, {})
    again = second._replace(processes={9: ProcessTicks("new", 1, 99, HZ // 2)})
    load = load_between(first, again)
    assert [(each.name, each.cores) for each in load.others] == [("new", 0.5), ("all others", 0.5)]


def test_a_loop_among_parents_ends() -> None:
    tangled = snapshot(1, 1, {5: ("a", 6, 0.5), 6: ("b", 5, 0.5)})
    assert load_between(snapshot(0, 0, {}), tangled).other_cores == 1.0


def test_only_the_busiest_are_named() -> None:
    many = {pid: (f"p{pid}", 1, pid / 100) for pid in range(10, 20)}
    load = load_between(snapshot(0, 0, {}), snapshot(1, 2, many))
    assert [each.name for each in load.others] == ["p19", "p18", "p17", "p16", "p15", "all others"]


def test_a_server_elsewhere_is_null_with_a_reason() -> None:
    load = load_between(snapshot(0, 0, {}), snapshot(1, 1, {}))
    assert load.server_cores is None
    assert "server_cores" in load.reasons


def test_without_cpu_times_all_is_null_with_a_reason() -> None:
    load = load_between(snapshot(0, None, {}), snapshot(1, 1, {}), server=[5])
    assert (load.busy_cores, load.other_cores, load.own_cores, load.stolen_cores, load.others) == (None,) * 4 + ((),)
    assert set(load.reasons.values()) == {"/proc/stat cannot be read here"}
    nowhere = load_between(*[snapshot(at, 1, {})._replace(load_average=None) for at in (0, 1)])
    assert "load_average" in nowhere.reasons


def test_names_may_hold_anything(tmp_path: Path) -> None:
    fields = " ".join(["S", "3", *["0"] * 9, "40", "2", *["0"] * 6, "77"])
    (tmp_path / "proc/12").mkdir(parents=True)
    (tmp_path / "proc/12/stat").write_text(f"12 (a (nasty) name) {fields}")
    (tmp_path / "proc/13").mkdir()  # it has ended meanwhile
    (tmp_path / "proc/stat").write_text("cpu  10 20 30 1000 50 1 2 4 0 0\ncpu0 1 2 3\n")
    found = take_snapshot(tmp_path)
    assert found.processes == {12: ProcessTicks("a (nasty) name", 3, 77, 42)}
    assert (found.busy_ticks, found.stolen_ticks) == (63, 4)


def test_a_system_without_such_files(tmp_path: Path) -> None:
    found = take_snapshot(tmp_path)
    assert (found.busy_ticks, found.processes) == (None, {})
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text("nothing")
    assert take_snapshot(tmp_path).busy_ticks is None


def test_this_process_is_seen_working() -> None:
    first = take_snapshot()
    begin = os.times().user
    while os.times().user - begin < 0.05:
        sum(range(1000))
    load = load_between(first, take_snapshot())
    if load.own_cores is not None:  # a system with /proc
        assert load.own_cores > 0


def test_a_busy_machine_is_told_in_one_line() -> None:
    said = busy_now(0.01, limit=-1.0)
    if said is not None:  # a system with /proc
        assert said.startswith("the machine is busy: others use ")
        assert "\n" not in said
    assert busy_now(0.01, limit=1e9) is None
