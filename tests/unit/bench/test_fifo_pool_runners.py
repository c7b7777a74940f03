"""Both runners of a pool, and an engine in its place, on the same requests."""

import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from arriero.backend.protocol import Backend
from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.bench.fifo_pool_checks import broken_rules, hashes
from arriero.bench.fifo_pool_engine import run_engine
from arriero.bench.fifo_pool_figures import pool_figures
from arriero.bench.fifo_pool_plan import PoolPlan
from arriero.bench.fifo_pool_request import PoolOutcome
from arriero.bench.fifo_pool_runners import PoolRun, Runner, run_pool
from arriero.core.errors import ConfigError
from arriero.engine.options import EngineOptions
from arriero.testing.fakes import FaultyBackend
from arriero.testing.faults import FailedRequest, Fault

PROMPT = (3, 1, 4, 1, 5, 9)
PLAN = PoolPlan(contexts=2, concurrent=6, requests=20, budgets=(5, 0, 9, 2), prompt=PROMPT)

SIZE = SyntheticOptions(num_sequences=1, num_rows=32, num_cells=64, speaks=tuple(range(256)))


def one() -> SyntheticBackend:
    return SyntheticBackend(SIZE)


def shared(plan: PoolPlan) -> Callable[[], Backend]:
    return lambda: SyntheticBackend(replace(SIZE, num_sequences=plan.contexts, num_cells=64 * plan.contexts))


@pytest.fixture(params=list(Runner))
def runner(request: pytest.FixtureRequest) -> Runner:
    value: Runner = request.param
    return value


def test_every_request_is_served_once_and_no_rule_is_broken(runner: Runner) -> None:
    run = run_pool(runner, PLAN, one)
    assert broken_rules(run) == []
    figures = pool_figures(run)
    assert (figures.ok, figures.cancelled, figures.errors) == (20, 0, {})
    assert (figures.acquires, figures.releases, figures.bypassed) == (15, 15, 5)
    assert figures.decode_calls == 5 * (5 + 9 + 2)
    assert figures.tokens == 5 * (5 + 9 + 2)
    assert run.kv_cells == 128


def test_the_answers_are_those_of_an_engine(runner: Runner) -> None:
    engine = run_engine(PLAN, shared(PLAN), EngineOptions(check=True))
    assert hashes(run_pool(runner, PLAN, one)) == hashes(engine)
    assert broken_rules(engine) == []
    figures = pool_figures(engine)
    assert (figures.ok, figures.bypassed, figures.acquires) == (20, 5, None)
    assert figures.decode_calls < 5 * (5 + 9 + 2)


def test_one_context_serves_one_after_another_in_the_order_of_asking(runner: Runner) -> None:
    plan = PoolPlan(contexts=1, concurrent=4, requests=9, budgets=(4,), prompt=PROMPT)
    run = run_pool(runner, plan, one)
    assert broken_rules(run) == []
    assert run.counts is not None
    assert run.counts.peak == 1
    assert [life.number for life in sorted(run.lives, key=lambda life: life.ended_at)] == list(range(9))


def test_many_clients_on_few_contexts(runner: Runner) -> None:
    plan = PoolPlan(contexts=3, concurrent=64, requests=300, budgets=(3,), prompt=PROMPT)
    run = run_pool(runner, plan, one)
    assert broken_rules(run) == []
    assert pool_figures(run).ok == 300
    assert pool_figures(run).total_ms.p99_ms is not None


def test_more_clients_than_requests(runner: Runner) -> None:
    plan = PoolPlan(contexts=4, concurrent=8, requests=2, budgets=(3,), prompt=PROMPT)
    assert pool_figures(run_pool(runner, plan, one)).ok == 2


def test_cancelled_and_failing_requests_disturb_nobody(runner: Runner) -> None:
    plan = replace(PLAN, cancels=(4, 6, 10), cancel_after=1)
    run = run_pool(runner, plan, lambda: FaultyBackend(one(), FailedRequest(2), FailedRequest(8)))
    assert broken_rules(run) == []
    figures = pool_figures(run)
    assert (figures.cancelled, figures.errors) == (3, {"decode_failed": 2})
    assert figures.acquires == figures.releases
    assert hashes(run) == hashes(run_pool(runner, PLAN, one))
    assert {life.number for life in run.lives if life.outcome is PoolOutcome.CANCELLED} == {4, 6, 10}


