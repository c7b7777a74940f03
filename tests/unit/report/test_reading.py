from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from arriero.core.errors import DataError
from arriero.report.gantt import gantt
from arriero.report.latencies import measured
from arriero.report.measures import GROUPS, HEADLINES
from arriero.report.reading import read_runs
from arriero.report.run_view import WORKLOAD, RunView
from arriero.report.series import Stretches
from arriero.report.timeline import timeline


def figures(run: RunView) -> dict[str, float | None]:
    every = [*(measure for group in GROUPS for measure in group.measures), *HEADLINES]
    found = measured(run)
    return {measure.name: measure.of(found) for measure in every}


def one(path: Path) -> RunView:
    (run,) = read_runs([path])
    return run


def test_a_result_of_our_own_mode_has_steps_requests_and_provenance(simulated: Path) -> None:
    run = one(simulated / "plain.jsonl")
    assert (run.name, run.evidence, run.requests.num_requests) == ("plain", "SIMULATED", 120)
    assert run.steps is not None
    assert run.steps.num_steps == run.step_figures.num_steps
    assert run.limits == (48, 4, 1024, "cells")
    assert run.objectives == {"ttft": 400_000, "e2e": 2_000_000}
    assert run.notes == ()
    assert run.window is not None
    facts = dict(run.facts)
    assert facts["result file"] == "plain.jsonl"
    assert len(facts["sha256 of the file"]) == 64
    assert "/" not in facts["result file"]


def test_the_trace_level_changes_no_figure_but_what_is_drawn(simulated: Path) -> None:
    plain, untraced = one(simulated / "plain.jsonl"), one(simulated / "untraced.jsonl")
    assert figures(plain) == figures(untraced)
    assert untraced.steps is None
    assert "--trace counts" in untraced.notes[0]
    assert plain.traits == untraced.traits


@pytest.mark.parametrize("name", ["plain", "tight"])
def test_a_journal_of_the_same_run_has_the_same_figures(simulated: Path, name: str) -> None:
    run, journal = one(simulated / f"{name}.jsonl"), one(simulated / f"{name}.journal")
    assert journal.evidence == "SIMULATED"
    ours, theirs = figures(run), figures(journal)
    only_ours = {"good_requests_per_s", "good_of_submitted", "good_of_finished", "evictions"}
    for figure, value in ours.items():
        if figure not in only_ours:
            assert theirs[figure] == pytest.approx(value), figure
    assert run.steps is not None
    assert journal.steps is not None
    for field, column in run.steps.values.items():
        assert np.array_equal(column, journal.steps.values[field]), field
    assert np.array_equal(run.steps.began_at, journal.steps.began_at)
    assert np.array_equal(run.steps.ended_at, journal.steps.ended_at)
    assert run.requests.gaps.pooled == journal.requests.gaps.pooled
    for field in ("moments", "latencies", "amounts"):
        columns = getattr(journal.requests, field)
        for moment, column in getattr(run.requests, field).items():
            assert np.array_equal(column, columns[moment], equal_nan=field != "amounts"), moment
    assert timeline_arrays(run) == timeline_arrays(journal)
    assert gantt(run.requests, run.ended_at) == gantt(journal.requests, journal.ended_at)


def timeline_arrays(run: RunView) -> dict[str, object]:
    """Every curve over time, in a form that can be compared."""
    drawn = timeline(run)
    return {
        field.name: [None if each is None else each.tolist() for each in (value.edges, value.values, value.peaks)]
        for field in fields(drawn)
        if isinstance(value := getattr(drawn, field.name), Stretches)
    }


def test_how_many_equal_steps_a_journal_takes_in_one_record_makes_no_difference(simulated: Path) -> None:
    files = [simulated / f"{name}.journal" for name in ("plain", "untraced")]
    few, more = (sum(b'"times":' in line for line in file.read_bytes().splitlines()) for file in files)
    assert few < more  # without a trace, more steps are equal
    plain, untraced = map(one, files)
    assert figures(plain) == figures(untraced)
    assert timeline_arrays(plain) == timeline_arrays(untraced)


def test_preemptions_are_seen(simulated: Path) -> None:
    assert figures(one(simulated / "tight.jsonl"))["preemptions"]


def test_a_result_in_the_published_format_has_the_same_kind_of_figures(lab: Path) -> None:
    traced, untraced = one(lab / "traced.jsonl"), one(lab / "untraced.jsonl")
    assert traced.steps is not None
    assert set(traced.steps.values) == {"prefill_rows", "decode_rows", "kv_held"}
    assert untraced.steps is None
    assert "--trace full" in untraced.notes[0]
    ours, theirs = figures(traced), figures(untraced)
    assert ours["ttft_p50_us"] == theirs["ttft_p50_us"]
    assert ours["mean_rows"]
    assert theirs["mean_rows"] is None
    assert traced.traits[WORKLOAD] == untraced.traits[WORKLOAD]


def test_published_results_are_read(shared_data: Path) -> None:
    paths = sorted((shared_data / "serving-lab" / "results" / "raw").glob("*.jsonl"))
    runs = read_runs(paths)
    assert [run.name for run in runs] == [path.stem for path in paths]
    one_at_a_time = next(run for run in runs if run.name == "fcfs_chat_small")
    assert one_at_a_time.limits == (None, 1, None, "blocks")
    assert "One request is served at a time" in one_at_a_time.notes[0]


def test_equal_names_are_told_apart(simulated: Path) -> None:
    path = simulated / "plain.jsonl"
    assert [run.name for run in read_runs([path, path])] == ["plain (1)", "plain (2)"]


def test_runs_of_one_journal_are_apart(simulated: Path, tmp_path: Path) -> None:
    both = tmp_path / "both.journal"
    both.write_bytes((simulated / "plain.journal").read_bytes() + (simulated / "tight.journal").read_bytes())
    first, second = read_runs([both])
    assert (first.name, second.name) == ("both #1", "both #2")
    assert figures(second) == figures(one(simulated / "tight.journal"))


def test_a_journal_without_an_end_says_so(simulated: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.journal"
    cut.write_bytes(b"".join((simulated / "plain.journal").read_bytes().splitlines(keepends=True)[:-1]))
    assert "no end record" in one(cut).notes[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no result of a simulation"),
        ("{}\n", "its format is 'None'"),
        ('{"schema_version": "arriero-bench-v1"}\n', "arriero-bench-v1"),
        ("nonsense\n", "no result of a simulation"),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(DataError, match=says) as error:
        read_runs([path])
    assert error.value.file == str(path)
    assert "arriero sim run" in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file") as error:
        read_runs([tmp_path / "nowhere.jsonl"])
    assert error.value.file is not None


def test_a_changed_result_is_refused(simulated: Path, tmp_path: Path) -> None:
    lines = (simulated / "plain.jsonl").read_bytes().splitlines(keepends=True)
    changed = tmp_path / "changed.jsonl"
    changed.write_bytes(b"".join(lines[:-1]) + lines[-1].replace(b'"preemptions":0', b'"preemptions":1'))
    with pytest.raises(DataError):
        read_runs([changed])
