"""Reports as Markdown and CSV, from results that never ran and never change."""

from pathlib import Path

import pytest

from arriero.metrics.definitions import ARRIERO
from arriero.report import bench_csv, compare_csv, sim_csv
from arriero.report.bench_document import bench_document
from arriero.report.bench_view import bench_views
from arriero.report.compare_document import compare_document
from arriero.report.compare_view import compare_views
from arriero.report.latencies import measured
from arriero.report.markdown import as_markdown
from arriero.report.run_view import COSTS
from arriero.report.sim_document import sim_document
from tests.unit.report.bench_results import lives, point, result, sweep
from tests.unit.report.comparison_files import comparison
from tests.unit.report.runs import TRAITS, run_view

FOLDER = Path(__file__).parent


def simulation(form: str) -> str:
    runs = [run_view(num=130), run_view("slower", num=130, traits={**TRAITS, COSTS: "base_us: 200.0"})]
    every = [measured(run) for run in runs]
    return sim_csv.as_csv(every) if form == "csv" else as_markdown(sim_document(every, {}))


def load(form: str) -> str:
    results = sweep((3.0, 8.0)), result([point(lives(40, 4.0, failing=0.1), {})])
    views = bench_views([(Path(f"r{number}.json"), "d" * 64, each) for number, each in enumerate(results, start=1)])
    return bench_csv.as_csv(views) if form == "csv" else as_markdown(bench_document(views, ARRIERO, {}))


def compared(form: str) -> str:
    views = compare_views([(Path("peers.json"), "d" * 64, comparison((1.3, 1.0, 0.9)))])
    return compare_csv.as_csv(views) if form == "csv" else as_markdown(compare_document(views, {}))


@pytest.mark.parametrize("form", ["md", "csv"])
@pytest.mark.parametrize("make", [simulation, load, compared])
def test_text_forms_are_as_they_were(make, form: str, blessing: bool) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001, FBT001 - a function of this file, a fixture
    text = make(form)
    path = FOLDER / f"report_{make.__name__}.{form}"
    if blessing:
        path.write_text(text)
    assert text == path.read_text()
