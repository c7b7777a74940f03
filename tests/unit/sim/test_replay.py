"""Replay: journals of live engines repeat every decision; a decision that differs is named with both values."""

import asyncio
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from arriero.backend.protocol import Backend
from arriero.backend.synthetic import SyntheticOptions
from arriero.backend.synthetic_memory import SyntheticStore
from arriero.core.errors import ArrieroError, BadJournal, ReplayDiverged
from arriero.core.events import CopySequence, DropSequence, RetainedAction, TrimSequence
from arriero.core.plan import Row
from arriero.core.request import CancelReason, SamplingParams
from arriero.engine.engine import Engine
from arriero.engine.observer import StepRecord
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated, Placement, Shared
from arriero.kv.reuse import ReuseRules
from arriero.record import journal_schema
from arriero.record.journal import JournalLines
from arriero.record.journal_parts import AnswerRow, FailureRow, PromptShape, SubmitRow, Trimmed
from arriero.record.journal_reader import read_lines
from arriero.record.journal_schema import EndRecord, GapRecord, TimeLine
from arriero.scheduler.draft import PrefillBudget
from arriero.sim.replay import ReplayReport, replay, replay_journal
from arriero.sim.simulator import Submission
from arriero.testing.fakes import FaultyBackend, ScriptedBackend
from arriero.testing.faults import BlockedCall, FailedCall, FailedRequest, FailedSampler, Fault, NoPlace, RefusedOp
from tests.unit.engine.driving import LIMIT_S
from tests.unit.engine.journals import AtEachStep, JournalFile, engine_with_journal
from tests.unit.record.test_journal import MESSAGES, SETUP, journal, request, resealed, sealed

PLACEMENTS = pytest.mark.parametrize("placement", [Dedicated(), Shared()], ids=["dedicated", "shared"])
END_TOKENS = frozenset({257})
SCRIPT = {number: [*range(number % 7), *([257] if number % 3 else [])] for number in range(1, 1010)}
UNIFIED = SyntheticOptions(num_sequences=5, num_rows=24, num_cells=80, unified=True)
SEPARATE = SyntheticOptions(num_sequences=5, num_rows=24, micro_batch=8, num_cells=5 * 64)


# ── journals of the live engine ─────────────────────────────────────────────────────────────────────────────────────


CALM = 1000
"""Requests from this id on are cancelled by nobody."""


class Crowd:
    """Threads that submit and cancel as fast as they can, and an observer that cancels who runs."""

    def __init__(self, seed: int, num_threads: int = 3, num_requests: int = 40, *, scopes: int = 1) -> None:
        self._rng = random.Random(seed)
        self._scopes = [None, *map(str, range(scopes))]
        self._seeds = [self._rng.random() for _ in range(num_threads)]
        self._num_requests = num_requests
        self.engine: Engine | None = None

    def cancel_somebody(self, record: StepRecord) -> None:
        """At one step in four, cancel one of those in the batch; called where the engine runs."""
        requests = [row.request for row in record.plan.rows if row.request.request_id < CALM]
        if self.engine is not None and requests and self._rng.random() < 0.25:
            request = self._rng.choice(requests)
            if self._rng.random() < 0.5:
                self.engine.cancel(request.request_id, CancelReason.DISCONNECT)
            else:
                self.engine.cancel_submission(request.request_id, request.epoch)

    def work(self, engine: Engine) -> None:
        """Everything, from several threads; returns when all were submitted."""
        threads = [threading.Thread(target=self._one, args=(engine, seed)) for seed in self._seeds]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _one(self, engine: Engine, seed: float) -> None:
        rng = random.Random(seed)
        system = [rng.randrange(200) for _ in range(6)]
        for _ in range(self._num_requests):
            handle = engine.submit(
                [*system[: rng.randint(1, 6)], *(rng.randrange(200) for _ in range(rng.randint(0, 9)))],
                rng.randint(1, 30),
                request_id=rng.randint(1, 300) if rng.random() < 0.2 else None,
                sampling=SamplingParams(temperature=0.5, seed=1) if rng.random() < 0.3 else SamplingParams(),
                min_tokens=rng.randint(0, 1),
                timeout_ms=rng.randint(0, 3) if rng.random() < 0.1 else None,
                cache_scope=rng.choice(self._scopes),
            )
            if rng.random() < 0.2:
                handle.cancel()
            if rng.random() < 0.1:
                engine.cancel(rng.randint(1, 300), CancelReason.STOP)  # early, late, twice, or somebody else's


