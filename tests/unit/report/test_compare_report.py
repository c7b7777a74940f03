from pathlib import Path

import pytest
from msgspec.structs import replace

from arriero.record.bench_compare import CompareResult
from arriero.report.compare_document import compare_document
from arriero.report.compare_pictures import compare_pictures
from arriero.report.compare_view import CompareView, compare_views
from arriero.report.document import Alert, Document, Level
from arriero.report.drawing import as_picture
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


def test_two_comparisons_are_told_apart() -> None:
    found = views(comparison(), comparison(seed=2))
    assert [view.name for view in found] == ["peers (1)", "peers (2)"]
    outline(as_html(compare_document(found, {})))
