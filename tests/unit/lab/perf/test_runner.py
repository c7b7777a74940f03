import json
import random
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from arriero.core.errors import DataError
from arriero.lab.perf.callgrind_profiler import CallgrindProfiler
from arriero.lab.perf.kept_stacks import keep_stacks
from arriero.lab.perf.plan import PerfPlan
from arriero.lab.perf.profiler import Profiler, Scratch
from arriero.lab.perf.run_files import PerfFolder, read_folders
from arriero.lab.perf.sample_profiler import SampleProfiler
from arriero.lab.perf.session import SessionOptions, run_session
from arriero.lab.perf.stat_profiler import StatProfiler
from arriero.record.cpu_lab.folded_stacks import FoldedStacks
from arriero.record.cpu_lab.perf import Fault, PerfMode, PerfRecord, PerfSummary, Phase, RunStatus
from arriero.record.cpu_lab.perf_attribution import CallGraph, Measure
from arriero.record.cpu_lab.run_log import JsonValue, RunLog, Status
from tests.unit.lab.perf.fake_tools import fake_perf, fake_valgrind
from tests.unit.lab.perf.plans import PYTHON, plan, quiet, target

EVENTS = ("task-clock", "instructions", "cycles")


def run(
    tmp_path: Path, given: PerfPlan, profiler: Profiler | None = None, options: SessionOptions | None = None,
    interrupt: threading.Event | None = None,
) -> PerfSummary:  # fmt: skip
    return run_session(
        given,
        profiler or StatProfiler(fake_perf(tmp_path), EVENTS),
        tmp_path / "run",
        options or SessionOptions(),
        tell=lambda _: None,
        conditions=quiet,
        interrupt=interrupt,
    )


def stored(tmp_path: Path) -> PerfFolder:
    return read_folders([tmp_path / "run"])[0]


def records(tmp_path: Path) -> list[PerfRecord]:
    return list(stored(tmp_path).run.latest.values())


def test_one_warm_up_without_the_tool_then_repetitions_with_it(tmp_path: Path) -> None:
    summary = run(tmp_path, plan([target("m.gguf")]))
    warmup, first, second = records(tmp_path)
    assert (warmup.phase, warmup.counters, warmup.counts) == (Phase.WARMUP, (), False)
    assert "stat" not in warmup.command
    assert [each.event for each in first.counters] == list(EVENTS)
    assert (first.status, first.repetition, second.repetition) == (Status.SUCCESS, 1, 2)
    assert first.before is not None
    assert first.after is not None
    assert first.evidence == "PROFILED"
    assert first.scope == "whole invocation"
    assert (summary.run_status, summary.successful, summary.planned) == (RunStatus.COMPLETED, 3, 3)
    assert not any(word.startswith("/") for word in first.command)
    assert json.loads((tmp_path / "run/run-summary.json").read_text())["run_status"] == "completed"


def test_a_failing_program_and_a_failing_tool_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = plan([target("bad.gguf", "import sys; print('no model', file=sys.stderr); sys.exit(3)")], warmups=0)
    run(tmp_path, given)
    first, _ = records(tmp_path)
    assert (first.status, first.fault, first.return_code) == (Status.FAILED, Fault.TARGET, 3)
    assert first.reason == "no model"
    monkeypatch.setenv("FAKE_PERF", json.dumps({"perf": "dies"}))
    run(tmp_path, given, options=SessionOptions(resume=True, retry_failures=True))
    first, _ = records(tmp_path)
    assert (first.status, first.fault, first.reason) == (Status.FAILED, Fault.TOOL, "Segmentation fault")


def test_output_that_is_not_understood_is_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_PERF", json.dumps({"cycles": "garbage"}))
    run(tmp_path, plan([target("m.gguf")], warmups=0, repetitions=1))
    (record,) = records(tmp_path)
    assert (record.status, record.fault) == (Status.PARSE_ERROR, Fault.TOOL)
    assert record.reason is not None
    assert "perf stat: line 5: the value 'many' is no number" in record.reason


