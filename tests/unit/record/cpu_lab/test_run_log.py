"""The durable log: what is on disk after any end, and what a reader makes of it."""

import json
import os
import random
import resource
import signal
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.errors import DataError
from arriero.record.cpu_lab.run_log import (
    LINES,
    MANIFEST,
    SUMMARY,
    TORN,
    JsonValue,
    RunLog,
    Status,
    differences,
    fingerprint,
    holds_run,
    latest_per_id,
    read_run,
)

PLAN: dict[str, JsonValue] = {"files": [{"name": "a.gguf", "sha256": "00"}], "repetitions": 5}
OTHER: dict[str, JsonValue] = {**PLAN, "repetitions": 6}


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run_id: str
    invocation_id: str
    status: Status = Status.SUCCESS
    value: float = 0.0


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    done: int


def write(folder: Path, values: Sequence[tuple[str, float]]) -> str:
    with RunLog[Record].create(folder, Record, PLAN) as log:
        for invocation, value in values:
            log.append(Record(run_id=log.run_id, invocation_id=invocation, value=value))
        return log.run_id


def refused(folder: Path, manifest: dict[str, JsonValue] | None = None) -> str:
    with pytest.raises(DataError) as caught:
        RunLog[Record].resume(folder, Record, manifest or PLAN)
    return f"{caught.value.line}: {caught.value}"


def test_records_are_on_disk_in_their_order_and_readable_while_it_is_written(tmp_path: Path) -> None:
    with RunLog[Record].create(tmp_path / "run", Record, PLAN) as log:
        log.append(Record(run_id=log.run_id, invocation_id="a", value=1.0))
        log.append(Record(run_id=log.run_id, invocation_id="b", value=2.0))
        stored = read_run(tmp_path / "run", Record)
    assert [record.invocation_id for record in stored.records] == ["a", "b"]
    assert stored.manifest.manifest == PLAN


def test_a_folder_that_holds_a_run_is_refused(tmp_path: Path) -> None:
    write(tmp_path, [("a", 1.0)])
    with pytest.raises(DataError, match="--resume"):
        RunLog[Record].create(tmp_path, Record, PLAN)
    (tmp_path / MANIFEST).unlink()  # lines alone are a run, too
    assert holds_run(tmp_path)
    with pytest.raises(DataError, match="--resume"):
        RunLog[Record].create(tmp_path, Record, PLAN)


def test_the_latest_record_of_an_id_counts_for_every_reader(tmp_path: Path) -> None:
    write(tmp_path, [("a", 1.0), ("b", 2.0), ("a", 3.0)])
    stored = read_run(tmp_path, Record)
    with RunLog[Record].resume(tmp_path, Record, PLAN) as log:
        assert {name: record.value for name, record in log.latest.items()} == {"a": 3.0, "b": 2.0}
        assert log.latest == stored.latest == latest_per_id(stored.records)
    assert list(stored.latest) == ["a", "b"]


def test_a_resumed_run_keeps_its_id_and_goes_on_behind_its_lines(tmp_path: Path) -> None:
    run_id = write(tmp_path, [("a", 1.0)])
    with RunLog[Record].resume(tmp_path, Record, PLAN) as log:
        assert log.run_id == run_id
        log.append(Record(run_id=run_id, invocation_id="b"))
    assert [record.invocation_id for record in read_run(tmp_path, Record).records] == ["a", "b"]


def test_a_run_that_was_killed_before_its_first_line_is_resumed(tmp_path: Path) -> None:
    write(tmp_path, [])
    (tmp_path / LINES).unlink()
    with RunLog[Record].resume(tmp_path, Record, PLAN) as log:
        assert not log.latest


@pytest.mark.parametrize(
    ("line", "place", "what"),
    [
        (b'{"run_id": "RUN", "invocation_id": "b", "statu', "2", "cut off"),
        (b"not JSON\n", "2", "malformed JSON"),
        (b'{"run_id": "RUN", "invocation_id": "b", "status": "fine"}\n', "2", "status"),
        (b'{"run_id": "RUN", "invocation_id": "b", "status": "success", "more": 1}\n', "2", "more"),
        (b'{"run_id": "RUN", "invocation_id": "b", "invocation_id": "c"}\n', "2", "twice"),
        (b'{"run_id": "another", "invocation_id": "b", "status": "success"}\n', "2", "belongs to run another"),
        (b"\n", "2", "malformed JSON"),
        (b'"\xff"\n', "2", "UTF-8"),
    ],
)
def test_a_bad_line_is_an_error_with_its_number_for_writer_and_reader(
    tmp_path: Path, line: bytes, place: str, what: str
) -> None:
    run_id = write(tmp_path, [("a", 1.0)])
    with (tmp_path / LINES).open("ab") as file:
        file.write(line.replace(b"RUN", run_id.encode()))
    assert refused(tmp_path).startswith(f"{place}: ")
    assert what in refused(tmp_path)
    with pytest.raises(DataError, match=f"line {place}"):
        read_run(tmp_path, Record)