def test_sampled_requests_depend_on_the_seed_base_and_their_number_only() -> None:
    plan = replace(PLAN, temperature=0.7, seed_base=40)
    answers = [[life.tokens for life in run_pool(runner, plan, one).lives] for runner in Runner]
    assert answers[0] == answers[1]
    moved = replace(plan, seed_base=44)
    later = [life.tokens for life in run_pool(Runner.THREADS, moved, one).lives]
    assert later[:-4] == answers[0][4:], "request n + 4 had the seed that request n has now"


def test_an_end_token_ends_answers_only_where_it_is_heeded() -> None:
    ends = replace(SIZE, end_tokens=frozenset(range(0, 256, 3)))
    plan = replace(PLAN, budgets=(20,), heeds_end=True)
    lengths = {len(life.tokens) for life in run_pool(Runner.THREADS, plan, lambda: SyntheticBackend(ends)).lives}
    assert lengths != {20}
    run = run_pool(Runner.THREADS, replace(plan, heeds_end=False), lambda: SyntheticBackend(ends))
    assert {len(life.tokens) for life in run.lives} == {20}


class Closing(FaultyBackend):
    """Remembers that it was closed."""

    closed: list[int]

    def close(self) -> None:
        self.closed.append(1)
        super().close()


def test_every_context_is_closed_also_if_one_cannot_be_made(runner: Runner) -> None:
    closed: list[int] = []

    def make() -> Backend:
        if len(made) == 2:
            raise ConfigError("no memory")
        backend = Closing(one())
        backend.closed = closed
        made.append(backend)
        return backend

    made: list[Backend] = []
    run_pool(runner, replace(PLAN, contexts=2), make)
    assert len(closed) == 2
    made.clear()
    closed.clear()
    with pytest.raises(ConfigError):
        run_pool(runner, replace(PLAN, contexts=3), make)
    assert len(closed) == 2


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also where whoever runs the tests has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class PressesCtrlC(Fault):
    """Interrupts the main thread during a call."""

    def before_decode(self, call: int, rows: object) -> None:
        del rows
        if call == 20:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_a_run_before_its_contexts_are_closed(runner: Runner) -> None:
    closed: list[int] = []

    def make() -> Backend:
        backend = Closing(one(), PressesCtrlC())
        backend.closed = closed
        backends.append(backend)
        return backend

    backends: list[Closing] = []
    with pytest.raises(KeyboardInterrupt):
        run_pool(runner, replace(PLAN, requests=1_000_000), make)
    assert len(closed) == 2
    num_calls = [backend.num_calls for backend in backends]
    assert sum(num_calls) < 100_000
    assert [backend.num_calls for backend in backends] == num_calls


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_a_run_of_an_engine() -> None:
    plan = replace(PLAN, requests=1_000_000)
    with pytest.raises(KeyboardInterrupt):
        run_engine(plan, lambda: FaultyBackend(shared(plan)(), PressesCtrlC()))


def test_an_engine_takes_no_cancel_plan() -> None:
    with pytest.raises(ConfigError, match="cancel plan"):
        run_engine(replace(PLAN, cancels=(1,)), shared(PLAN))


def test_a_request_that_fails_in_an_engine_is_an_error_with_its_word() -> None:
    run: PoolRun = run_engine(PLAN, lambda: FaultyBackend(shared(PLAN)(), FailedRequest(2)))
    assert pool_figures(run).errors == {"decode_failed": 1}
    assert broken_rules(run) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"contexts": 0}, "contexts"),
        ({"concurrent": 0}, "concurrent"),
        ({"requests": 0}, "requests"),
        ({"budgets": ()}, "budget plan"),
        ({"budgets": (3, -1)}, "at least 0"),
        ({"prompt": ()}, "prompt"),
        ({"cancel_after": -1}, "cancel_after"),
    ],
)
def test_a_plan_that_cannot_run_is_refused(change: dict[str, object], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        replace(PLAN, **change)  # type: ignore[arg-type]  # that is the point