def test_a_time_out_is_a_record_and_the_others_go_on(tmp_path: Path) -> None:
    """In the published lab a time-out escaped without a record."""
    slow = target("slow.gguf", "import signal; signal.pause()")
    summary = run(tmp_path, plan([slow, target("m.gguf")], warmups=0, repetitions=1, timeout_s=0.5))
    first, second = records(tmp_path)
    assert (first.status, first.return_code is not None) == (Status.TIMED_OUT, True)
    assert second.status is Status.SUCCESS
    assert (summary.timed_out, summary.successful) == (1, 1)


def test_a_refusing_kernel_is_told_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_PERF", json.dumps({"cycles": "denied"}))
    run(tmp_path, plan([target("m.gguf")], warmups=0, repetitions=1))
    (record,) = records(tmp_path)
    assert record.fault is Fault.TOOL
    assert record.reason is not None
    assert "perf_event_paranoid" in record.reason


def test_an_interrupted_run_goes_on_without_loss_or_duplicates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = plan([target("m.gguf", "import os, signal; 'WAIT' in os.environ and signal.pause()")])
    stop = threading.Event()

    def tell(line: str) -> None:
        if line.startswith("2/3"):
            monkeypatch.setenv("WAIT", "1")
            stop.set()

    profiler = StatProfiler(fake_perf(tmp_path), EVENTS)
    summary = run_session(
        given, profiler, tmp_path / "run", SessionOptions(), tell=tell, conditions=quiet, interrupt=stop
    )
    monkeypatch.delenv("WAIT")
    assert (summary.run_status, summary.completed) == (RunStatus.INTERRUPTED, 1)
    summary = run(tmp_path, given, options=SessionOptions(resume=True))
    assert (summary.run_status, summary.completed) == (RunStatus.COMPLETED, 3)
    lines = (tmp_path / "run/run.jsonl").read_text().splitlines()
    assert len(lines) == 3


def test_a_run_that_was_killed_anywhere_goes_on_without_loss_or_duplicates(tmp_path: Path) -> None:
    """A kill leaves a beginning of the log, perhaps with half a line; failures that are recorded stay as they are."""
    given = plan([target("m.gguf"), target("bad.gguf", "raise SystemExit(3)")], repetitions=1)
    run(tmp_path, given)
    path = tmp_path / "run/run.jsonl"
    lines = path.read_bytes()
    whole = [(record.invocation_id, record.status) for record in stored(tmp_path).run.records]
    chance = random.Random(8081)
    for _ in range(3):
        path.write_bytes(lines[: chance.randrange(len(lines))])
        summary = run(tmp_path, given, options=SessionOptions(resume=True, repair=True))
        assert (summary.run_status, summary.completed) == (RunStatus.COMPLETED, 4)
        assert [(record.invocation_id, record.status) for record in stored(tmp_path).run.records] == whole


def test_the_fingerprint_is_checked_on_resume(tmp_path: Path) -> None:
    """The published profiler stored it and never looked at it again."""
    run(tmp_path, plan([target("m.gguf")], warmups=0))
    other = plan([target("m.gguf")], warmups=0, repetitions=3)
    with pytest.raises(DataError, match="repetitions"):
        run(tmp_path, other, options=SessionOptions(resume=True))
    assert run(tmp_path, other, options=SessionOptions(resume=True, force=True)).completed == 3


def test_a_bad_line_is_an_error_and_is_not_skipped(tmp_path: Path) -> None:
    """The published profiler skipped lines that were no JSON."""
    given = plan([target("m.gguf")], warmups=0, repetitions=1)
    run(tmp_path, given)
    with (tmp_path / "run/run.jsonl").open("a") as file:
        file.write("{broken\n")
    with pytest.raises(DataError, match="line 2"):
        run(tmp_path, given, options=SessionOptions(resume=True))
    with pytest.raises(DataError, match="line 2"):
        read_folders([tmp_path / "run"])


def test_a_folder_that_holds_a_run_is_not_written_over(tmp_path: Path) -> None:
    given = plan([target("m.gguf")], warmups=0, repetitions=1)
    run(tmp_path, given)
    with pytest.raises(DataError, match="holds a run already"):
        run(tmp_path, given)


