"""A run with its failures, its interrupts and its second sessions; real processes of the fake program."""

import json
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from arriero.core.errors import DataError
from arriero.lab.matrix.executors import Executor
from arriero.lab.matrix.plan import MatrixPlan
from arriero.lab.matrix.runner import Surroundings
from arriero.lab.matrix.session import SessionOptions, read_summary, run_matrix
from arriero.lab.matrix.smoke import read_fixture
from arriero.lab.process import Finished
from arriero.record.cpu_lab.matrix import MatrixRecord, MatrixSummary, MemorySource, RunStatus
from arriero.record.cpu_lab.run_log import LINES, Status, fingerprint, read_run
from arriero.testing.fake_bench import Mode, read_calls
from tests.unit.lab.matrix.matrices import AROUND, ENVIRONMENT, cases, fake_executor, fake_plan, ignore

RESUME = SessionOptions(resume=True, sync=False)
RETRY = SessionOptions(resume=True, retry_failures=True, sync=False)
FRESH = SessionOptions(sync=False)


def run(
    plan: MatrixPlan, folder: Path, options: SessionOptions = FRESH, told: list[str] | None = None
) -> MatrixSummary:
    return run_matrix(plan, folder / "run", AROUND, ignore if told is None else told.append, options)


def records(folder: Path) -> tuple[MatrixRecord, ...]:
    return read_run(folder / "run", MatrixRecord).records


def test_every_invocation_has_a_record_with_all_that_stood_around_it(tmp_path: Path) -> None:
    plan = fake_plan(tmp_path, matrix=cases(64, 128, threads=(2,)))
    summary = run(plan, tmp_path)
    assert summary.run_status is RunStatus.COMPLETED
    assert (summary.planned_invocations, summary.successful_invocations) == (6, 6)
    assert summary == read_summary(tmp_path / "run")
    found = records(tmp_path)
    assert [each.invocation_id for each in found] == [each.invocation_id for each in plan.invocations()]
    last = found[-1]
    assert (last.before, last.after) != (None, None)
    assert last.environment == ENVIRONMENT
    assert last.parsed_results[0].prompt_tokens == 128
    assert last.command[:3] == ("llama-bench", "-m", "tiny.gguf")
    assert sorted(last.library) == ["llama-bench"]
    assert not any(word.startswith("/") for each in found for word in each.executed_command)
    assert len(read_calls(tmp_path / "bin")) == 6


def test_progress_is_told_before_and_after_each_invocation_with_the_time_left(tmp_path: Path) -> None:
    told: list[str] = []
    run(fake_plan(tmp_path, matrix=cases(64, threads=(1,)), repetitions=1), tmp_path, told=told)
    assert len(told) == 4
    assert told[0].startswith("[1/2] tiny:p64-n8-t1-")
    assert "begins, time left unknown" in told[0]
    assert "success in" in told[1]
    assert "tok/s, about" in told[1]
    assert "about" in told[2]
    assert told[3].endswith("nothing left")


MODES = {
    "p64-n8-t1": Mode.EXIT,
    "p64-n8-t2": Mode.MALFORMED,
    "p128-n8-t1": Mode.SILENT,
    "p128-n8-t2": Mode.OTHER_CASE,
}


def test_failures_and_timeouts_are_records_and_the_run_goes_on(tmp_path: Path) -> None:
    matrix = (*cases(64, 128), *cases(32, threads=(1,)))
    plan = fake_plan(tmp_path, MODES, matrix=matrix, repetitions=1, warmup_runs=0, timeout_s=0.4)
    summary = run(plan, tmp_path)
    assert [each.status for each in records(tmp_path)] == [
        Status.FAILED,
        Status.PARSE_ERROR,
        Status.TIMED_OUT,
        Status.PARSE_ERROR,
        Status.SUCCESS,
    ]
    counts = (summary.successful_invocations, summary.failed_invocations, summary.timed_out_invocations)
    assert counts == (1, 3, 1)
    assert summary.run_status is RunStatus.COMPLETED
    failed, malformed, silent, other, _ = records(tmp_path)
    assert (failed.return_code, failed.stderr) == (3, "fake: failed to load model\n")
    assert malformed.parse_error is not None
    assert "no number" in malformed.parse_error
    assert silent.timed_out
    assert "| model |" in silent.stdout, "what it had written is kept"
    assert other.parse_error is not None
    assert "threads" in other.parse_error