def run_crowd(
    backend: Backend,
    options: EngineOptions,
    placement: Placement,
    seed: int,
    tend: Sequence[RetainedAction] = (),
) -> list[bytes]:
    """The journal of a crowd on an engine in this placement; at its end the retained runs are tended."""
    crowd = Crowd(seed)
    engine, journal_file = engine_with_journal(backend, options, [AtEachStep(crowd.cancel_somebody)])
    crowd.engine = engine

    async def main() -> None:
        engine.start(placement)
        async with asyncio.timeout(LIMIT_S):
            for number in range(4):
                sampling = SamplingParams(temperature=1, seed=2) if number == 2 else SamplingParams()
                engine.submit([1, 2, 3], 12, request_id=CALM + number, sampling=sampling)
            await asyncio.to_thread(crowd.work, engine)
            for action in tend:
                await engine.ask_retained(action)
            engine.shutdown()
            summary = await engine.wait_closed()
        assert summary.crashed is None

    asyncio.run(main())
    return journal_file.lines()


def check_replay(lines: list[bytes]) -> ReplayReport:
    report = replay(read_lines(lines), check=True)
    assert (report.runs, report.unfinished) == (1, 0)
    return report


@PLACEMENTS
@pytest.mark.parametrize("memory", [UNIFIED, SEPARATE], ids=["unified", "separate"])
def test_a_crowd_with_cancels_and_faults_is_replayed(placement: Placement, memory: SyntheticOptions) -> None:
    faults: list[Fault] = [
        FailedRequest(CALM),
        FailedSampler(CALM + 2),
        FailedCall(30, 31),
        NoPlace(12, 55),
        RefusedOp(DropSequence, 3, times=2),
        RefusedOp(TrimSequence, 1, times=4),
    ]
    backend = FaultyBackend(ScriptedBackend(SCRIPT, options=memory), *faults)
    lines = run_crowd(backend, EngineOptions(budget=PrefillBudget(None, 9)), placement, seed=1)
    report = check_replay(lines)
    assert report.requests == 124
    text = b"".join(lines)
    for word in (b"cancel_observed", b"sampler_failed", b"decode_failed", b"no_room", b'"drop"', b'"stop"'):
        assert word in text


@PLACEMENTS
def test_exact_mode_and_published_pools_are_replayed(placement: Placement) -> None:
    backend = ScriptedBackend(SCRIPT, options=SEPARATE)
    check_replay(run_crowd(backend, EngineOptions(exact=True, published_pools=True), placement, seed=2))


REUSE = ReuseRules(host_tokens=200, min_restored=2)


@PLACEMENTS
@pytest.mark.parametrize("memory", [UNIFIED, SEPARATE], ids=["unified", "separate"])
def test_a_crowd_that_reuses_prefixes_is_replayed_with_every_hit(
    placement: Placement, memory: SyntheticOptions
) -> None:
    store = SyntheticStore()
    options = EngineOptions(budget=PrefillBudget(None, 9), retained=2, reuse=REUSE)
    faults: list[Fault] = [
        FailedRequest(CALM),
        NoPlace(12, 55),
        RefusedOp(CopySequence, 1, times=1),
        RefusedOp(TrimSequence, 1, times=4),
    ]
    text = b""
    for seed in range(2):  # the second one finds what the first one has saved
        backend = FaultyBackend(ScriptedBackend(SCRIPT, options=memory, store=store), *faults)
        actions = (RetainedAction.SAVE, RetainedAction.RESTORE, *([RetainedAction.ERASE] if seed else []))
        lines = run_crowd(backend, options, placement, seed, actions)
        check_replay(lines)
        text += b"".join(lines)
    for word in (b"reused", b"running", b"copy", b"save", b"answers", b"adopted", b"retained", b"erase"):
        assert b'"%s"' % word in text, f"never seen: {word!r}"


