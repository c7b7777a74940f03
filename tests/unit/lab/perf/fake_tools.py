"""Programs that look like perf and valgrind: real executables, made where a test wants them."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from arriero.core.errors import DataError
from arriero.lab.perf.tools import Tool, find_tool

T = TypeVar("T")
HERE = Path(__file__).parent
CAPTURED = HERE / "captured"
VALGRIND = """
import subprocess, sys
words = sys.argv[1:]
if words == ["--version"]:
    print("valgrind-3.19.fake")
    sys.exit(0)
out = next(word.partition("=")[2] for word in words if word.startswith("--callgrind-out-file="))
command = [word for word in words if not word.startswith("--")]
if "sigill" in command:
    print("vex amd64->IR: unhandled instruction bytes: 0x62 0xF1", file=sys.stderr)
    sys.exit(132)
if "nothing" in command:
    sys.exit(0)
status = subprocess.run(command, check=False).returncode
open(out, "w").write(open(CAPTURED).read())
sys.exit(status)
"""


def script(path: Path, body: str) -> str:
    path.write_text(f"#!{sys.executable} -SE\n{body}")
    path.chmod(0o755)
    return str(path)


def fake_perf(folder: Path) -> Tool:
    source = str(HERE / "fake_perf.py")
    body = f"__file__ = {source!r}\nexec(compile(open(__file__).read(), __file__, 'exec'))\n"
    return find_tool("perf", script(folder / "perf", body))


def fake_valgrind(folder: Path) -> Tool:
    body = f"CAPTURED = {str(CAPTURED / 'callgrind.out')!r}\n{VALGRIND}"
    return find_tool("valgrind", script(folder / "valgrind", body))


def assert_refused_or_read(parse: Callable[[], T]) -> T | None:
    """Whatever a tool may write is read, or refused in one line; nothing else is ever raised."""
    refusals: list[str] = []
    found: T | None = None
    try:
        found = parse()
    except DataError as error:
        refusals.append(str(error))
    assert not any("\n" in refusal for refusal in refusals)
    return found


def captured(name: str) -> str:
    return (CAPTURED / name).read_text(encoding="utf-8")
