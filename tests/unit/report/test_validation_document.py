from arriero.record.validation import Decisions, LoadLevel, compared
from arriero.report.document import Table
from arriero.report.markdown import as_markdown
from arriero.report.page import as_html
from arriero.report.validation_document import validation_document
from tests.unit.record.validation_files import PROFILE, load, validation


def test_errors_stand_beside_the_noise_and_both_kinds_of_evidence_are_named() -> None:
    text = as_markdown(validation_document("v.json", validation()))
    assert "# Simulated against measured: small" in text
    assert "MEASURED · SIMULATED" in text
    assert "| chat, at saturation | 3.50 | +10.0 % (18.2 %) |" in text
    assert "| chat | 50.00, 52.00 | 45.90 | -10.0 % | 3.9 % |" in text
    assert "| TTFT p50 (ms) | 100.00, 120.00 | 121.00 | +10.0 % | 18.2 % | 27.3 % | met |" in text
    missed = "chat, below saturation: output tokens/s -10.0 %"
    at_speed = "6 of 6 at the speed that the machine had in each run"
    assert f"**Attention.** 3 of 6 errors keep their goals, {at_speed}; missed: {missed}" in text
    assert "| `pass` | +5.0 % |" in text
    assert "took the same decisions in all of their 186 steps" in text


def test_what_spoils_a_validation_is_said_first() -> None:
    differs = load(LoadLevel.ABOVE, decisions=(Decisions(steps=3, requests=1, difference="step 2: rows 1"),))
    made = validation(
        loads=(load(outside={"context": 0.25}), differs),
        differences=("cpu: a in the profile, b here",),
        profile=type(PROFILE)(file="cost.json", sha256="b" * 64, model="small", threads="2", busy="others were busy"),
    )
    lead = as_markdown(validation_document("v.json", made)).partition("## ")[0]
    assert "**Attention.** The cost profile belongs to another machine" in lead
    assert "**Warning.** The cost profile is doubtful: others were busy." in lead
    assert "**Attention.** A fresh scheduler decides otherwise: chat, above saturation: step 2: rows 1." in lead
    assert "**Warning.** Steps lay outside the calibrated range, so they are guesses: chat, at saturation." in lead


def test_a_peer_has_a_column_of_its_own() -> None:
    with_peer = load(compared=(compared("itl", "p50", "ms", measured=[4.0, 4.0], simulated=5.0, peer=8.0),))
    made = validation(loads=(with_peer,), peer=validation().target)
    assert "| ITL p50 (ms) | 4.000, 4.000 | 5.000 | +25.0 % | 0.0 % | 5.0 % | missed | 8.000 |" in as_markdown(
        validation_document("v.json", made)
    )


def test_the_page_holds_everything_and_is_the_same_every_time() -> None:
    document = validation_document("v.json", validation())
    page = as_html(document)
    assert page == as_html(document)
    assert "<script" not in page
    assert "What the coefficients move" in page


def test_every_table_says_what_its_figures_are() -> None:
    made = validation(loads=(load(outside={"context": 0.25}),))
    tables = [
        part
        for section in validation_document("v.json", made).sections
        for part in section.parts
        if isinstance(part, Table)
    ]
    assert len(tables) == 8
    assert all("SIMULATED" in table.caption or "MEASURED" in table.caption for table in tables)
    assert all(column.label for table in tables for column in table.columns)
    assert all(len(row) == len(table.columns) for table in tables for row in table.rows)
