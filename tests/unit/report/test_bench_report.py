import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from arriero.core.errors import ConfigError
from arriero.metrics.definitions import ARRIERO, DEFINITIONS, Definitions
from arriero.metrics.validity import Flag
from arriero.record.bench_parts import Point, TargetFacts
from arriero.record.bench_result import BenchResult
from arriero.report.bench_csv import as_csv
from arriero.report.bench_document import bench_document
from arriero.report.bench_pictures import bench_pictures
from arriero.report.bench_view import BenchView, bench_views
from arriero.report.document import Alert, Document, Level, Table
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


def overview_of(*results: BenchResult) -> Table:
    """The table of main figures of a page."""
    (section,) = [each for each in words(views(*results)).sections if each.key == "overview"]
    (table,) = section.parts
    assert isinstance(table, Table)
    return table


def median(measured: Point, name: str) -> float:
    """Of a latency of all requests, which is finite."""
    value: float | None = getattr(measured.summary.latency.all, name).p50
    assert value is not None
    return value


def test_figures_of_a_fair_comparison_are_multiples_of_the_first_result() -> None:
    quick, slow = single(), result([point(lives(120, 4.0, capacity=3.0), {})])
    table = overview_of(quick, slow)
    assert table.caption.endswith("; in brackets: times the figure of the first result at the same point")
    cells = {row[0]: row[1:3] for row in table.rows}
    first, second = (median(each.points[0], "ttft_ns") for each in (quick, slow))
    assert first != second
    assert cells["TTFT p50 (ms)"] == (f"{first / 1e6:,.2f}", f"{second / 1e6:,.2f} ({second / first:.2f}×)")  # noqa: RUF001
    rates = [each.points[0].summary.window.output_tokens_per_s or 0.0 for each in (quick, slow)]
    assert rates[0] != rates[1]
    assert cells["output tokens/s"] == (f"{rates[0]:,.2f}", f"{rates[1]:,.2f} ({rates[1] / rates[0]:.2f}×)")  # noqa: RUF001
    assert "×" not in cells["served"][1], "shares are no multiples"  # noqa: RUF001
    assert "(" not in "".join(row[1] for row in table.rows), "the first one is its own base"


def test_points_of_a_sweep_are_multiples_of_the_same_point_of_the_first_result() -> None:
    first, second = sweep((2.0, 8.0), num=50), sweep((2.0, 8.0), num=50, capacity=4.0)
    (row,) = [row for row in overview_of(first, second).rows if row[0] == "E2E p50 (ms)"]
    medians = [median(each, "e2e_ns") for each in (*first.points, *second.points)]
    ratios = [f"({medians[place + 2] / medians[place]:.2f}×)" for place in (0, 1)]  # noqa: RUF001
    assert [cell.partition(" ")[2] for cell in row[1:5]] == ["", "", *ratios]


def test_an_infinite_figure_is_no_multiple() -> None:
    broken = result([point(lives(120, 4.0, failing=0.7), {})])
    (row,) = [row for row in overview_of(single(), broken).rows if row[0] == "TTFT p50 (ms)"]
    assert row[2] == "∞"


def test_an_invalid_result_is_named_and_nothing_is_compared_with_it() -> None:
    late = [replace(each, sent_at=(each.sent_at or 0) + 10**10) for each in lives(120, 4.0)]
    bad = result([point(late, {})])
    assert bad.validity.flag is Flag.INVALID
    made = words(views(single(), bad))
    alerts = [part for part in made.lead if isinstance(part, Alert) and part.level is Level.BAD]
    assert [each.text.partition(":")[0] for each in alerts] == ["r2 is invalid", "r2 is invalid (requests left late"]
    assert alerts[-1].text.endswith("must not be compared, and no ratios are given.")
    assert "×" not in as_markdown(made)  # noqa: RUF001
    assert "×" in as_markdown(words(views(single(), single())))  # noqa: RUF001
    other = result([point(lives(120, 4.0, seed=2), {}, seed=2)])
    both = words(views(other, bad)).lead[-2]
    assert isinstance(both, Alert)
    assert both.text.startswith("The 2 results have different workloads; r2 is invalid (")


def test_of_few_requests_the_longest_lag_is_shown_and_called_so() -> None:
    few, many = as_markdown(words(views(single(60)))), as_markdown(words(views(single(150))))
    num = single(60).points[0].validity.num_lags
    assert 0 < num < 100
    assert f"| send lag max (n = {num}) |" in few
    assert "send lag p99" not in few
    assert "| send lag p99 |" in many
    assert "| send lag max |" in many
    for text, count in ((as_csv(views(single(60))), num), (as_csv(views(single(150))), None)):
        row = next(csv.DictReader(io.StringIO(text)))
        assert (row["lag_p99_ns"] == "") is (count is not None)
        assert count is None or int(row["num_lags"]) == count


def test_without_connections_nothing_is_said_of_them() -> None:
    assert "requests used one that was open" in as_markdown(words(views(single())))
    here = msgspec.structs.replace(single(), target=TargetFacts(name="engine", kind="in-process"))
    text = as_markdown(words(views(here)))
    assert "| connections opened | – | has none |" in text  # noqa: RUF001
    assert "requests used one that was open" not in text


def test_a_long_run_is_binned_and_says_so() -> None:
    page = as_html(document(views(single(1_500, failing=0.4))))
    outline(page)
    assert "requests in 160 bins by arrival, median and highest" in page
    assert "that failed without one" in page


def test_a_point_in_which_nothing_was_sent_has_a_page() -> None:
    outline(as_html(document(views(result([point([], {})])))))
