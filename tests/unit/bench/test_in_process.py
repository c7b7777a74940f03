import asyncio
import gc
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.bench.ask import Ask
from arriero.bench.in_process import InProcessTarget
from arriero.bench.loops_answers import Answers
from arriero.bench.runner import LiveDriver
from arriero.bench.schedule_arrivals import ClosedLoop
from arriero.bench.schedule_making import AskOptions, ScheduleOptions, make_schedule
from arriero.bench.schedule_work import fixed_work
from arriero.core.errors import ConfigError
from arriero.engine.engine import Engine
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated, Placement, Shared
from arriero.metrics.client_life import Outcome
from arriero.workload.settings import Vocabulary


@asynccontextmanager
async def target(
    placement: Placement,
    *,
    options: EngineOptions | None = None,
    on_answer: Callable[..., None] | None = None,
    step_s: float = 0,
) -> AsyncGenerator[InProcessTarget]:
    shape = SyntheticOptions(num_sequences=2, num_rows=64, num_cells=512, base_s=step_s, per_row_s=0)
    backend = SyntheticBackend(shape)
    engine = Engine(backend, options)
    engine.start(placement)
    made = InProcessTarget(engine, on_answer=on_answer)
    try:
        yield made
    finally:
        await made.close()
        engine.shutdown()
        engine.cancel_all()
        await engine.wait_closed()
        backend.close()


def ask(name: str, tokens: int = 6, output: int = 5, **more: object) -> Ask:
    fields = {"ignore_eos": True, "temperature": 0}
    return Ask(request_id=name, prompt=tuple(range(1, tokens + 1)), max_tokens=output, fields=fields, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("placement", [Dedicated(), Shared()])
async def test_a_life_has_every_token_and_counts_them(placement: Placement) -> None:
    said: dict[str, tuple[int, ...]] = {}
    async with target(placement, on_answer=said.__setitem__) as asked:
        life = await asked.ask(ask("a"), intended_at=1)
    assert (life.outcome, life.error, life.intended_at) == (Outcome.LENGTH, None, 1)
    assert sum(life.chunk_tokens) == life.num_tokens == life.asked_tokens == 5
    assert len(life.chunk_at) == len(life.chunk_tokens)
    assert (life.asked_prompt_tokens, life.prompt_tokens) == (6, 6)
    assert life.sent_at is not None
    assert life.closed_at is not None
    assert [life.sent_at, *life.chunk_at, life.closed_at] == sorted([life.sent_at, *life.chunk_at, life.closed_at])
    assert len(said["a"]) == 5


async def test_refusals_and_mistakes_have_words() -> None:
    async with target(Dedicated(), options=EngineOptions(backlog=0)) as asked:
        lives = await asyncio.gather(*(asked.ask(ask(f"r{number}", output=50), None) for number in range(5)))
        long = await asked.ask(ask("long", tokens=600), None)
    assert [life.outcome for life in lives].count(Outcome.REJECTED) == 3
    assert {life.error for life in lives} == {None, "queue_full"}
    assert (long.outcome, long.error) == (Outcome.ERROR, "context_too_long")


async def test_a_planned_cancel_is_an_outcome_of_its_own() -> None:
    async with target(Dedicated(), step_s=0.002) as asked:  # slow enough for a cancel to come in time
        life = await asked.ask(ask("a", output=200, cancel_after=3), None)
        early = await asked.ask(ask("b", output=200, cancel_after=0), None)
    assert (life.outcome, early.outcome) == (Outcome.CANCELLED_BY_CLIENT, Outcome.CANCELLED_BY_CLIENT)
    assert 3 <= sum(life.chunk_tokens) < 200


async def test_giving_up_returns_the_lives_so_far_at_once() -> None:
    backend = SyntheticBackend(SyntheticOptions(num_sequences=1, num_rows=64, num_cells=512, base_s=0, per_row_s=0))
    engine = Engine(backend)  # not started: it never answers
    asked = InProcessTarget(engine)
    asking = asyncio.ensure_future(asked.ask(ask("a"), None))
    await asyncio.sleep(0)
    asked.give_up("drain_limit")
    life = await asking
    assert (life.outcome, life.error, life.chunk_at) == (Outcome.TIMEOUT, "drain_limit", ())
    engine.start(Shared())
    engine.shutdown()
    await engine.wait_closed()
    backend.close()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (Ask(request_id="a", prompt="text", max_tokens=1), "--prompts tokens"),
        (Ask(request_id="a", prompt=(1,), max_tokens=1, fields={"top_k": 3}), "top_k"),
        (Ask(request_id="a", prompt=(1,), max_tokens=1, fields={"temperature": 1}), "temperature"),
    ],
)
async def test_what_an_engine_cannot_be_asked_is_misuse(wrong: Ask, says: str) -> None:
    async with target(Dedicated()) as asked:
        with pytest.raises(ConfigError, match=says):
            await asked.ask(wrong, None)


async def test_a_whole_schedule_runs_and_nothing_is_lost() -> None:
    of = fixed_work(prompt_tokens=12, max_tokens=8, count=40)
    options = AskOptions(vocabulary=Vocabulary(first_token=1, size=64), ignore_eos=True, cancel_rate=0.2)
    schedule = make_schedule(of, ScheduleOptions(loop=ClosedLoop(num_clients=6), asks=options))
    async with target(Dedicated()) as asked:
        run = await LiveDriver(asked, "in-process", answers=Answers(), look_s=None).run(schedule)
    assert len(run.came.lives) == 40
    assert {life.outcome for life in run.came.lives} <= {Outcome.LENGTH, Outcome.CANCELLED_BY_CLIENT}
    assert gc.isenabled()
