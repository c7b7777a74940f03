"""LineWriter: order, overflow, the end, and a file that fails."""

import io
import logging
import threading
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest

from arriero.core.errors import ConfigError
from arriero.record.lines import LineCounts, LineList, LineWriter

LIMIT_S = 10.0


def gap(dropped: int) -> bytes:
    return f"gap {dropped}".encode()


def line(number: int) -> tuple[bytes]:
    return (f"line {number}".encode(),)


class Blocked:
    """An entry that keeps the writing thread until it is let go."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.release = threading.Event()

    def __call__(self) -> tuple[bytes]:
        self.reached.set()
        assert self.release.wait(LIMIT_S)
        return (b"blocked",)


class Kept(io.BytesIO):
    """A file whose bytes can be read after it was closed."""

    content = b""
    num_flushes = 0

    def flush(self) -> None:
        self.num_flushes += 1
        super().flush()

    def close(self) -> None:
        if not self.closed:
            self.content = self.getvalue()
        super().close()


class FullDisk(Kept):
    def write(self, data: object, /) -> int:
        del data
        raise OSError(28, "No space left on device")


def test_lines_come_in_order_and_all_are_there_after_close(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    with LineWriter.to_path(str(path), gap, option="--diagnostics") as writer:
        for number in range(1000):
            assert writer.put(partial(line, number))
    assert path.read_text().splitlines() == [f"line {number}" for number in range(1000)]
    assert writer.counts == LineCounts(written=1000, dropped=0, failed=0)


def test_lines_are_made_on_the_writing_thread(tmp_path: Path) -> None:
    made_on: list[str] = []

    def render() -> Iterable[bytes]:
        made_on.append(threading.current_thread().name)
        return ()

    with LineWriter.to_path(str(tmp_path / "lines"), gap, option="--diagnostics") as writer:
        writer.put(render)
    assert made_on == ["arriero-lines"]


def test_an_overflow_drops_counts_and_leaves_a_gap_line_at_its_place() -> None:
    file, blocked = Kept(), Blocked()
    writer = LineWriter(file, gap, capacity=2)
    writer.put(blocked)
    assert blocked.reached.wait(LIMIT_S)
    taken = [writer.put(partial(line, number)) for number in range(5)]
    kept = writer.put(partial(line, 5), keep=True)
    blocked.release.set()
    writer.close()
    assert taken == [True, True, False, False, False]
    assert kept
    assert file.content.decode().splitlines() == ["blocked", "line 0", "line 1", "gap 3", "line 5"]
    assert writer.counts == LineCounts(written=5, dropped=3, failed=0)


def test_a_gap_at_the_very_end_is_told_as_well() -> None:
    file, blocked = Kept(), Blocked()
    writer = LineWriter(file, gap, capacity=1)
    writer.put(blocked)
    assert blocked.reached.wait(LIMIT_S)
    assert [writer.put(partial(line, number)) for number in range(3)] == [True, False, False]
    blocked.release.set()
    writer.close()
    assert file.content == b"blocked\nline 0\ngap 2\n"


def test_close_may_be_called_again_and_ends_the_thread() -> None:
    before = threading.active_count()
    file = Kept()
    writer = LineWriter(file, gap)
    writer.put(partial(line, 0))
    for _ in range(3):
        writer.close()
    assert threading.active_count() == before
    assert file.closed
    assert file.content == b"line 0\n"
    assert not writer.put(partial(line, 1), keep=True)
    assert writer.counts == LineCounts(written=1, dropped=1, failed=0)


def test_a_record_that_cannot_be_made_is_left_out_and_the_rest_is_written(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Iterable[bytes]:
        yield b"half"
        raise LookupError("no such request")

    file = Kept()
    with caplog.at_level(logging.ERROR), LineWriter(file, gap) as writer:
        for entry in (partial(line, 0), broken, broken, partial(line, 1)):
            writer.put(entry)
    assert file.content == b"line 0\nline 1\n"
    assert writer.counts == LineCounts(written=2, dropped=0, failed=2)
    assert len(caplog.records) == 1


def test_a_full_disk_is_told_once_and_hurts_nobody(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), LineWriter(FullDisk(), gap) as writer:
        for number in range(5):
            assert writer.put(partial(line, number))
    assert writer.counts == LineCounts(written=0, dropped=0, failed=5)
    assert [record.message for record in caplog.records] == [
        "records cannot be written any more: [Errno 28] No space left on device"
    ]


def test_what_is_written_can_be_seen_before_the_end(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    seen = threading.Event()
    found: list[bytes] = []

    def look() -> Iterable[bytes]:
        found.append(path.read_bytes())
        seen.set()
        return ()

    with LineWriter.to_path(str(path), gap, option="--diagnostics") as writer:
        flushed = Blocked()
        writer.put(partial(line, 0))
        writer.put(flushed)
        assert flushed.reached.wait(LIMIT_S)
        flushed.release.set()
        writer.put(look)
        assert seen.wait(LIMIT_S)
    assert found[0] in {b"", b"line 0\n", b"line 0\nblocked\n"}  # whole lines, whatever was flushed by then


def test_it_flushes_whenever_nothing_waits() -> None:
    file = Kept()
    with LineWriter(file, gap) as writer:
        writer.put(partial(line, 0))
    assert file.num_flushes >= 1


@pytest.mark.parametrize("name", ["missing/lines", "."])
def test_a_path_that_cannot_be_written_is_a_configuration_error(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    with pytest.raises(ConfigError, match=r"--diagnostics .*: cannot be written \(.*\); name a file") as raised:
        LineWriter.to_path(path, gap, option="--diagnostics")
    assert path in str(raised.value)
    assert "\n" not in str(raised.value)


def test_it_appends_and_ends_a_line_that_an_earlier_crash_left_torn(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"old\nto")
    for number in (1, 2):
        with LineWriter.to_path(str(path), gap, option="--diagnostics") as writer:
            writer.put(partial(line, number))
    assert path.read_bytes() == b"old\nto\nline 1\nline 2\n"


def test_a_hyphen_is_standard_error_which_stays_open(capfd: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2):
        with LineWriter.to_path("-", gap, option="--diagnostics") as writer:
            writer.put(partial(line, number))
    assert capfd.readouterr().err == "line 1\nline 2\n"


def test_many_producers_lose_nothing() -> None:
    file = Kept()
    with LineWriter(file, gap, capacity=10_000) as writer:

        def produce(first: int) -> None:
            for number in range(first, first + 100):
                writer.put(partial(line, number))

        threads = [threading.Thread(target=produce, args=(100 * n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    written = file.content.decode().splitlines()
    assert sorted(written) == sorted(f"line {number}" for number in range(800))


def test_a_list_makes_lines_at_once() -> None:
    sink = LineList()
    assert sink.put(partial(line, 1))
    assert sink.lines == [b"line 1"]
