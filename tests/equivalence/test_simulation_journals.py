"""Journals of counted runs: both presets and arriero's own mode, replayed decision by decision, and as workloads."""

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.cli.main import main
from arriero.core.errors import BadJournal, DataError, ReplayDiverged
from arriero.metrics.mixed_decode import MixedCost, MixedPolicy, MixedRequest
from arriero.record.journal_reader import read_lines
from arriero.record.journal_schema import StartRecord, StepRecord
from arriero.record.lab_config import LabConfig
from arriero.record.lab_rows import IterationRow, LabRow, RequestRow
from arriero.record.simulation_config import SimulationConfig
from arriero.sim.journal import SimulationJournal
from arriero.sim.journal_workload import import_journal
from arriero.sim.replay import ReplayReport, replay
from arriero.sim.runs import run_mixed_decode, run_serving_lab, run_simulation
from arriero.workload.records import WorkloadRecord, numbered
from tests.equivalence.lab_worlds import config as lab_config
from tests.equivalence.lab_worlds import record, worlds
from tests.equivalence.test_jump import own_worlds
from tests.unit.record.lab_files import published
from tests.unit.record.test_journal import sealed


def replayed(lines: Sequence[bytes]) -> ReplayReport:
    report = replay(read_lines(lines), check=True)
    assert (report.runs, report.unfinished) == (1, 0)
    return report


def journal_of(run: Callable[..., Iterator[object]], *words: Any, **more: Any) -> tuple[list[bytes], list[Any]]:  # noqa: ANN401
    """The lines of a run's journal, and its rows."""
    lines: list[bytes] = []
    rows = list(run(*words, journal=SimulationJournal(lines.append), **more))
    return lines, rows


@given(worlds(), st.booleans())
def test_a_run_of_the_published_lab_is_replayed(
    world: tuple[LabConfig, list[WorkloadRecord]],
    with_iterations: bool,  # noqa: FBT001 - drawn
) -> None:
    config, records = world
    try:
        lines, rows = journal_of(run_serving_lab, config, records, with_iterations=with_iterations)
    except DataError:  # the run is refused
        return
    num_requests = replayed(lines).requests
    # Whoever would come after a stalled plan never comes.
    assert num_requests == len(records) or (num_requests < len(records) and rows[-1].run_status == "stalled")
    assert rows == list(run_serving_lab(config, records, with_iterations=with_iterations))


@given(own_worlds(), st.booleans())
def test_a_run_of_our_own_is_replayed(
    world: tuple[SimulationConfig, list[WorkloadRecord]],
    is_traced: bool,  # noqa: FBT001 - drawn
) -> None:
    config, records = world
    config = config if is_traced else msgspec.structs.replace(config, trace="off")
    lines, rows = journal_of(run_simulation, config, records)
    assert replayed(lines).requests == len(records)
    assert rows == list(run_simulation(config, records))


@pytest.mark.parametrize("policy", MixedPolicy)
def test_a_run_of_rows_and_slots_is_replayed_in_float_milliseconds(policy: MixedPolicy) -> None:
    rng = random.Random(policy.value)
    requests = [
        MixedRequest(i, rng.choice([0.0, rng.uniform(0, 90)]), rng.randint(1, 40), rng.randint(1, 12), "any")
        for i in range(30)
    ]
    lines: list[bytes] = []
    cost = MixedCost(stream_emit=0.1)
    found = run_mixed_decode(
        policy, requests, num_slots=4, n_batch=16, cost=cost, journal=SimulationJournal(lines.append)
    )
    assert found == run_mixed_decode(policy, requests, num_slots=4, n_batch=16, cost=cost)
    assert replayed(lines).requests == 30
    assert b'"time_line":"float_ms"' in lines[0]


def test_equal_steps_that_were_taken_in_one_are_one_record() -> None:
    asks = [record("a", 0, 4, 50), record("b", 100_000, 4, 3)]
    lines, rows = journal_of(run_serving_lab, lab_config(), asks)
    outcomes = [line.record.outcome for line in read_lines(lines) if isinstance(line.record, StepRecord)]
    assert sum(outcome.times for outcome in outcomes if outcome is not None) == 55  # 2 prompts, 53 tokens
    assert sum(isinstance(row, IterationRow) and bool(row.scheduled_sequences) for row in rows) == 55
    assert len(lines) < 12


