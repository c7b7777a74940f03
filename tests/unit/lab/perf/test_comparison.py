import json
from pathlib import Path

import pytest

from arriero.core.errors import ConfigError, DataError
from arriero.lab.perf.comparison import compare_runs
from arriero.lab.perf.hot_cases import pool
from arriero.lab.perf.run_files import read_folders
from arriero.lab.perf.session import SessionOptions, run_session
from arriero.lab.perf.stat_profiler import StatProfiler
from arriero.lab.perf.target import Target
from arriero.metrics.symbol_families import Family
from arriero.record.cpu_lab.perf_attribution import Attribution, CallGraph, Measure, SymbolRow
from arriero.record.cpu_lab.perf_comparison import CounterFigure, PerfComparison
from tests.unit.lab.perf.fake_tools import fake_perf
from tests.unit.lab.perf.plans import plan, quiet, target

EVENTS = ("task-clock", "instructions", "cycles", "cache-misses", "cache-references")


def counted(tmp_path: Path, targets: list[Target], *, resume: bool = False, name: str = "run") -> PerfComparison:
    run_session(
        plan(targets, warmups=0, repetitions=1, events=EVENTS),
        StatProfiler(fake_perf(tmp_path), EVENTS),
        tmp_path / name,
        SessionOptions(resume=resume, retry_failures=resume),
        tell=lambda _: None,
        conditions=quiet,
    )
    return compare_runs(read_folders([tmp_path / name]))


def figures(found: PerfComparison, case: int = 0) -> dict[str, CounterFigure]:
    each = found.counters[case]
    return {figure.name: figure for figure in (*each.counters, *each.quotients)}


def test_quotients_and_counters_per_token_are_told_with_their_scope(tmp_path: Path) -> None:
    found = counted(tmp_path, [target("m-f16.gguf", tokens=1000)])
    values = figures(found)
    assert values["instructions per cycle"].value == 2.5
    assert values["cache-miss rate"].value == 0.25
    assert values["instructions per token"].value == 100_000.0
    assert values["branch-miss rate"].value is None
    assert values["branch-miss rate"].reason == "branch-misses: not asked for"
    assert values["task-clock per token"].value == 0.0125
    assert values["task-clock"].unit == values["task-clock per token"].unit == "msec"
    assert values["elapsed"].value is not None
    assert found.counters[0].scope == "whole invocation"
    assert found.evidence == "PROFILED"


def test_a_program_without_a_known_number_of_tokens_has_no_figure_per_token(tmp_path: Path) -> None:
    values = figures(counted(tmp_path, [target("m.gguf", tokens=None)]))
    assert values["instructions per token"].value is None
    assert "not known" in (values["instructions per token"].reason or "")


def test_ratios_join_exactly_equal_workloads_and_nothing_else(tmp_path: Path) -> None:
    targets = [
        target("q8.gguf"), target("m-f16.gguf"), target("q8.gguf", workload="p8-n2-t2"),
    ]  # fmt: skip
    found = counted(tmp_path, targets)
    assert found.reference == "m-f16.gguf"
    ratios = {(each.workload, each.name): each for each in found.ratios}
    assert ratios["p8-n2-t1", "instructions"].value == 1.0
    other = ratios["p8-n2-t2", "instructions"]
    assert other.value is None
    assert other.reason == "m-f16.gguf was not counted at this workload in this run"


def test_runs_are_never_pooled(tmp_path: Path) -> None:
    counted(tmp_path, [target("m-f16.gguf")], name="one")
    counted(tmp_path, [target("q8.gguf")], name="two")
    found = compare_runs(read_folders([tmp_path / "one", tmp_path / "two"]))
    assert len(found.counters) == 2
    assert all(each.value is None for each in found.ratios)
    with pytest.raises(DataError, match="named twice"):
        read_folders([tmp_path / "one", tmp_path / "one"])


def test_a_retried_invocation_counts_once_and_its_latest_record_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers of the published harness disagreed about this."""
    monkeypatch.setenv("FAKE_PERF", json.dumps({"cycles": "garbage"}))
    found = counted(tmp_path, [target("m.gguf")])
    assert found.counters == ()
    assert found.runs[0].failures
    monkeypatch.setenv("FAKE_PERF", "{}")
    found = counted(tmp_path, [target("m.gguf")], resume=True)
    assert len((tmp_path / "run/run.jsonl").read_text().splitlines()) == 2
    assert figures(found)["cycles"].num == 1
    assert found.runs[0].failures == ()


def test_events_that_took_turns_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_PERF", json.dumps({"cycles": "multiplexed"}))
    assert figures(counted(tmp_path, [target("m.gguf")]))["cycles"].running_percent == 62.5


def test_a_reference_that_was_not_profiled_is_refused(tmp_path: Path) -> None:
    counted(tmp_path, [target("m.gguf")])
    folders = read_folders([tmp_path / "run"])
    assert compare_runs(folders, "m").reference == "m.gguf"
    with pytest.raises(ConfigError, match=r"--reference q8: no model of these runs; they have m\.gguf"):
        compare_runs(folders, "q8")


def test_repetitions_are_pooled_by_the_mean_of_their_shares() -> None:
    def shares(**given: float) -> Attribution:
        rows = tuple(
            SymbolRow(symbol=name, shared_object="a", share=share, count=1, family=Family.UNKNOWN, is_resolved=True)
            for name, share in given.items()
        )
        return Attribution(
            measure=Measure.CYCLES, scope="whole invocation", note="", call_graph=CallGraph.NONE, total=10, limit=0.001,
            left_out=0.0, lost=None, rows=rows, stacks=None,
        )  # fmt: skip

    found = pool([shares(f=0.6, g=0.4), shares(f=1.0)])
    assert [(row.symbol, row.share) for row in found.rows] == [("f", 0.8), ("g", 0.2)]
    assert found.total == 20


def test_an_event_that_the_probe_refused_is_the_reason_of_a_missing_figure(tmp_path: Path) -> None:
    events = ("branch-misses", "task-clock")
    run_session(
        plan([target("m.gguf")], warmups=0, repetitions=1),
        StatProfiler(fake_perf(tmp_path), events),
        tmp_path / "run",
        SessionOptions(),
        tell=lambda _: None,
        conditions=quiet,
    )
    values = figures(compare_runs(read_folders([tmp_path / "run"])))
    assert values["branch-miss rate"].reason == "branches: unsupported here"
