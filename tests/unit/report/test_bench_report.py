from collections.abc import Sequence
from pathlib import Path

import pytest

from arriero.core.errors import ConfigError
from arriero.metrics.definitions import ARRIERO, DEFINITIONS, Definitions
from arriero.record.bench_result import BenchResult
from arriero.report.bench_csv import as_csv
from arriero.report.bench_document import bench_document
from arriero.report.bench_pictures import bench_pictures
from arriero.report.bench_view import BenchView, bench_views
from arriero.report.document import Alert, Document, Level
from arriero.report.drawing import as_picture
from arriero.report.markdown import as_markdown
from arriero.report.page import as_html
from tests.unit.report.bench_results import lives, point, result, sweep
from tests.unit.report.pages import outline


def views(*results: BenchResult, definitions: Definitions = ARRIERO) -> list[BenchView]:
    named = [(Path(f"r{number}.json"), "d" * 64, each) for number, each in enumerate(results, start=1)]
    return bench_views(named, definitions)


def document(found: Sequence[BenchView], definitions: Definitions = ARRIERO) -> Document:
    return bench_document(found, definitions, {drawn.key: as_picture(drawn) for drawn in bench_pictures(found)})


def words(found: Sequence[BenchView], definitions: Definitions = ARRIERO) -> Document:
    """Without its pictures, which take a second."""
    return bench_document(found, definitions, {})


@pytest.fixture(scope="module")
def page_of_a_sweep() -> str:
    return as_html(document(views(sweep((2.0, 8.0), num=50))))


def single(num: int = 120, rate: float = 4.0, **settings: float) -> BenchResult:
    return result([point(lives(num, rate, **settings), {})])  # type: ignore[arg-type]  # keywords by name


def test_a_single_run_has_every_section_and_needs_no_network() -> None:
    found = outline(as_html(document(views(single()))))
    assert found.headings == ["Overview", "Distributions", "r1", "Where r1 comes from", "How to read this"]
    assert {"cdf-1", "timeline-result-1-1"} <= set(found.ids)


def test_a_sweep_has_curves_over_the_load_and_a_section_for_each_point(page_of_a_sweep: str) -> None:
    found = outline(page_of_a_sweep)
    assert "sweep-rate_per_s-1" in found.ids
    assert [each for each in found.headings if each.startswith("r1, ")] == [f"r1, {rate} requests/s" for rate in (2, 8)]
    assert "intended rate (requests/s)" in page_of_a_sweep


def test_the_same_results_give_the_same_bytes(page_of_a_sweep: str) -> None:
    assert as_html(document(views(sweep((2.0, 8.0), num=50)))) == page_of_a_sweep


def test_validity_is_the_first_thing_that_is_said() -> None:
    broken = result([point(lives(120, 4.0), {}), point([], {"rate_per_s": 9.0})])
    made = words(views(broken))
    first = made.lead[0]
    assert isinstance(first, Alert)
    assert first.level is Level.BAD
    assert "r1 is invalid: no request was sent in the window" in first.text
    page = as_html(made)
    assert page.index("invalid") < page.index("<main>")
    assert as_markdown(made).splitlines()[2].startswith("invalid")
    assert as_csv(views(broken)).startswith("validity,")


def test_the_evidence_and_the_loop_are_on_top() -> None:
    closed = result([point(lives(60, 4.0, is_open=False), {})])
    page = as_html(document(views(closed)))
    head = page[: page.index("<main>")]
    assert "END-TO-END" in head
    assert "closed loop" in head
    assert "say nothing about stalls under independent arrivals" in page
    assert "send lag: how late" not in page


def test_failures_are_in_the_tables_and_push_percentiles_to_infinity() -> None:
    text = as_markdown(words(views(single(150, failing=0.3))))
    assert "∞" in text
    assert "| `http_503` |" in text
    assert "| `rejected` |" in text
    assert "inf" in as_csv(views(single(150, failing=0.3)))


def test_without_a_raw_log_tables_are_there_and_the_flag_is_named() -> None:
    bare = result([point(lives(60, 4.0), {}, keeps_lives=False)])
    page = as_html(document(views(bare)))
    found = outline(page)
    assert "<code>--no-raw</code>" in page
    assert "timeline-result-1-1" not in found.ids
    assert "TTFT" in page


def test_other_definitions_are_views_of_the_same_log() -> None:
    vllm = DEFINITIONS["vllm"]
    text = as_markdown(words(views(single(), definitions=vllm), vllm))
    assert "Latencies by the definitions of vllm" in text
    assert vllm.words["ttft_ns"] in text
    bare = result([point(lives(60, 4.0), {}, keeps_lives=False)])
    with pytest.raises(ConfigError, match="keeps no raw log"):
        views(bare, definitions=vllm)


def test_results_of_other_schedules_are_not_compared() -> None:
    same = words(views(single(), single()))
    assert not any(isinstance(part, Alert) and part.level is Level.BAD for part in same.lead)
    other = result([point(lives(120, 4.0, seed=2), {}, seed=2)])
    page = as_html(document(views(single(), other)))
    assert "have different workloads" in page
    assert page.index("must not be compared") < page.index("<svg")


def test_a_long_run_is_binned_and_says_so() -> None:
    page = as_html(document(views(single(1_500, failing=0.4))))
    outline(page)
    assert "requests in 160 bins by arrival, median and highest" in page
    assert "that failed without one" in page


def test_a_point_in_which_nothing_was_sent_has_a_page() -> None:
    outline(as_html(document(views(result([point([], {})])))))