@PLACEMENTS
def test_exact_mode_and_sessions_are_replayed(placement: Placement) -> None:
    for number, options in enumerate((
        EngineOptions(exact=True, reuse=ReuseRules(keeps_answers=False, min_suffix=2)),
        EngineOptions(retained=1, reuse=ReuseRules(per_session=True, min_partial=2)),
    )):
        check_replay(run_crowd(ScriptedBackend(SCRIPT, options=SEPARATE), options, placement, seed=3 + number))


def test_runs_of_the_host_store_are_described_without_their_tokens() -> None:
    store = SyntheticStore()
    options = EngineOptions(retained=1, reuse=REUSE, keep_alive=False)
    lines: list[bytes] = []
    for _ in range(2):
        engine, journal_file = engine_with_journal(ScriptedBackend(SCRIPT, options=UNIFIED, store=store), options)
        for number in range(2):
            engine.submit([71, 72, 73, 74 + number], 3, end_tokens=frozenset(), cache_scope="a secret")
        engine.start(Dedicated())
        engine.join(LIMIT_S)
        lines = journal_file.lines()
        check_replay(lines)
    start = next(read_lines(lines)).record
    assert isinstance(start, journal_schema.StartRecord)
    assert [(row.key, row.scope, row.shape) for row in start.adopted] == [
        (1, 0, PromptShape(None, 0, 6)),
        (2, 0, PromptShape(1, 3, 3)),
    ]
    assert b"secret" not in b"".join(lines)


@PLACEMENTS
def test_preloaded_requests_and_those_given_up_at_the_end_are_replayed(placement: Placement) -> None:
    memory = SyntheticOptions(num_sequences=2, num_rows=24, num_cells=128)
    backend = ScriptedBackend(SCRIPT, options=memory)
    engine, journal_file = engine_with_journal(backend, EngineOptions(published_pools=False, keep_alive=False))

    async def main() -> None:
        for number in range(2):
            engine.submit([1] * (3 + number), 4, preloaded=True)
        waiting = engine.submit([1, 2], 3)  # slots of preloaded requests are not used again
        engine.start(placement)
        await engine.wait_closed()
        await waiting.result()

    asyncio.run(main())
    lines = journal_file.lines()
    check_replay(lines)
    end = list(read_lines(lines))[-1].record
    assert isinstance(end, EndRecord)
    assert end.given_up_at is not None
    assert b'"aborted"' in lines[-1]


@PLACEMENTS
def test_a_crash_leaves_a_journal_that_replays_up_to_it(placement: Placement) -> None:
    class Crash(Fault):
        def before_decode(self, call: int, rows: Sequence[Row]) -> None:
            if call == 3:
                raise ZeroDivisionError(f"a secret of {len(rows)} rows")

    backend = FaultyBackend(ScriptedBackend(SCRIPT), Crash())
    engine, journal_file = engine_with_journal(backend, EngineOptions())

    async def main() -> None:
        engine.start(placement)
        handle = engine.submit([1, 2], 20, end_tokens=frozenset())
        with pytest.raises(ArrieroError):
            await handle.result()
        await engine.wait_closed()

    asyncio.run(main())
    lines = journal_file.lines()
    assert check_replay(lines).steps >= 3
    end = list(read_lines(lines))[-1].record
    assert isinstance(end, EndRecord)
    assert end.crashed == "ZeroDivisionError"


