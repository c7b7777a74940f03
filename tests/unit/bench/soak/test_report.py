"""The report of a soak: what every table shows, and the files it leaves."""

import json
from pathlib import Path

from msgspec.structs import replace

from arriero.bench.experiments.experiment import Outcome, Value
from arriero.bench.soak.records import ServerRecord
from arriero.bench.soak.report import REPORT, VERDICTS, outcome_of, page, write_report
from tests.unit.bench.soak.soaks import MIB, leg, reading, settings, state

TWO = replace(
    state(leg(0), leg(1, server=2, visit_s=10.0, visit_cpu_s=5.0)),
    servers=(
        ServerRecord(number=1, before=reading()),
        ServerRecord(number=2, before=reading(resident_bytes=50 * MIB), how="terminated", status=0),
    ),
    num_resumed=1,
)


def rows_of(outcome: Outcome, title: str) -> list[dict[str, Value]]:
    (table,) = (each for each in outcome.tables if each.title.startswith(title))
    return [dict(zip(table.heads, row, strict=True)) for row in table.rows]


def test_every_leg_has_a_line() -> None:
    first, second = rows_of(outcome_of(TWO), "Legs")
    assert (first["leg"], first["server"], first["requests"], first["whole"]) == (1, 1, 16, 10)
    assert (first["refused"], first["left"], first["target held"]) == (4, 2, 1)
    assert (second["server"], second["neighbour, s"], second["memory, MiB"], second["files"]) == (2, 10, 100, 20)


def test_every_kind_is_counted_over_all_legs() -> None:
    rows = {row["kind"]: row for row in rows_of(outcome_of(TWO), "How requests ended")}
    assert (rows["burst"]["requests"], rows["burst"]["length"], rows["burst"]["rejected"]) == (14, 6, 8)
    assert rows["left"]["cancelled_by_client"] == 4


def test_every_start_of_the_server_says_how_it_ended() -> None:
    first, second = rows_of(outcome_of(TWO), "Servers")
    assert (first["legs"], first["end"]) == (1, "killed with the soak")
    assert (second["end"], second["memory before, MiB"], second["at the end, MiB"]) == ("terminated, status 0", 50, 100)


def test_a_state_without_a_leg_has_a_report_too() -> None:
    nothing = replace(state(), settings=settings())
    assert "legs that were run" in "\n".join(page(outcome_of(nothing)))


def test_both_files_say_the_same_and_no_path(tmp_path: Path) -> None:
    private = replace(TWO, settings=replace(TWO.settings, backend="llama", model=str(tmp_path / "tiny.gguf")))
    write_report(tmp_path, outcome_of(private))
    write_report(tmp_path, outcome_of(private))
    text = (tmp_path / REPORT).read_text()
    verdicts = json.loads((tmp_path / VERDICTS).read_text())
    assert verdicts["verdict"] == "OPEN"
    assert "**OPEN**" in text
    assert all(f"| {each['text']} |" in text for each in verdicts["statements"])
    assert "tiny.gguf" in text
    assert str(tmp_path) not in text