def test_a_manifest_holds_no_path_so_that_a_run_may_move(tmp_path: Path) -> None:
    """The published fingerprints held absolute paths."""
    run(tmp_path, plan([target("m.gguf")], warmups=0, repetitions=1))
    assert str(tmp_path) not in (tmp_path / "run/manifest.json").read_text()
    assert str(Path.home()) not in (tmp_path / "run/manifest.json").read_text()


def test_samples_become_an_attribution_with_stacks_beside_the_record(tmp_path: Path) -> None:
    profiler = SampleProfiler(fake_perf(tmp_path), None, Measure.CPU_CLOCK, CallGraph.DWARF)
    run(tmp_path, plan([target("m.gguf")], PerfMode.RECORD, warmups=0, repetitions=1), profiler)
    (record,) = records(tmp_path)
    found = record.attribution
    assert found is not None, record.reason
    assert found.rows[0].symbol == "vec_dot"
    assert "cpu-clock samples" in found.note
    assert found.stacks is not None
    folder = stored(tmp_path)
    assert folder.stacks(found.stacks).weight == found.stacks.weight
    path = tmp_path / "run" / found.stacks.name
    path.write_bytes(path.read_bytes() + b"main 1\n")
    with pytest.raises(DataError, match="SHA-256 differs"):
        folder.stacks(found.stacks)


@pytest.mark.parametrize("part", ["report", "script"])
def test_a_part_of_perf_that_writes_nonsense_is_a_parse_error(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PERF", json.dumps({part: "garbage"}))
    profiler = SampleProfiler(fake_perf(tmp_path), None, Measure.CPU_CLOCK, CallGraph.DWARF)
    run(tmp_path, plan([target("m.gguf")], PerfMode.RECORD, warmups=0, repetitions=1), profiler)
    (record,) = records(tmp_path)
    assert record.status is Status.PARSE_ERROR
    assert record.reason is not None
    assert record.reason.startswith(f"perf {part}: line 1")


def test_a_tool_that_ends_well_and_writes_nothing_is_a_parse_error(tmp_path: Path) -> None:
    silent = replace(target("m.gguf"), command=(PYTHON[0], "nothing"))
    profiler = CallgrindProfiler(fake_valgrind(tmp_path))
    run(tmp_path, plan([silent], PerfMode.CALLGRIND, warmups=0, repetitions=1), profiler)
    (record,) = records(tmp_path)
    assert (record.status, record.fault) == (Status.PARSE_ERROR, Fault.TOOL)
    assert record.reason is not None
    assert "holds no instruction" in record.reason


def test_stacks_that_the_disk_does_not_take_are_one_line(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path, tmp_path / "gone", "stem")
    with pytest.raises(DataError, match=r"cannot be written .*; make room"):
        keep_stacks(FoldedStacks(((("main [x]",), 1),)), scratch)


def test_the_folder_of_another_command_is_told_as_such(tmp_path: Path) -> None:
    manifest: dict[str, JsonValue] = {"schema": "arriero-lab-matrix-v1"}
    RunLog.create(tmp_path / "matrix", PerfRecord, manifest, sync=False).close()
    with pytest.raises(DataError, match=r"is the run of something else \(arriero-lab-matrix-v1\)"):
        read_folders([tmp_path / "matrix"])


def test_callgrind_counts_instructions_and_explains_an_instruction_it_does_not_know(tmp_path: Path) -> None:
    profiler = CallgrindProfiler(fake_valgrind(tmp_path), "llama_decode")
    wide = replace(target("wide.gguf"), command=(PYTHON[0], "sigill"))
    run(tmp_path, plan([target("m.gguf"), wide], PerfMode.CALLGRIND, warmups=0, repetitions=1), profiler)
    first, second = records(tmp_path)
    assert first.scope == "inside llama_decode"
    assert first.attribution is not None
    assert first.counters[0].value == first.attribution.total
    assert "--toggle-collect=llama_decode" in first.command
    assert (second.status, second.fault) == (Status.FAILED, Fault.TOOL)
    assert second.reason is not None
    assert "-DGGML_AVX2=ON" in second.reason