def test_a_program_that_cannot_be_started_is_a_record(tmp_path: Path) -> None:
    plan = fake_plan(tmp_path, matrix=cases(64, threads=(1,)), repetitions=1, warmup_runs=0)
    (tmp_path / "bin" / "llama-bench").unlink()
    run(plan, tmp_path)
    (record,) = records(tmp_path)
    assert record.status is Status.FAILED
    assert record.launch_error is not None
    assert "peak_rss_kib" in record.reasons


def test_resume_skips_what_is_recorded_failures_included(tmp_path: Path) -> None:
    plan = fake_plan(tmp_path, {"p64-n8-t1": Mode.EXIT}, matrix=cases(64), repetitions=1)
    run(plan, tmp_path)
    before = records(tmp_path)
    run(plan, tmp_path, RESUME)
    assert records(tmp_path) == before
    assert len(read_calls(tmp_path / "bin")) == len(before)


def test_retry_does_again_what_did_not_succeed_and_nothing_else(tmp_path: Path) -> None:
    plan = fake_plan(tmp_path, {"p64-n8-t1": Mode.EXIT_ONCE}, matrix=cases(64), repetitions=2, warmup_runs=0)
    assert run(plan, tmp_path).failed_invocations == 1, "the first call of a setting fails"
    summary = run(plan, tmp_path, RETRY)
    assert (summary.successful_invocations, summary.failed_invocations) == (4, 0)
    assert [each.status for each in records(tmp_path)].count(Status.FAILED) == 1, "the failure stays in the log"
    assert len(records(tmp_path)) == 5


def test_a_fresh_run_refuses_a_folder_that_holds_one(tmp_path: Path) -> None:
    plan = fake_plan(tmp_path, matrix=cases(64, threads=(1,)), repetitions=1)
    run(plan, tmp_path)
    with pytest.raises(DataError, match="--resume"):
        run(plan, tmp_path)


def test_resume_begins_a_run_where_there_is_none(tmp_path: Path) -> None:
    plan = fake_plan(tmp_path, matrix=cases(64, threads=(1,)), repetitions=1)
    assert run(plan, tmp_path, RESUME).run_status is RunStatus.COMPLETED


def test_another_plan_is_refused_on_resume_unless_forced(tmp_path: Path) -> None:
    plan = fake_plan(tmp_path, matrix=cases(64, threads=(1,)), repetitions=1)
    run(plan, tmp_path)
    more = replace(plan, repetitions=2)
    with pytest.raises(DataError, match="repetitions"):
        run(more, tmp_path, RESUME)
    assert run(more, tmp_path, RESUME._replace(force=True)).successful_invocations == 3


def test_not_even_force_puts_two_kinds_of_evidence_into_one_run(tmp_path: Path) -> None:
    plan = fake_plan(tmp_path, matrix=cases(64, threads=(1,)), repetitions=1)
    captured = tmp_path / "out.md"
    captured.write_text(
        "| model | size | backend | threads | test | t/s |\n| m | s | CPU | 9 | pp1 | 1.0 ± 0 |\n", encoding="utf-8"
    )
    run(replace(plan, executor=read_fixture(captured)), tmp_path)
    with pytest.raises(DataError, match="holds figures that are SIMULATED, and these would be MEASURED"):
        run(plan, tmp_path, RESUME._replace(force=True))
    assert {record.evidence for record in records(tmp_path)} == {"SIMULATED"}


def test_another_model_or_program_under_the_same_name_is_another_plan(tmp_path: Path) -> None:
    """The fault of fingerprints made of paths: contents decide, and places do not."""
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    plan, moved = fake_plan(one), fake_plan(two)
    (model,) = moved.models
    elsewhere = replace(moved, executor=plan.executor)
    assert fingerprint(elsewhere.manifest()) == fingerprint(plan.manifest()), "a run may move"
    assert str(tmp_path) not in json.dumps(plan.manifest())
    changed = replace(elsewhere, models=(model._replace(sha256="0" * 64),))
    assert fingerprint(changed.manifest()) != fingerprint(plan.manifest())
    (two / "bin" / "llama-bench").write_text("#!/bin/sh\necho --n-depth --cache-type-k\n", encoding="utf-8")
    assert fingerprint(fake_plan_again(two).manifest()) != fingerprint(plan.manifest())


