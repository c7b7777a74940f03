"""Tools that answer, and tools that do not."""

import sys

from arriero.lab.tool_run import run_tool


def test_a_tool_gets_its_text_and_is_told_whole() -> None:
    code = "import os, sys; print(sys.stdin.read(), os.environ['LC_ALL']); sys.exit(3)"
    done = run_tool([sys.executable, "-IS", "-c", code], patience_s=60, text="asked")
    assert (done.stdout, done.returncode) == ("asked C\n", 3)


def test_a_tool_that_hangs_or_is_not_there_is_a_status_with_a_line() -> None:
    hanging = run_tool([sys.executable, "-IS", "-c", "import signal; signal.pause()"], patience_s=0.2)
    assert (hanging.returncode, hanging.stderr) == (1, "error: no answer within 0.2 s")
    missing = run_tool(["/nowhere/to/be/found"], patience_s=60)
    assert (missing.returncode, missing.stderr) == (1, "error: No such file or directory")
