import csv
import io
import itertools
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from arriero.record.bench_compare import CompareResult
from arriero.report.compare_csv import as_csv
from arriero.report.compare_document import compare_document
from arriero.report.compare_pictures import compare_pictures
from arriero.report.compare_plots import ratio_ticks
from arriero.report.compare_view import CompareView, compare_views, intervals
from arriero.report.document import Alert, Document, Level
from arriero.report.drawing import as_picture
from arriero.report.markdown import as_markdown
from arriero.report.page import as_html
from tests.unit.report.comparison_files import comparison
from tests.unit.report.pages import outline


def views(*results: CompareResult) -> list[CompareView]:
    return compare_views([(Path("peers.json"), "d" * 64, each) for each in results])


def document(found: list[CompareView]) -> Document:
    return compare_document(found, {drawn.key: as_picture(drawn) for drawn in compare_pictures(found)})


@pytest.fixture(scope="module")
def page() -> str:
    return as_html(document(views(comparison())))


def test_a_comparison_has_every_section_and_needs_no_network(page: str) -> None:
    found = outline(page)
    assert found.headings == ["Verdicts: peers", "Behind the verdicts: peers", "How to read this"]
    assert {"ratios-comparison-1", "rounds-comparison-1-1", "rounds-comparison-1-2"} <= set(found.ids)
    for word in (
        "B is better",
        "noise floor",
        "withheld",
        "search for A&#x27;s flags",
        "server ended",
        "prompt 3 differs",
    ):
        assert word in page or word.replace("&#x27;", "&#39;") in page, word


def test_the_same_comparison_gives_the_same_bytes(page: str) -> None:
    assert as_html(document(views(comparison()))) == page


def test_a_comparison_that_failed_says_so_first() -> None:
    failed = replace(comparison(), validity=None, status="failed", error="server b ended", cells=())
    made = document(views(failed))
    alerts = [part for part in made.lead if isinstance(part, Alert)]
    assert [each.level for each in alerts] == [Level.BAD, Level.BAD]
    assert "server b ended" in as_html(made)
    outline(as_html(made))


def test_a_table_shows_the_interval_that_the_verdict_rests_on() -> None:
    found = views(comparison())
    verdict = found[0].result.cells[0].verdicts["output_throughput"]
    assert verdict.low is not None
    assert verdict.high is not None
    assert verdict.exact_low is not None
    assert verdict.exact_high is not None
    low, high = min(verdict.low, verdict.exact_low), max(verdict.high, verdict.exact_high)
    assert (low, high) != (verdict.low, verdict.high), "else nothing is tested"
    assert f"| {low:.3f} to {high:.3f} |" in as_markdown(compare_document(found, {}))
    assert (intervals(found[0])[0].low, intervals(found[0])[0].high) == (low, high)
    row = next(csv.DictReader(io.StringIO(as_csv(found))))
    shown = ("low", "high", "bootstrap_low", "bootstrap_high", "exact_low", "exact_high")
    values = [low, high, verdict.low, verdict.high, verdict.exact_low, verdict.exact_high]
    assert [float(row[name]) for name in shown] == values


def test_what_served_and_what_nobody_searched_is_said() -> None:
    text = as_markdown(compare_document(views(comparison()), {}))
    assert "A is `a peer`, version: 1 (abc), 2 threads." in text
    assert "B is `arriero`, version unknown, 2 threads." in text
    assert f"Model: small.gguf, 91.7 MB, sha256 {'e' * 64}." in text
    said = "B: the flags of arriero were not searched (`--b-search default` does it); given: `--kv unified`."
    assert text.index("B against A, interleaved") < text.index(said) < text.index("Behind the verdicts")
    assert "A: the flags" not in text, "they were searched"


def test_two_comparisons_are_told_apart() -> None:
    found = views(comparison(), comparison(seed=2))
    assert [view.name for view in found] == ["peers (1)", "peers (2)"]
    outline(as_html(compare_document(found, {})))


@given(st.floats(0.05, 0.999), st.floats(1.001, 20))
def test_labels_of_ratios_keep_apart_and_one_is_among_them(low: float, high: float) -> None:
    ticks = ratio_ticks(low, high)
    assert 1.0 in ticks
    assert ticks == sorted(ticks)
    span = math.log(high / low)
    assert all(math.log(right / left) >= 0.06 * span for left, right in itertools.pairwise(ticks))


def test_two_comparisons_of_the_same_servers_have_one_title() -> None:
    title = document(views(comparison(), comparison())).title
    assert title.count("against") == 1
