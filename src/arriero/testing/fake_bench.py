"""A program that stands in for llama-bench: takes its arguments, prints its table, and misbehaves on request.

`write_fake_bench` puts a script into a folder, with a plan beside it: which settings misbehave, and how. Every call is
written to `calls.jsonl` when it begins, so that a test sees what was really started. The rates are made from the
arguments, so two runs of one setting say the same.

This file is also the program: the script reads it as text, so it uses the standard library alone and starts in a few
hundredths of a second.
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

CALLS: Final = "calls.jsonl"
SILENCE_S: Final = 60.0
HELP: Final = (
    "  -p, --n-prompt <n>\n  -n, --n-gen <n>\n  -d, --n-depth <n>\n  -ctk, --cache-type-k <t>\n"
    "  -fa, --flash-attn <on|off|auto>\n  -dev, --device <dev0/dev1/...>\n  -lm, --load-mode <none|mmap>\n"
)
_HEAD: Final = (
    "| model | size | params | backend | threads | n_batch | test | t/s |\n"
    "| ----- | ---: | -----: | ------- | ------: | ------: | ---: | --: |\n"
)


class Mode(StrEnum):
    """What a call does."""

    SUCCESS = "success"
    DELAY = "delay"  # success, after a while
    EXIT = "exit"  # status 3, with a complaint
    EXIT_ONCE = "exit-once"  # the first time; success after that
    MALFORMED = "malformed"  # a table with a rate that is no number
    NO_TABLE = "no-table"  # status 0 and something else
    OTHER_CASE = "other-case"  # a sound table about another number of threads
    SILENT = "silent"  # half a table, then nothing for a minute


def write_fake_bench(
    folder: Path, modes: Mapping[str, Mode] | None = None, *, delay_s: float = 0.0, python: str = sys.executable
) -> Path:
    """Put the program into a folder.

    Args:
        folder: made if it is missing; `calls.jsonl` comes there, too.
        modes: settings such as `p128-n64-t2`, or a beginning of that, and how they misbehave; the first that fits.
        delay_s: how long a delayed call takes.
        python: that runs it.

    Returns:
        The program's path.
    """
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "llama-bench"
    plan = {"modes": list((modes or {}).items()), "delay_s": delay_s}
    (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    program.write_text(
        f"#!{python} -IS\n"
        "import sys\n"
        f"code = compile(open({str(Path(__file__).resolve())!r}, encoding='utf-8').read(), 'fake_bench', 'exec')\n"
        f"sys.argv[:1] = [{str(folder)!r}]\n"
        "exec(code, {'__name__': '__main__', '__file__': 'fake_bench'})\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    return program


def read_calls(folder: Path) -> list[list[str]]:
    """The arguments of every call that has begun, in order."""
    path = folder / CALLS
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def play(folder: Path, words: Sequence[str]) -> int:
    """Be the program.

    Args:
        folder: that holds the plan.
        words: its arguments.
    """
    if "--help" in words:
        sys.stdout.write(HELP)
        return 0
    options = dict(zip(words[::2], words[1::2], strict=True))
    earlier = sum(call == list(words) for call in read_calls(folder))
    with (folder / CALLS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(list(words)) + "\n")
    plan: dict[str, Any] = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    setting = "p{-p}-n{-n}-t{-t}-ctk{-ctk}".format_map(options)
    mode = next((Mode(mode) for start, mode in plan["modes"] if setting.startswith(start)), Mode.SUCCESS)
    return _misbehave(mode, options, earlier=earlier, delay_s=float(plan["delay_s"]))


def table_for(options: Mapping[str, str], *, threads: int, rate: str | None = None) -> str:
    """The table of one call; rates follow from the arguments, unless one is given."""
    prompt, generated, depth = (int(options[name]) for name in ("-p", "-n", "-d"))
    at = f" @ d{depth}" if depth else ""
    speed = threads * 1000 / (1 + depth / 1000)
    rows = ((f"pp{prompt}{at}", speed + prompt / 100), (f"tg{generated}{at}", speed / 10 + generated / 100))
    fixed = f"| fake 1M Q4_0 | 12.50 MiB | 1.00 M | CPU | {threads} | {options['-b']} |"
    return _HEAD + "".join(f"{fixed} {test} | {rate or f'{value:.2f}'} ± 0.00 |\n" for test, value in rows)


def _misbehave(mode: Mode, options: Mapping[str, str], *, earlier: int, delay_s: float) -> int:
    threads = int(options["-t"])
    if mode is Mode.EXIT or (mode is Mode.EXIT_ONCE and not earlier):
        sys.stderr.write("fake: failed to load model\n")
        return 3
    if mode is Mode.SILENT:
        sys.stdout.write(_HEAD)
        sys.stdout.flush()
        time.sleep(SILENCE_S)
    if mode is Mode.DELAY:
        time.sleep(delay_s)
    text = {
        Mode.MALFORMED: table_for(options, threads=threads, rate="fast"),
        Mode.NO_TABLE: "nothing to see here\n",
        Mode.OTHER_CASE: table_for(options, threads=threads + 1),
    }.get(mode, table_for(options, threads=threads))
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(play(Path(sys.argv[0]), sys.argv[1:]))