def test_a_journal_whose_writer_fell_behind_says_so_and_is_refused() -> None:
    blocked = BlockedCall(4)
    backend = FaultyBackend(ScriptedBackend(options=SEPARATE), blocked)
    journal_file = JournalFile(backend, EngineOptions(), capacity=2)
    reached, release = threading.Event(), threading.Event()

    def stall() -> tuple[bytes, ...]:
        reached.set()
        assert release.wait(LIMIT_S)
        return ()

    engine = Engine(backend, EngineOptions(), observers=[journal_file.observer])
    engine.start(Dedicated())
    handle = engine.submit([1, 2, 3], 20, end_tokens=frozenset())
    assert blocked.entered.wait(LIMIT_S)
    journal_file.put(stall)
    assert reached.wait(LIMIT_S)
    blocked.release.set()
    handle.wait(LIMIT_S)
    release.set()
    engine.shutdown()
    engine.join(LIMIT_S)
    lines = journal_file.lines()
    gaps = [line for line in read_lines(lines) if isinstance(line.record, GapRecord)]
    assert gaps
    with pytest.raises(BadJournal, match="records are missing here, so nothing that follows can be replayed") as error:
        replay(read_lines(lines))
    assert error.value.line == gaps[0].number


def test_a_step_that_cannot_be_written_leaves_a_gap() -> None:
    backend = ScriptedBackend(SCRIPT, options=SEPARATE)
    engine, journal_file = engine_with_journal(backend, EngineOptions(keep_alive=False))
    journal_file.break_once()
    engine.submit([1, 2, 3], 4, end_tokens=frozenset())
    engine.start(Dedicated())
    engine.join(LIMIT_S)
    records = [line.record for line in read_lines(journal_file.lines())]
    assert sum(isinstance(record, GapRecord) and record.dropped == 1 for record in records) == 1
    assert isinstance(records[-1], EndRecord)


# ── decisions that differ ───────────────────────────────────────────────────────────────────────────────────────────


def diverged(lines: list[bytes]) -> ReplayDiverged:
    with pytest.raises(ReplayDiverged) as error:
        replay(read_lines(lines))
    return error.value


def find_step(
    lines: list[bytes], wanted: Callable[[journal_schema.StepRecord], object]
) -> tuple[int, journal_schema.StepRecord]:
    """The first step like this, and its line."""
    for number, record in read_lines(lines):
        if isinstance(record, journal_schema.StepRecord) and wanted(record):
            return number, record
    raise AssertionError(lines)


def test_a_simulated_journal_is_replayed() -> None:
    report = replay(read_lines(journal()))
    assert report == ReplayReport(runs=1, steps=len(journal()) - 2, requests=5, cancels=1, unfinished=0)


def test_the_first_decision_that_differs_is_named_with_both_values() -> None:
    lines = journal()
    limits = msgspec.structs.replace(SETUP.limits, num_rows=2)
    error = diverged(resealed(lines, 1, setup=msgspec.structs.replace(SETUP, limits=limits)))
    step = next(
        line
        for line in read_lines(lines)
        if isinstance(line.record, journal_schema.StepRecord) and line.record.plan.rows
    )
    assert isinstance(step.record, journal_schema.StepRecord)
    assert error.line is not None
    assert error.line >= step.number
    place = f"line {error.line}: step {error.step}: {error.field}"
    assert str(error) == f"{place}: recorded {error.recorded}, replayed {error.replayed}"


def test_a_row_that_differs_is_named_by_its_place() -> None:
    lines = journal()
    number, record = find_step(lines, lambda step: step.plan.rows)
    row = record.plan.rows[0]
    rows = (msgspec.structs.replace(row, start=row.start + 5), *record.plan.rows[1:])
    plan = msgspec.structs.replace(record.plan, rows=rows)
    error = diverged(resealed(lines, number, plan=plan))
    assert (error.step, error.field) == (record.plan.step, "plan.rows[0].start")
    assert (error.recorded, error.replayed) == (str(row.start + 5), str(row.start))


@pytest.mark.parametrize("more", [True, False])
def test_an_event_too_many_or_too_few_is_named(more: bool) -> None:  # noqa: FBT001 - a table
    lines = journal()
    number, record = find_step(lines, lambda step: step.events)
    events = record.events
    error = diverged(resealed(lines, number, events=(*events, Trimmed(0, 3)) if more else events[:-1]))
    assert error.field == f"events[{len(events) if more else len(events) - 1}]"
    assert "nothing" in {error.recorded, error.replayed}
    assert '["trim",0,3]' in {error.recorded, error.replayed} or not more