def test_a_decision_of_a_preset_that_differs_is_named() -> None:
    lines, _ = journal_of(run_serving_lab, lab_config(total_blocks=8), [record("a", 0, [1] * 8, 9)] * 1)
    records = [line.record for line in read_lines(lines)]
    start = records[0]
    assert isinstance(start, StartRecord)
    limits = msgspec.structs.replace(start.setup.limits, num_rows=5)
    records[0] = msgspec.structs.replace(start, setup=msgspec.structs.replace(start.setup, limits=limits))
    with pytest.raises(ReplayDiverged, match=r"line 2: step 1: plan\.rows"):
        replay(read_lines(sealed(records)))


def test_parts_that_do_not_go_together_are_refused() -> None:
    lines, _ = journal_of(run_serving_lab, lab_config(), [record("a", 0, 4, 2)])
    other = [line.replace(b'"ids":{"kind":"request_ids"}', b'"ids":{"kind":"lowest_first"}') for line in lines]
    records = [msgspec.structs.replace(each, crc=0) for each in decoded(other)]
    with pytest.raises(BadJournal, match="sequences have the ids of their requests in blocks"):
        replay(read_lines(sealed(records)))


def decoded(lines: list[bytes]) -> list[Any]:
    from arriero.record.journal_schema import JournalRecord

    return [msgspec.json.decode(line, type=JournalRecord) for line in lines]


@given(worlds())
def test_a_workload_made_of_a_journal_runs_as_the_recorded_one(
    tmp_path_factory: pytest.TempPathFactory, world: tuple[LabConfig, list[WorkloadRecord]]
) -> None:
    config, records = world
    try:
        lines, rows = journal_of(run_serving_lab, config, records)
    except DataError:
        return
    path = tmp_path_factory.mktemp("journal") / "j.jsonl"
    path.write_bytes(b"".join(lines))
    imported = import_journal(path)
    first = min((each.arrival_time_us for each in records), default=0)
    is_cached = config.prefix_cache.enabled and config.execution_mode == "continuous_batching"
    for one, other in zip(imported, numbered(records), strict=False):  # nobody comes after a stalled plan
        assert one.arrival_time_us == other.arrival_time_us - first
        assert one.prompt_token_count == other.prompt_token_count
        assert one.max_new_tokens == other.max_new_tokens
        assert (one.prompt_tokens is None) == (other.prompt_tokens is None or not is_cached)
    if not first and len(imported) == len(records):  # else the idle time at the beginning is another
        assert [decision(row) for row in run_serving_lab(config, imported)] == [decision(row) for row in rows]


def decision(row: LabRow) -> LabRow:
    """A row without what a journal does not keep: names and tokens."""
    if isinstance(row, RequestRow):
        return msgspec.structs.replace(
            row, request_id="x", prompt_tokens=None, metadata={}, prefix_group=None, deadline_us=None,
            workload_class="mixed",
        )  # fmt: skip
    assert isinstance(row, IterationRow) or row.record_type == "summary"
    return row


def test_the_command_line_writes_and_replays_them(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    known = published(shared_data, "mixed_overload")
    words = ["--config", str(known.config_path), "--workload", str(known.workload_path), "--out", "f.jsonl"]
    assert main(["sim", "run", "--preset", "serving-lab", *words, "--journal", "j.jsonl"]) == 0
    assert Path("f.jsonl").read_bytes().split(b"\n", 1)[1] == known.path.read_bytes().split(b"\n", 1)[1]
    mixed = ["sim", "mixed-decode", "--workload", "M", "--policy", "static_batching", "--journal"]
    assert main([*mixed, "m.jsonl"]) == 0
    capsys.readouterr()
    assert main(["sim", "replay", "j.jsonl"]) == 0
    assert "identical: 1 runs, 28 steps, 12 requests" in capsys.readouterr().out
    assert main(["sim", "replay", "m.jsonl", "--check"]) == 0
    assert main(["workload", "import", "journal", "j.jsonl", "--out", "w.jsonl"]) == 0
    assert main(["workload", "import", "journal", "m.jsonl", "--out", "v.jsonl"]) == 2
    for again in ([*words, "--force", "--journal", "j.jsonl"], [*words, "--force", "--journal", "./f.jsonl"]):
        arguments = [word for word in again if word != "--force"] if again[-1] == "j.jsonl" else again
        assert main(["sim", "run", "--preset", "serving-lab", *arguments]) == 2
    assert main(["sim", "mixed-decode", "--journal", "n.jsonl"]) == 2
    assert "name one --workload and one --policy" in capsys.readouterr().err
