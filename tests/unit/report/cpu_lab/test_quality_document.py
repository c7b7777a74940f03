"""The quality report: what must be read first, the label on every table, and both figures."""

from pathlib import Path

import msgspec

from arriero.record.cpu_lab.quality import QualityStatus
from arriero.report.cpu_lab.folder import pictures_by_key, write_report
from arriero.report.cpu_lab.quality_document import _percent, quality_document
from arriero.report.cpu_lab.quality_plots import quality_pictures
from arriero.report.document import Alert, Level, Table
from arriero.report.markdown import as_markdown
from tests.unit.record.cpu_lab.quality_files import RESULT

replace = msgspec.structs.replace


def test_a_report_says_first_what_the_reference_is_worth(tmp_path: Path) -> None:
    drawn = list(quality_pictures(RESULT))
    assert [each.key for each in drawn] == ["quality-perplexity", "quality-divergence"]
    document = quality_document(RESULT, pictures_by_key(drawn))
    first = document.lead[0]
    assert isinstance(first, Alert)
    assert (first.level, first.text) == (Level.BAD, "small.F16.gguf is no quality reference.")
    text, *_ = write_report(document, drawn, tmp_path / "report")
    written = text.read_text(encoding="utf-8")
    assert "whoever measured it says: from Q4_1" in written
    assert "![Perplexity](quality-perplexity.svg)" in written
    assert (tmp_path / "report" / "quality-divergence.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_every_table_of_figures_carries_its_label() -> None:
    document = quality_document(RESULT, {})
    tables = [part for section in document.sections for part in section.parts if isinstance(part, Table)]
    assert len(tables) == 3
    assert all("(MEASURED)" in table.caption for table in tables)
    for table in tables:
        assert all(len(row) == len(table.columns) for row in table.rows)
    found = RESULT.candidates[0]
    row = next(row for row in tables[0].rows if row[0] == found.model.file)
    assert row[3] == f"{found.perplexity.value.value:.3f}"
    assert row[7] == "yes"


def test_what_is_doubtful_is_told() -> None:
    unsteady = replace(RESULT.candidates[0], reference_repeats=False)
    text = as_markdown(quality_document(replace(RESULT, status=QualityStatus.INTERRUPTED, candidates=(unsteady,)), {}))
    assert "Beside small.Q4_0.gguf the reference gave other bits than alone" in text
    assert "The run has not ended" in text


def test_a_run_without_candidates_or_answers_draws_nothing() -> None:
    silent = replace(RESULT, settings=replace(RESULT.settings, prompts=None), candidates=())
    assert list(quality_pictures(silent)) == []
    assert "None were asked for." in as_markdown(quality_document(silent, {}))


def test_a_share_that_is_not_0_is_not_shown_as_0() -> None:
    assert [_percent(share) for share in (0.0, 0.0001, 0.004, 0.006, 0.692)] == ["0 %", "<1 %", "<1 %", "1 %", "69 %"]
    assert [_percent(share, 1) for share in (0.0002, 0.0006, 0.961)] == ["<0.1 %", "0.1 %", "96.1 %"]
