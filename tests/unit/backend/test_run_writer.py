import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from arriero.backend.run_files import FoundRun, read_head
from arriero.backend.run_writer import RunWriter, WriteOrder

PAYLOAD = np.arange(64, dtype=np.uint8)
LIMIT_S = 30.0


class Gate:
    """An order that waits on the writer's thread until the test lets it go."""

    def __init__(self) -> None:
        self.entered, self.release = threading.Event(), threading.Event()

    def __call__(self) -> bool:
        self.entered.set()
        return self.release.wait(LIMIT_S)


@pytest.fixture
def writer() -> Iterator[RunWriter]:
    made = RunWriter(2)
    yield made
    made.close()


def order(path: Path, is_wanted: Callable[[], bool] = lambda: True, done: list[FoundRun] | None = None) -> WriteOrder:
    told: list[FoundRun] = [] if done is None else done
    return WriteOrder(
        path=path,
        fingerprint="print",
        scope="scope",
        tokens=(1, 2),
        payload=PAYLOAD,
        done=told.append,
        is_wanted=is_wanted,
    )


def test_a_file_is_there_when_it_is_told(writer: RunWriter, tmp_path: Path) -> None:
    done: list[FoundRun] = []
    assert writer.write(order(tmp_path / "a.kv", done=done))
    assert writer.flush(LIMIT_S)
    assert done == [read_head(tmp_path / "a.kv")]
    assert writer.num_pending == 0


def test_orders_are_done_in_turn(writer: RunWriter, tmp_path: Path) -> None:
    gate = Gate()
    assert writer.write(order(tmp_path / "first.kv", gate))
    writer.remove(tmp_path / "first.kv")
    assert writer.write(order(tmp_path / "second.kv"))
    gate.release.set()
    assert writer.flush(LIMIT_S)
    assert [path.name for path in tmp_path.iterdir()] == ["second.kv"]
    writer.remove(tmp_path / "never-was.kv")
    assert writer.flush(LIMIT_S)
    assert writer.num_failed == 0


def test_too_many_that_wait_are_refused_at_once(writer: RunWriter, tmp_path: Path) -> None:
    gate = Gate()
    assert writer.write(order(tmp_path / "a.kv", gate))
    assert gate.entered.wait(LIMIT_S)
    assert writer.write(order(tmp_path / "b.kv"))
    assert not writer.write(order(tmp_path / "c.kv"))
    assert not writer.flush(0)
    gate.release.set()
    assert writer.flush(LIMIT_S)
    assert writer.write(order(tmp_path / "c.kv"))


def test_what_nobody_wants_any_more_is_not_written(writer: RunWriter, tmp_path: Path) -> None:
    done: list[FoundRun] = []
    assert writer.write(order(tmp_path / "a.kv", lambda: False, done))
    assert writer.flush(LIMIT_S)
    assert done == []
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_refuses_is_told_and_work_goes_on(
    writer: RunWriter, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert writer.write(order(tmp_path / "missing" / "a.kv"))
    assert writer.write(order(tmp_path / "b.kv"))
    assert writer.flush(LIMIT_S)
    assert writer.num_failed == 1
    assert "is not kept up to date" in caplog.text
    assert [path.name for path in tmp_path.iterdir()] == ["b.kv"]


def test_closing_does_what_is_left(tmp_path: Path) -> None:
    writer, gate = RunWriter(4), Gate()
    for name, is_wanted in (("a", gate), ("b", lambda: True), ("c", lambda: True)):
        assert writer.write(order(tmp_path / f"{name}.kv", is_wanted))
    gate.release.set()
    writer.close()
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["a", "b", "c"]
    assert not writer.write(order(tmp_path / "late.kv"))