def fake_plan_again(folder: Path) -> MatrixPlan:
    from arriero.lab.matrix.llama_bench import find_llama_bench
    from tests.unit.lab.matrix.matrices import SETTINGS

    return fake_plan(folder, executor=find_llama_bench(folder / "bin" / "llama-bench", SETTINGS))


class Ticks:
    """A clock that goes on by a second each time it is asked."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_the_limit_of_the_whole_matrix_stops_between_invocations(tmp_path: Path) -> None:
    plan = fake_plan(tmp_path, matrix=cases(64))
    around = Surroundings(ENVIRONMENT, None, Ticks())
    told: list[str] = []
    limit = FRESH._replace(max_seconds=5.0)
    summary = run_matrix(plan, tmp_path / "run", around, told.append, limit)
    assert summary.run_status is RunStatus.FAILED
    assert 0 < summary.completed_invocations < 6
    assert summary.max_total_seconds == 5.0
    assert "--resume" in told[-1]
    assert run(plan, tmp_path, RESUME).run_status is RunStatus.COMPLETED
    assert len(read_calls(tmp_path / "bin")) == 6


class CtrlC:
    """An executor during whose third run somebody presses Ctrl-C."""

    def __init__(self, inner: Executor) -> None:
        self._inner = inner
        self._runs = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def run(self, command: tuple[str, ...], timeout_s: float) -> Finished:
        self._runs += 1
        if self._runs == 3:
            threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            return self._inner.run(("/bin/sleep", "30"), timeout_s)
        return self._inner.run(command, timeout_s)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_the_child_records_nothing_of_it_and_the_run_goes_on_later(tmp_path: Path) -> None:
    plan = fake_plan(tmp_path, matrix=cases(64))
    stopped = replace(plan, executor=CtrlC(plan.executor))  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        run(stopped, tmp_path)
    assert len(records(tmp_path)) == 2
    summary = read_summary(tmp_path / "run")
    assert (summary.run_status, summary.completed_invocations) == (RunStatus.INTERRUPTED, 2)
    assert run(plan, tmp_path, RESUME).successful_invocations == 6
    ids = [each.invocation_id for each in records(tmp_path)]
    assert len(ids) == len(set(ids)) == 6


def test_a_bad_line_stops_a_resume_with_its_number(tmp_path: Path) -> None:
    plan = fake_plan(tmp_path, matrix=cases(64, threads=(1,)), repetitions=1)
    run(plan, tmp_path)
    path = tmp_path / "run" / LINES
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1].replace(b'"success"', b'"splendid"'))
    with pytest.raises(DataError, match="line 2: status"):
        run(plan, tmp_path, RESUME)


def test_gnu_time_is_put_around_and_asked_when_that_is_wanted(tmp_path: Path) -> None:
    program = Path("/usr/bin/time")
    if not program.exists():
        pytest.skip("GNU time is not installed")
    matrix = cases(64, threads=(1,))
    plan = replace(fake_plan(tmp_path, matrix=matrix, repetitions=1, warmup_runs=0), time_program=program)
    run(plan, tmp_path)
    (record,) = records(tmp_path)
    assert record.memory_measurement_source is MemorySource.GNU_TIME
    assert record.peak_rss_kib is not None
    assert record.peak_rss_kib > 1000
    assert record.executed_command[:2] == ("time", "-v")
    assert record.command[0] == "llama-bench"


def test_conditions_are_null_with_a_reason_where_nobody_looked(tmp_path: Path) -> None:
    plan = fake_plan(tmp_path, matrix=cases(64, threads=(1,)), repetitions=1, warmup_runs=0)
    run_matrix(plan, tmp_path / "run", AROUND._replace(sample=None), ignore, FRESH)
    (record,) = records(tmp_path)
    assert record.before is None
    assert {"before", "after"} <= set(record.reasons)


def test_the_fake_program_is_deterministic(tmp_path: Path) -> None:
    executor = fake_executor(tmp_path)
    (case,) = cases(64, threads=(1,))
    outputs = {executor.run(executor.command("m", case), 30.0).stdout for _ in range(2)}
    assert len(outputs) == 1
