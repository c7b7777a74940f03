"""What a server wrote, read back strictly."""

from pathlib import Path

import pytest

from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.served import ServeOptions, model_facts, read_log
from arriero.core.errors import DataError, ModelUnreadable
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.record.diagnostics import DiagnosticsRow, GapRow, encode_row
from tests.unit.bench.experiments.rows import request_row, step, summary_row


def test_log_keeps_rows_by_kind_and_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "diagnostics.jsonl"
    rows: list[DiagnosticsRow] = [step(rows=0), step(rows=2), request_row("mine"), GapRow(dropped=3)]
    path.write_bytes(b"".join(encode_row(row) + b"\n" for row in rows))
    log = read_log(path)
    assert log.computed == [rows[1]]
    assert log.of("mine") == rows[2]
    assert log.of("yours") is None
    assert log.problems == ("3 rows of diagnostics are missing", "the engine did not end in order")


def test_line_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "diagnostics.jsonl"
    path.write_bytes(encode_row(step()) + b'\n{"kind": "iter"}\n')
    with pytest.raises(DataError, match="line 2"):
        read_log(path)


def test_model_that_is_not_there_is_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ModelUnreadable, match="no such file"):
        model_facts(ModelSettings(reference=str(tmp_path / "none.gguf")))


def test_facts_name_the_file_and_no_path(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF and more")
    facts = model_facts(ModelSettings(reference=str(path)))
    assert facts["model_file"] == "tiny.gguf"
    assert facts["model_bytes"] == 13
    assert str(tmp_path) not in str(facts)


def test_answered_requests_without_a_row_are_a_problem_and_rejected_ones_are_none(tmp_path: Path) -> None:
    path = tmp_path / "diagnostics.jsonl"
    rows: list[DiagnosticsRow] = [step(), request_row("mine"), summary_row()]
    path.write_bytes(b"".join(encode_row(row) + b"\n" for row in rows))
    log = read_log(path)
    assert log.problems_with([life("mine"), life("yours", Outcome.REJECTED)]) == ()
    lost = [life("yours"), life("his", Outcome.CANCELLED_BY_CLIENT)]
    assert log.problems_with(lost) == ("2 answered requests have no row",)


def life(name: str, outcome: Outcome = Outcome.LENGTH) -> ClientLife:
    return ClientLife(request_id=name, intended_at=None, sent_at=0, closed_at=1, outcome=outcome, asked_tokens=4)


@pytest.mark.parametrize(
    ("placement", "words"),
    [
        ("shared", ("--placement", "shared")),
        ("dedicated", ("--placement", "dedicated")),
        ("pinned", ("--engine-cpus",)),
    ],
)
def test_placement_becomes_flags(placement: str, words: tuple[str, ...]) -> None:
    options = ServeOptions(slots=1, slot_tokens=256, backlog=0, placement=placement)  # type: ignore[arg-type]
    given = options.words(ModelSettings(), Path("rows.jsonl"))
    assert set(words) <= set(given)
    assert "--allow-shutdown" in given
