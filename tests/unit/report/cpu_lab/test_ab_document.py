import dataclasses
from pathlib import Path

import msgspec
import pytest

from arriero.lab.ab.plan import AbPlan
from arriero.metrics.paired_figures import Interval
from arriero.record.cpu_lab.ab import AbResult
from arriero.report.cpu_lab.ab_document import ab_document
from arriero.report.cpu_lab.ab_pictures import ab_pictures
from arriero.report.cpu_lab.ab_plots import IntervalRow, _colour
from arriero.report.cpu_lab.ab_words import floor_percent, judged_interval, power_words
from arriero.report.cpu_lab.folder import folder_markdown, pictures_by_key, write_report
from arriero.report.house_style import BLUE, GREEN, VERMILION
from tests.unit.lab.ab.runs import RATE, made_result


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> AbResult:
    plan = AbPlan(num_pairs=6, num_aa_pairs=3, num_warm_ups=0, metrics=(RATE,), timeout_s=20)
    return made_result(tmp_path_factory.mktemp("run"), plan)


def test_the_verdict_comes_first_with_its_label_and_reasons(result: AbResult) -> None:
    text = folder_markdown(ab_document(result, {}))
    head = text.partition("## Verdict")[0]
    assert "POSITIVE · END-TO-END" in head
    assert "rate: median ratio 1." in head
    assert "nobody looked at the machine" in head.lower()
    assert "| rate | 50." in text
    assert "sha256 of print.sh" in text
    assert "to resolve 2 % here takes" in text


def test_every_table_says_what_its_figures_are(result: AbResult) -> None:
    text = folder_markdown(ab_document(result, {}))
    assert "**B (level 60) against A (level 50): 6 pairs (END-TO-END)**" in text
    assert "**Sides and differences (END-TO-END); A/A and A/B are never pooled**" in text


def test_a_report_folder_with_its_figures(result: AbResult, tmp_path: Path) -> None:
    drawn = ab_pictures(result)
    assert [each.key for each in drawn] == ["differences", "intervals", "runs"]
    paths = write_report(ab_document(result, pictures_by_key(drawn)), drawn, tmp_path / "report")
    assert {path.name for path in paths} == {"README.md", "index.html", "differences.svg", "intervals.svg", "runs.svg"}
    assert "![Paired differences](differences.svg)" in (tmp_path / "report" / "README.md").read_text()


def test_a_run_that_failed_has_no_verdict_and_says_why(result: AbResult) -> None:
    failed = msgspec.structs.replace(
        result, status="failed", error="ab:1:b: not done after 5 s", verdict=None, word=None, reasons=()
    )
    text = folder_markdown(ab_document(failed, {}))
    assert "**Attention.** failed: ab:1:b: not done after 5 s." in text
    assert "POSITIVE" not in text.partition("## ")[0]


def test_colours_say_which_way_an_interval_lies() -> None:
    def colour(low: float, high: float, *, higher_is_better: bool) -> str:
        ends = Interval(low, high)
        return _colour(IntervalRow("x", low, ends, None, is_judged=True, higher_is_better=higher_is_better))

    assert colour(-1, 1, higher_is_better=True) == BLUE
    assert colour(1, 2, higher_is_better=True) == colour(-2, -1, higher_is_better=False) == GREEN
    assert colour(-2, -1, higher_is_better=True) == colour(1, 2, higher_is_better=False) == VERMILION


def test_nothing_is_drawn_of_nothing(result: AbResult) -> None:
    empty = tuple(msgspec.structs.replace(each, ab=None, aa=None) for each in result.metrics)
    assert ab_pictures(msgspec.structs.replace(result, metrics=empty)) == []


def test_floor_and_interval_fall_back_on_the_a_a_figures_and_the_percentile(result: AbResult) -> None:
    rate = result.metrics[0]
    assert rate.floor is not None
    assert rate.aa is not None
    assert floor_percent(rate) == 100 * rate.floor.value
    plain = msgspec.structs.replace(rate, floor=None, verdict=None)
    assert floor_percent(plain) == pytest.approx(max(map(abs, rate.aa.bootstrap.percentile)))
    assert rate.ab is not None
    assert judged_interval(plain) == rate.ab.bootstrap.percentile
    assert floor_percent(msgspec.structs.replace(plain, aa=None)) is None


def test_power_that_nobody_can_pay_is_said_so(result: AbResult) -> None:
    power = result.metrics[0].power
    assert power is not None
    endless = msgspec.structs.replace(power, pairs=None, pairs_most=None, smallest_effect=None)
    words = power_words("rate", endless)
    assert "takes more pairs than anybody runs" in words
    assert "to without end" in words
    assert "this run resolves no effect" in words


def test_a_dash_has_its_reason(result: AbResult) -> None:
    rate = result.metrics[0]
    assert rate.aa is not None
    bootstrap = dataclasses.replace(rate.aa.bootstrap, bca=None, bca_reason="all are equal")
    reasons = {"ab": "not every pair has a figure", "power": "needs two A/A pairs with a ratio"}
    metric = msgspec.structs.replace(
        rate, aa=dataclasses.replace(rate.aa, bootstrap=bootstrap), ab=None, power=None, reasons=reasons
    )
    text = folder_markdown(ab_document(msgspec.structs.replace(result, metrics=(metric,)), {}))
    assert "No BCa interval of `rate` A/A: all are equal." in text
    assert "No figures of `rate` A/B: not every pair has a figure." in text
    assert "Not known of `rate`: needs two A/A pairs with a ratio." in text


def test_a_metric_for_information_is_not_judged(result: AbResult) -> None:
    rate = result.metrics[0]
    shown = msgspec.structs.replace(
        rate, metric=msgspec.structs.replace(rate.metric, decides=False), verdict=None, floor=None
    )
    text = folder_markdown(ab_document(msgspec.structs.replace(result, metrics=(rate, shown)), {}))
    (row,) = (line for line in text.splitlines() if line.startswith("| rate, for information |"))
    assert row.endswith("| not judged |")