def test_a_line_that_a_killed_process_cut_off_is_set_aside_on_request(tmp_path: Path) -> None:
    write(tmp_path, [("a", 1.0), ("b", 2.0)])
    path = tmp_path / LINES
    os.truncate(path, path.stat().st_size - 5)
    assert "--repair" in refused(tmp_path)
    with RunLog[Record].resume(tmp_path, Record, PLAN, repair=True) as log:
        assert list(log.latest) == ["a"]
        log.append(Record(run_id=log.run_id, invocation_id="b", value=4.0))
    assert [record.value for record in read_run(tmp_path, Record).records] == [1.0, 4.0]
    assert (tmp_path / TORN).read_bytes().endswith(b"\n")


def test_another_plan_is_refused_by_name_unless_forced_and_that_is_kept(tmp_path: Path) -> None:
    write(tmp_path, [("a", 1.0)])
    assert "repetitions" in refused(tmp_path, OTHER)
    RunLog[Record].resume(tmp_path, Record, OTHER, force=True).close()
    manifest = read_run(tmp_path, Record).manifest
    assert manifest.manifest == OTHER
    assert manifest.forced_over == (fingerprint(PLAN),)
    RunLog[Record].resume(tmp_path, Record, OTHER).close()  # from now on it is this one's


def test_a_manifest_that_somebody_changed_is_refused(tmp_path: Path) -> None:
    write(tmp_path, [])
    text = (tmp_path / MANIFEST).read_text(encoding="utf-8")
    (tmp_path / MANIFEST).write_text(text.replace('"repetitions": 5', '"repetitions": 50'), encoding="utf-8")
    assert "fingerprint" in refused(tmp_path)


def test_two_processes_do_not_write_one_run(tmp_path: Path) -> None:
    with RunLog[Record].create(tmp_path, Record, PLAN):
        assert "another process" in refused(tmp_path)
    RunLog[Record].resume(tmp_path, Record, PLAN).close()


@pytest.mark.parametrize("repair", [False, True])
def test_a_run_that_the_system_does_not_let_be_read_is_told_in_one_line(tmp_path: Path, *, repair: bool) -> None:
    RunLog.create(tmp_path, Record, PLAN, sync=False).close()
    (tmp_path / LINES).unlink()
    (tmp_path / LINES).mkdir()
    with pytest.raises(DataError, match=r"cannot be read and written .*name another folder"):
        RunLog.resume(tmp_path, Record, PLAN, repair=repair, sync=False)


def test_a_folder_without_a_run_is_told(tmp_path: Path) -> None:
    assert "no run" in refused(tmp_path)


def test_the_summary_is_replaced_as_a_whole_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with RunLog[Record].create(tmp_path, Record, PLAN) as log:
        for done in range(3):
            log.summarise(Summary(done=done))
    assert json.loads((tmp_path / SUMMARY).read_bytes()) == {"done": 2}
    assert sorted(path.name for path in tmp_path.iterdir()) == [MANIFEST, SUMMARY, LINES]


def test_a_record_that_the_disk_does_not_take_leaves_no_half_line(tmp_path: Path) -> None:
    """A file that may not grow stands for a full disk."""
    log = RunLog[Record].create(tmp_path, Record, PLAN)
    log.append(Record(run_id=log.run_id, invocation_id="a"))
    for room in (0, 10):  # nothing fits; a part fits
        with (
            files_no_larger_than((tmp_path / LINES).stat().st_size + room),
            pytest.raises(DataError, match="make room"),
        ):
            log.append(Record(run_id=log.run_id, invocation_id="b"))
    log.append(Record(run_id=log.run_id, invocation_id="c"))
    log.close()
    assert list(log.latest) == ["a", "c"]
    assert [record.invocation_id for record in read_run(tmp_path, Record).records] == ["a", "c"]


@contextmanager
def files_no_larger_than(size: int) -> Generator[None]:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    heard = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, heard)


def test_differences_name_what_was_added_and_what_is_gone() -> None:
    assert differences({"a": 1, "b": (1, 2)}, {"b": [1, 2], "c": None, "a": 1}) == []
    assert differences({"a": 1}, {"b": 1}) == ["a", "b"]


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.integers()), max_size=6), st.randoms())
def test_the_fingerprint_does_not_depend_on_the_order_of_keys(
    values: dict[str, JsonValue], chance: random.Random
) -> None:
    names = list(values)
    chance.shuffle(names)
    assert fingerprint({name: values[name] for name in names}) == fingerprint(values)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=20))
def test_latest_per_id_is_what_a_dictionary_of_all_would_hold(pairs: list[tuple[str, int]]) -> None:
    records = [Record(run_id="r", invocation_id=name, value=value) for name, value in pairs]
    assert {name: record.value for name, record in latest_per_id(records).items()} == dict(pairs)
