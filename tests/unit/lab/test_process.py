"""One child: its outcome is a value, whatever it does."""

import os
import select
import signal
import sys
import threading
from pathlib import Path

import pytest

from arriero.lab.process import Finished, peak_rss_kib, run_process

LONG = "import time; print('begun', flush=True); time.sleep(60)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('begun', flush=True); time.sleep(60)"


def python(code: str, timeout_s: float = 30.0, **more: object) -> Finished:
    return run_process([sys.executable, "-IS", "-c", code], timeout_s=timeout_s, **more)  # type: ignore[arg-type]


def test_a_child_that_ends_well_is_told_whole() -> None:
    done = python("import sys; print('out'); print('err', file=sys.stderr)")
    assert (done.return_code, done.stdout, done.stderr) == (0, "out\n", "err\n")
    assert not done.timed_out
    assert done.launch_error is None
    assert done.usage is not None
    assert done.usage.user_s >= 0
    assert done.elapsed_s > 0


def test_status_and_signal_are_values() -> None:
    assert python("raise SystemExit(3)").return_code == 3
    assert python("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)").return_code == -signal.SIGSEGV


def test_much_output_does_not_block_the_child() -> None:
    assert len(python("print('x' * 1_000_000)").stdout) == 1_000_001


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert python("import sys; sys.stdout.buffer.write(b'a\\xffb')").stdout == "a\N{REPLACEMENT CHARACTER}b"


def test_a_timeout_is_a_value_and_what_was_written_is_kept() -> None:
    done = python(LONG, timeout_s=1.0)
    assert done.timed_out
    assert done.return_code == -signal.SIGTERM
    assert done.stdout == "begun\n"


def test_a_child_that_does_not_listen_is_killed() -> None:
    done = python(DEAF, timeout_s=1.0, grace_s=0.1)
    assert (done.timed_out, done.return_code) == (True, -signal.SIGKILL)


def test_what_the_child_has_started_ends_with_it(tmp_path: Path) -> None:
    place = tmp_path / "pid"
    code = f"import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-IS', '-c', {LONG!r}]); "
    code += f"open({str(place)!r}, 'w').write(str(p.pid)); time.sleep(60)"
    assert python(code, timeout_s=1.5).timed_out
    assert has_ended(int(place.read_text(encoding="ascii")))


def has_ended(pid: int) -> bool:
    """Whether a process that was killed is gone, or will be in a moment."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], 10)[0])
    finally:
        os.close(watched)


@pytest.mark.parametrize("command", [["/nowhere/to/be/found"], [], ["a\0b"]])
def test_a_program_that_cannot_be_started_is_a_value(command: list[str]) -> None:
    done = run_process(command, timeout_s=1.0)
    assert done.launch_error is not None
    assert (done.return_code, done.usage, done.peak_rss_kib) == (None, None, None)


def test_another_thread_can_end_the_child() -> None:
    event = threading.Event()
    event.set()
    done = python(LONG, interrupt=event)
    assert done.interrupted
    assert not done.timed_out


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_the_child_first(tmp_path: Path) -> None:
    """The signal comes while we wait; when the exception reaches us, that child is gone, whoever else's live on."""
    named = tmp_path / "pid"
    code = f"import os, pathlib; pathlib.Path({str(named)!r}).write_text(str(os.getpid()) + '.'); {LONG}"
    paused = threading.Event()

    def press() -> None:
        while not (named.exists() and named.read_text().endswith(".")):
            paused.wait(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        python(code)
    presser.join()
    with pytest.raises(ChildProcessError):
        os.waitpid(int(named.read_text().rstrip(".")), os.WNOHANG)


def test_variables_come_on_top_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OURS", "1")
    done = python("import os; print(os.environ['OURS'], os.environ['THEIRS'])", environment={"THEIRS": "2"})
    assert done.stdout == "1 2\n"


def test_the_child_runs_on_the_cpus_that_were_named_and_we_keep_ours() -> None:
    before = os.sched_getaffinity(0)
    cpu = max(before)
    assert python("import os; print(sorted(os.sched_getaffinity(0)))", cpus=[cpu]).stdout == f"[{cpu}]\n"
    assert os.sched_getaffinity(0) == before


def test_peak_memory_is_the_childs_own_or_none() -> None:
    """The kernel begins to count with what we have had ourselves, so a small child's figure is not its own."""
    own = peak_rss_kib()
    assert own is not None
    assert python("pass").peak_rss_kib is None
    large = python(f"x = b'x' * {(own + 50_000) * 1024}").peak_rss_kib
    assert large is not None
    assert large > own + 50_000


def test_no_shell_reads_the_words() -> None:
    assert python("import sys; print(sys.argv)").stdout == "['-c']\n"
    done = run_process([sys.executable, "-IS", "-c", "import sys; print(sys.argv[1])", "$HOME; exit 3"], timeout_s=30)
    assert (done.stdout, done.return_code) == ("$HOME; exit 3\n", 0)
