from pathlib import Path

import msgspec
import pytest

from arriero.metrics.symbol_families import Family
from arriero.record.cpu_lab.folded_stacks import FoldedStacks
from arriero.record.cpu_lab.perf import PerfCase, PerfMode, TargetModel
from arriero.record.cpu_lab.perf_attribution import Attribution, CallGraph, Measure
from arriero.record.cpu_lab.perf_comparison import (
    CaseCounters,
    CaseHot,
    CounterFigure,
    CounterRatio,
    FamilyShare,
    HotFunction,
    PerfComparison,
    RunNote,
)
from arriero.report.cpu_lab.folder import pictures_by_key, write_report
from arriero.report.cpu_lab.perf_document import perf_document
from arriero.report.cpu_lab.perf_pictures import flame_graphs, flame_pictures, perf_pictures
from arriero.report.cpu_lab.perf_view import PerfView, case_key
from arriero.report.document import Document, Table

SHA = "0" * 64
WORKLOAD = "p1024-n64-t4-d0"


def case(name: str) -> PerfCase:
    model = TargetModel(name=name, bytes=7, sha256=SHA)
    return PerfCase(target=name, model=model, workload=WORKLOAD, num_tokens=1088)


def figure(
    name: str, value: float | None, *, running: float | None = 100.0, reason: str | None = None
) -> CounterFigure:
    return CounterFigure(
        name=name, unit="", value=value, low=value, high=value, num=3, running_percent=running, reason=reason
    )


def hot(name: str) -> CaseHot:
    functions = (
        HotFunction(rank=1, symbol="ggml_vec_dot_q8_0_q8_0", shared_object="libggml-cpu.so", is_resolved=True,
                    family=Family.QUANTISED_DOT, share=0.56, cumulative=0.56, bound=2.27),
        HotFunction(rank=2, symbol="function at 0x139640", shared_object="libggml-cpu.so", family=Family.UNKNOWN,
                    is_resolved=False, share=0.3, cumulative=0.86, bound=1.43),
    )  # fmt: skip
    attribution = Attribution(
        measure=Measure.CPU_CLOCK, scope="whole invocation", note="cpu-clock samples", call_graph=CallGraph.DWARF,
        total=500, limit=0.001, left_out=0.14, lost=2, rows=(), stacks=None,
    )  # fmt: skip
    return CaseHot(
        run_id="r", case=case(name), mode=PerfMode.RECORD, num=1, attribution=attribution, functions=functions,
        top_5=0.86, top_20=0.86, families=(FamilyShare(family=Family.QUANTISED_DOT, share=0.56),
                               FamilyShare(family=Family.UNKNOWN, share=0.3)),
    )  # fmt: skip


def comparison(**changes: object) -> PerfComparison:
    counters = CaseCounters(
        run_id="r", case=case("q8.gguf"), mode=PerfMode.STAT, scope="whole invocation",
        counters=(figure("instructions", 9e11), figure("cycles", 3e11, running=62.0),
                  figure("LLC-loads", None, reason="not supported")),
        quotients=(figure("instructions per cycle", 3.0, running=None),),
    )  # fmt: skip
    ratio = CounterRatio(
        workload=WORKLOAD, mode=PerfMode.STAT, scope="whole invocation", target="q8.gguf", reference="f16.gguf",
        name="instructions", value=1.243,
    )  # fmt: skip
    run = RunNote(
        folder="perf-stat", run_id="r", fingerprint=SHA, mode=PerfMode.STAT, tool="perf 6.1", counted=3,
        failures=(("q8.gguf:3", "timed_out: took longer"),), library={"libggml-cpu.so": SHA},
    )  # fmt: skip
    values: dict[str, object] = {
        "runs": (run,), "reference": "f16.gguf", "counters": (counters,), "ratios": (ratio,),
        "hot": (hot("q8.gguf"), hot("f16.gguf")),
    }  # fmt: skip
    return PerfComparison(**{**values, **changes})  # type: ignore[arg-type] # tests replace any field


def tables(document: Document) -> list[Table]:
    return [part for section in document.sections for part in section.parts if isinstance(part, Table)]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = comparison()
    view = PerfView(found, {case_key(found.hot[0]): FoldedStacks(((("main [a]", "f [b]"), 5),))})
    drawn, graphs = list(perf_pictures(view)), flame_graphs(view)
    pictures = {**pictures_by_key(drawn), **flame_pictures(view, graphs)}
    folder = tmp_path_factory.mktemp("report")
    write_report(perf_document(view, pictures), drawn, folder, svgs=graphs)
    return folder


def test_every_table_carries_its_evidence_label_and_the_page_says_whole_invocation() -> None:
    document = perf_document(PerfView(comparison(), {}), {})
    assert len(tables(document)) == 5
    assert all(table.caption.startswith("PROFILED") for table in tables(document))
    assert [badge.text for badge in document.badges] == ["PROFILED", "whole invocation"]


def test_a_report_shows_shares_bounds_reasons_and_what_took_turns(report: Path) -> None:
    text = (report / "README.md").read_text()
    assert "| LLC-loads | – |" in text.replace("  ", " ")  # noqa: RUF001 - the sign for undefined
    assert "not supported" in text
    assert "cycles 62 %" in text
    assert "2.270" in text
    assert "1.243" in text
    assert "2 samples were lost" in text
    assert "No figures of: q8.gguf:3 (timed_out: took longer)" in text
    assert "without a name" in text
    assert "prompt 1024, answer 64, 4 threads" in text


def test_figures_and_flame_graphs_lie_beside_the_text(report: Path) -> None:
    text, page = (report / "README.md").read_text(), (report / "index.html").read_text()
    names = {path.name for path in report.glob("*.svg")}
    assert {name.partition("-")[0].partition(".")[0] for name in names} == {"ratios", "families", "functions", "flame"}
    assert all(f"({name})" in text for name in names)
    assert "main [a]: 100.00 %" in page


def test_runs_without_figures_make_a_report_that_says_so() -> None:
    document = perf_document(PerfView(comparison(counters=(), ratios=(), hot=()), {}), {})
    assert any("Nothing could be counted" in getattr(part, "text", "") for part in document.lead)
    assert [section.key for section in document.sections] == ["runs"]


def test_cases_of_one_model_have_keys_of_their_own() -> None:
    first, second = hot("a.gguf"), hot("b.gguf")
    assert case_key(first) != case_key(second)
    assert case_key(first).startswith("a-")


def test_a_report_of_a_part_of_the_program_does_not_speak_of_whole_invocations() -> None:
    found = comparison(counters=(), ratios=())
    inside = msgspec.structs.replace(found.hot[0].attribution, scope="inside f(*)")
    view = PerfView(
        comparison(counters=(), ratios=(), hot=(msgspec.structs.replace(found.hot[0], attribution=inside),)), {}
    )
    document = perf_document(view, {})
    assert [badge.text for badge in document.badges] == ["PROFILED", "inside f(*)"]
    assert not any("Whole invocation" in getattr(part, "text", "") for part in document.lead)
