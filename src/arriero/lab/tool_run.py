"""Tools of a build, compilers and binutils, asked for an answer: in one language, for a while, never by a shell."""

import os
import subprocess
from collections.abc import Sequence


def run_tool(command: Sequence[str], *, patience_s: float, text: str = "") -> "subprocess.CompletedProcess[str]":
    """Run a tool to its end; that it does not start or does not end is a status of 1 with a line of its own.

    Args:
        command: the tool, found on the path, and its arguments.
        patience_s: after which it is killed.
        text: for its standard input.
    """
    try:
        return subprocess.run(  # noqa: S603 - a tool found on the path, never a shell
            command,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=patience_s,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"error: no answer within {patience_s:g} s")
    except OSError as error:
        return subprocess.CompletedProcess(command, 1, "", f"error: {error.strerror or 'it does not start'}")
