"""`arriero explain JOURNAL`, in one process."""

import json
from pathlib import Path
from typing import Any

import pytest

from arriero.cli.main import main
from tests.unit.cli.test_replay import serve_some


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Three requests of three tokens, which get five each, on two sequences."""
    file = tmp_path / "live.jsonl"
    serve_some(file, 3)
    return file


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(["explain", *words]) == 0
    return capsys.readouterr().out


def test_every_request_has_a_row_with_its_parts(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heading, heads, *rows = told(capsys, str(journal)).splitlines()
    assert heading == "live: MEASURED, 3 requests, steps divided by rows"
    assert heads.split()[:5] == ["request", "state", "tokens", "total,", "ms"]
    assert {"queue", "decode", "host"} <= set(heads.split())
    assert sorted(row.split()[:3] for row in rows) == [[str(number), "length", "5"] for number in (1, 2, 3)]
    for row in rows:
        total, *parts = (float(cell.replace(",", "")) for cell in row.split()[3:])
        assert sum(parts) == pytest.approx(total)


def test_one_request_is_told_stretch_by_stretch(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = told(capsys, str(journal), "--request", "3")
    assert "until first token:" in out
    assert "between tokens:" in out
    assert [line.split()[0] for line in out.splitlines() if " length " in line] == ["3"]


def test_json_has_a_line_for_each_request_that_adds_up(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, Any]] = [json.loads(line) for line in told(capsys, str(journal), "--json").splitlines()]
    assert sorted(row["request"] for row in rows) == [1, 2, 3]
    for row in rows:
        assert sum(row["parts_us"].values()) == row["total_us"]
        assert row["delivery_us"] is None
        assert (row["state"], row["shares_by"]) == ("length", "rows")
    (only,) = told(capsys, str(journal), "--json", "--request", "2").splitlines()
    assert json.loads(only)["request"] == 2


def test_only_the_slowest_are_printed(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(capsys, str(journal), "--slowest", "1").splitlines()
    assert lines[1] == "  the 1 slowest:"
    assert len(lines) == 4


def test_a_page_is_written_in_the_form_that_its_name_asks_for(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, text = tmp_path / "page.html", tmp_path / "page.md"
    assert f"{page}: written" in told(capsys, str(journal), "--out", str(page))
    assert "<svg" in page.read_text()
    told(capsys, str(journal), "--out", str(text), "--json")
    assert text.read_text().startswith("# Where the time went: live")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--request", "9"], "--request 9: {journal} has no such request; leave it out to see all"),
        (["--out", "page.csv"], "--out page.csv: a page is .html or .md; --json prints what a program can read"),
        (["--out", "page.pdf"], "--out page.pdf: its ending is no form of a report"),
        (["--cost-profile", "/no/such.json"], "/no/such.json: "),
        (["--slowest", "0"], "argument --slowest: 0 is no whole number from 1 on"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(
    journal: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(journal), *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"arriero: {message.format(journal=journal)}")


def test_a_file_that_is_no_journal_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("hello\n")
    assert main(["explain", str(file)]) == 2
    assert capsys.readouterr().err.startswith(f"arriero: {file}: line 1: ")
