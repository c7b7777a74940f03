from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from arriero.report.document import Alert, Document, Level, Table
from arriero.report.drawing import as_picture
from arriero.report.latencies import measured
from arriero.report.markdown import as_markdown
from arriero.report.page import as_html
from arriero.report.reading import read_runs
from arriero.report.run_view import COSTS, WORKLOAD, RunView
from arriero.report.sim_csv import as_csv
from arriero.report.sim_document import sim_document
from arriero.report.sim_pictures import sim_pictures
from arriero.report.written import ratio
from tests.unit.report.pages import outline
from tests.unit.report.runs import TRAITS, run_view


def document(*runs: RunView) -> Document:
    pictures = {drawn.key: as_picture(drawn) for drawn in sim_pictures(runs)}
    return sim_document([measured(run) for run in runs], pictures)


def words(*runs: RunView) -> Document:
    """Without its pictures, which take a second."""
    return sim_document([measured(run) for run in runs], {})


@pytest.fixture(scope="module")
def page() -> str:
    """Of one run."""
    return as_html(document(run_view()))


def test_a_page_has_every_section_and_needs_no_network(page: str) -> None:
    found = outline(page)
    assert found.headings == ["Overview", "Distributions", "made", "How to read this"]
    assert {"overview", "distributions", "run-1", "reading", "cdf-1", "timeline-run-1", "gantt-run-1"} <= set(found.ids)
    assert {"svg", "table", "details", "figcaption"} <= found.tags


def test_the_same_runs_give_the_same_bytes(page: str) -> None:
    assert as_html(document(run_view())) == page


def test_the_evidence_stands_on_top_and_in_the_table(page: str) -> None:
    assert page.index("SIMULATED") < page.index("<main>")
    mixed = as_html(words(run_view(), run_view("live", evidence="MEASURED")))
    assert "Some results are MEASURED and some SIMULATED" in mixed


def test_equal_workloads_are_compared_with_ratios() -> None:
    text = as_markdown(words(run_view(), run_view("other", seed=1, traits={**TRAITS, COSTS: "y"})))
    assert "have the same workload, and differ in costs alone" in text
    assert f"({ratio(1.0, 1.0)})" in text


def test_other_workloads_are_a_warning_before_every_figure_and_get_no_ratios() -> None:
    runs = run_view(), run_view("other", seed=3, traits={**TRAITS, WORKLOAD: "b" * 64})
    made = document(*runs)
    alerts = [part for part in made.lead if isinstance(part, Alert)]
    assert [each.level for each in alerts] == [Level.BAD]
    assert ratio(1.0, 1.0)[-1] not in as_markdown(made)
    page = as_html(made)
    assert page.index("different workloads") < page.index("<main>")
    assert page.index("must not be compared") < page.index("<svg")


def test_without_steps_what_can_be_drawn_is_drawn_and_the_flag_is_named() -> None:
    made = document(run_view(num_steps=0))
    page = as_html(made)
    found = outline(page)
    assert "<code>--trace counts</code>" in page
    assert {"timeline-run-1", "gantt-run-1", "cdf-1"} <= set(found.ids)
    assert "rows of a step" not in page
    assert "KV after each step" not in page


def test_a_run_without_requests_has_a_page() -> None:
    page = as_html(document(run_view(num=0, num_steps=0)))
    outline(page)
    assert "The workload has no requests." in page


def test_who_did_not_end_normally_is_counted_on_the_page() -> None:
    run = run_view(num=60)
    left = 60 - int(run.requests.ended_as("finished").sum())
    assert f"{left} of 60 requests did not end normally" in as_html(words(run))


def test_names_from_files_are_escaped() -> None:
    page = as_html(document(run_view('<b a="x">&')))
    outline(page)
    assert "<b a=" not in page


@pytest.mark.slow
def test_the_page_of_many_runs_stays_small() -> None:
    runs = [run_view(f"run {number}", num=400, seed=number, num_steps=1_500) for number in range(24)]
    drawn = [as_picture(each) for each in islice(sim_pictures(runs), 6)]  # one run's stand for everybody's
    assert [each.key for each in drawn] == ["cdf-1", "cdf-2", "cdf-3", "cdf-4", "timeline-run-1", "gantt-run-1"]
    pictures = {each.key: each for each in drawn}
    for number in range(2, 25):
        for each in drawn[4:]:
            key = each.key.replace("-1", f"-{number}")
            pictures[key] = replace(each, key=key)
    page = as_html(sim_document([measured(run) for run in runs], pictures))
    assert page.count("<svg") == 4 + 2 * 24
    assert len(page) < 3_000_000


def test_what_is_thinned_says_so() -> None:
    page = as_html(document(run_view(num=2_000, num_steps=3_000)))
    assert "steps in 600 bins: mean over time, and a thin line at the most in each bin" in page
    assert "Of more than 320 samples a curve is drawn through up to 320" in page
    assert "64 of 2,000 requests, numbers" in page


def test_definitions_stand_beside_numbers() -> None:
    made = words(run_view())
    (table,) = [part for part in made.sections[0].parts if isinstance(part, Table)]
    assert all(row[-1] for row in table.rows)
    latencies = next(
        part
        for section in made.sections
        for part in section.parts
        if isinstance(part, Table) and part.caption == "Latencies"
    )
    assert any("first token - arrival" in note for note in latencies.notes)


def test_the_steady_window_is_shown(simulated: Path) -> None:
    page = as_html(document(*read_runs([simulated / "plain.jsonl"])))
    outline(page)
    assert "Steady window, 0." in page
    assert "What lies outside the steady window is grey." in page


def test_the_published_format_has_a_page(lab: Path) -> None:
    page = as_html(document(*read_runs([lab / "traced.jsonl", lab / "untraced.jsonl"])))
    outline(page)
    assert "same workload" in page


def test_csv_has_one_row_a_run_and_nothing_undefined_is_0() -> None:
    head, row = (line.split(",") for line in as_csv([measured(run_view(num=3, num_steps=0))]).splitlines())
    cells = dict(zip(head, row, strict=True))
    assert cells["submitted"] == "3"
    assert cells["ttft_p99_us"] == ""
    assert cells["mean_rows"] == ""
