"""A perf that counts nothing: it runs the program, and writes what the real one would write.

Read by the scripts that `fake_tools.py` makes. Faults come from the variable FAKE_PERF, a JSON object: event -> word.
"""

import json
import os
import sys

VALUES = {
    "task-clock": ("12.50", "msec", "12500000"),
    "cpu-clock": ("12.40", "msec", "12400000"),
    "cycles": ("40000000", "", "12500000"),
    "instructions": ("100000000", "", "12500000"),
    "branches": ("20000000", "", "12500000"),
    "branch-misses": ("200000", "", "12500000"),
    "cache-references": ("1000000", "", "12500000"),
    "cache-misses": ("250000", "", "12500000"),
    "page-faults": ("120", "", "12500000"),
}
HERE = os.path.join(os.path.dirname(__file__), "captured")  # noqa: PTH118, PTH120 - starts quickly


def main() -> int:
    words = sys.argv[1:]
    if words == ["--version"]:
        sys.stdout.write("perf version 6.1.fake\n")
        return 0
    faults = json.loads(os.environ.get("FAKE_PERF", "{}"))
    if faults.get("perf") == "dies":
        sys.stderr.write("Segmentation fault\n")
        return 139
    verb = words[0]
    if verb in {"report", "script"}:
        name = faults.get(verb, f"{verb}.txt")
        sys.stdout.write("no table\x00at all" if name == "garbage" else read(name))
        return 0
    return stat(words, faults) if verb == "stat" else record(words)


def read(name: str) -> str:
    with open(os.path.join(HERE, name), encoding="utf-8") as file:  # noqa: PTH118, PTH123 - starts quickly
        return file.read()


def write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - starts quickly
        file.write(text)


def run(words: list[str]) -> int:
    child = os.posix_spawnp(words[0], words, os.environ)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def after(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


def target(words: list[str]) -> list[str]:
    return words[words.index("--") + 1 :]


def stat(words: list[str], faults: dict[str, str]) -> int:
    events = after(words, "-e").split(",")
    for event in events:
        if faults.get(event) == "denied":
            sys.stderr.write("Error:\nNo permission to enable cycles event.\n")
            return 255
        if faults.get(event) == "unknown":
            sys.stderr.write(f"event syntax error: '{event}'\n Run 'perf list' for a list of valid events\n")
            return 129
    lines = ["# started on a day", ""]
    lines.extend(line(event, faults.get(event)) for event in events)
    status = run(target(words))
    write(after(words, "-o"), "\n".join(lines) + "\n")
    return status


def line(event: str, fault: str | None) -> str:
    value, unit, run_time = VALUES.get(event, ("7", "", "12500000"))
    if fault == "garbage":
        return f"many,{unit},{event},{run_time},100.00,,"
    if fault in {"not supported", "not counted"}:
        return f"<{fault}>,{unit},{event},0,{'100.00' if fault == 'not supported' else '0.00'},,"
    if fault == "zero":
        value = "0"
    percent = "62.50" if fault == "multiplexed" else "100.00"
    return f"{value},{unit},{event},{run_time},{percent},,"


def record(words: list[str]) -> int:
    status = run(target(words))
    write(after(words, "-o"), "samples")
    return status


if __name__ == "__main__":
    sys.exit(main())