# ── journals that cannot have been ──────────────────────────────────────────────────────────────────────────────────


def refused(lines: list[bytes]) -> str:
    with pytest.raises(BadJournal) as error:
        replay(read_lines(lines))
    assert str(error.value).startswith(f"line {error.value.line}: ")
    return str(error.value)


def first_submission(lines: list[bytes]) -> tuple[int, journal_schema.StepRecord, SubmitRow]:
    number, record = find_step(lines, lambda step: step.messages)
    message = record.messages[0]
    assert isinstance(message, SubmitRow), MESSAGES
    return number, record, message


def test_a_prompt_that_shares_with_nobody_is_refused() -> None:
    lines = journal()
    number, record, message = first_submission(lines)
    shape = msgspec.structs.replace(message.prompt, earlier=9, common=2)
    messages = (msgspec.structs.replace(message, prompt=shape), *record.messages[1:])
    assert "which has no such run" in refused(resealed(lines, number, messages=messages))


def test_an_answer_of_one_who_gave_nothing_back_is_refused() -> None:
    lines = journal()
    number, record = find_step(lines, lambda step: step.events and not step.answers)
    lines = resealed(lines, number, answers=(AnswerRow(9, None, 1, 1),))
    assert "submission 9 gave no sequence back in this step" in refused(lines)
    assert record.answers == ()


def test_an_answer_that_goes_on_as_nobody_did_is_refused() -> None:
    requests = [replace(request(number), end_tokens=frozenset()) for number in range(1, 4)]
    lines = journal([Submission(each) for each in requests])
    number, record = find_step(lines, lambda step: step.answers)
    answer = record.answers[0]
    for changes, says in (({"common": 40}, "which has no such run"), ({"earlier": 2, "common": 1}, "does not go on")):
        answers = (msgspec.structs.replace(answer, **changes), *record.answers[1:])
        assert says in refused(resealed(lines, number, answers=answers))


def test_submissions_out_of_their_count_are_refused() -> None:
    lines = journal()
    number, record, message = first_submission(lines)
    messages = (msgspec.structs.replace(message, number=7), *record.messages[1:])
    assert "submission 7 comes after 0" in refused(resealed(lines, number, messages=messages))


def test_an_outcome_of_a_sequence_that_there_is_not_is_refused() -> None:
    lines = journal()
    number, record = find_step(lines, lambda step: step.outcome)
    assert record.outcome is not None
    failed = msgspec.structs.replace(record.outcome, failures=(FailureRow(9, "x"),))
    assert "sequence 9 of 2 is no sequence id" in refused(resealed(lines, number, outcome=failed))
    ends = msgspec.structs.replace(record.outcome, ends=(1,))
    assert "is said to have got an end token" in refused(resealed(lines, number, outcome=ends))


def test_a_setup_that_cannot_be_is_refused() -> None:
    kv = msgspec.structs.replace(SETUP.kv, num_cells=1)
    message = refused(resealed(journal(), 1, setup=msgspec.structs.replace(SETUP, kv=kv)))
    assert message.startswith("line 1: no scheduler can be built from setup: 1 KV cells")


def test_the_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "j.jsonl"
    file.write_bytes(b"\n".join(journal()) + b"\n")
    assert replay_journal(file, check=True).requests == 5
    file.write_bytes(b"\n".join(journal())[:-40])
    with pytest.raises(BadJournal, match=r"line [0-9]+: damaged") as error:
        replay_journal(file)
    assert error.value.file == str(file)


def test_a_second_run_starts_anew() -> None:
    report = replay(read_lines([*journal()[:-1], *journal()]))
    assert (report.runs, report.unfinished, report.requests) == (2, 1, 10)


def test_a_journal_of_a_start_alone_holds_nothing() -> None:
    lines = [JournalLines().start(SETUP, TimeLine.MICROSECONDS)]
    assert replay(read_lines(lines)) == ReplayReport(runs=1, unfinished=1)
    assert sealed([line.record for line in read_lines(lines)]) == lines
