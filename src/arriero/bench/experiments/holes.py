"""Few busy slots among many: what holes between their ids cost, and what moving into them gains.

In the engine: the same rows on the ids that they had and on contiguous ones, step by step. Over HTTP: against
llama-server, which fills its batch in the order of its slots and leaves holes where they are.
"""

from collections.abc import Iterator, Sequence
from statistics import median as fmedian
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from arriero.bench.client_loop import run as run_on_loop
from arriero.bench.experiments.contexts import ContextShape, ModelSettings, open_model
from arriero.bench.experiments.experiment import Experiment, Outcome, Statement, Table, Tell, Value
from arriero.bench.experiments.failed_cells import FailedCells
from arriero.bench.experiments.holes_engine import EngineRun, run_engine
from arriero.bench.experiments.holes_load import Population, plan_of, send_population, tokens_per_s
from arriero.bench.experiments.samples import http_label, in_process_label, median, ratio, rounded, spread
from arriero.bench.experiments.served import ServeOptions, model_facts, served
from arriero.bench.experiments.sides import (
    NO_PEER,
    OURS,
    THEIRS,
    ServerSize,
    build_of,
    check_peer,
    peer_command,
    peer_served,
)
from arriero.metrics.client_life import ClientLife
from arriero.metrics.client_life import Outcome as End
from arriero.metrics.paired import compare_pairs
from arriero.record.strict import Count, Positive

SLOWER: Final = 1.1
"""Mean step time over that of the same rows on contiguous ids."""

FASTER: Final = 1.3
"""Output tokens a second over llama-server's."""


class Holes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is run.

    Attributes:
        peer: path of llama-server; None: it is left out.
        peer_flags, flags: further flags of it, and of our own server.
        population: what is asked.
        engine_rounds: runs in process, each with holes closed and with holes left.
        http_rounds: runs of each server, which take turns in going first; 0: none.
        slots, slot_tokens: of the engine and of either server.
        threads: compute threads; 0: every CPU.
        seed: of the population.
    """

    model: ModelSettings
    peer: str | None = None
    peer_flags: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    population: Population
    engine_rounds: Positive
    http_rounds: Count
    slots: Positive
    slot_tokens: Positive
    threads: Count
    seed: int


class ServedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One round of one server."""

    server: str
    round: int
    lives: tuple[ClientLife, ...]
    build: str | None = None

    @property
    def tokens_per_s(self) -> float | None:
        """Output tokens over the time of the round."""
        return tokens_per_s(self.lives)


def run(config: Holes, tell: Tell) -> Outcome:
    """Measure and judge."""
    check_peer(config.peer, config.model)
    facts: dict[str, Any] = model_facts(config.model)
    failed = FailedCells()
    runs = _engine_runs(config, tell)
    rounds = run_on_loop(_served_runs(config, failed, tell))
    build = next((each.build for each in rounds if each.build), None)
    return Outcome(
        statements=tuple(judge(config, runs, rounds, failed)),
        tables=(_engine_table(config, runs), *([_served_table(config, rounds)] if rounds else [])),
        limits=(
            "A population of a drawn size stands for arrivals by the clock: the same slots are busy on any machine.",
            "Steps are computed again by themselves: what a scheduler does between two of them is in neither side.",
        ),
        facts={**facts, "threads": config.threads, "peer_build": build, **failed.facts},
        raw={
            "steps.jsonl": b"".join(msgspec.json.encode(each) + b"\n" for each in runs),
            "rounds.jsonl": b"".join(msgspec.json.encode(each) + b"\n" for each in rounds),
        },
    )


def _engine_runs(config: Holes, tell: Tell) -> list[EngineRun]:
    shape = ContextShape(
        num_sequences=config.slots, positions=config.slot_tokens, threads=config.threads or None
    )  # fmt: skip
    runs: list[EngineRun] = []
    with open_model(config.model) as source:
        for number in range(config.engine_rounds):
            plan = plan_of(config.population, config.seed, number)
            for closes in (True, False) if number % 2 == 0 else (False, True):
                tell(f"engine, round {number + 1} of {config.engine_rounds}, holes {'closed' if closes else 'left'}")
                runs.append(run_engine(source, shape, plan, number, closes_holes=closes))
    return runs


async def _served_runs(config: Holes, failed: FailedCells, tell: Tell) -> list[ServedRun]:
    servers = [OURS, *([THEIRS] if config.peer is not None else [])]
    rounds: list[ServedRun] = []
    for number in range(config.http_rounds):
        for server in servers if number % 2 == 0 else servers[::-1]:
            cell = f"round {number + 1} of {config.http_rounds}, {server}"
            tell(cell)
            with failed.losing(cell):
                rounds.append(await (_ours if server == OURS else _theirs)(config, number))
    return rounds


async def _ours(config: Holes, number: int) -> ServedRun:
    options = ServeOptions(
        slots=config.slots,
        slot_tokens=config.slot_tokens,
        backlog=config.slots,
        threads=config.threads,
        reuses=True,
        flags=config.flags,
    )
    async with served(config.model, options) as server:
        lives = await _warm_then(server.target, config, number)
        await server.stop()
    return ServedRun(server=OURS, round=number, lives=lives)


async def _theirs(config: Holes, number: int) -> ServedRun:
    assert config.peer is not None, "its rounds are left out without one"
    command = peer_command(config.peer, config.model, config.peer_flags)
    size = ServerSize(slots=config.slots, slot_tokens=config.slot_tokens, threads=config.threads)
    async with peer_served(command, config.model, size) as server:
        lives = await _warm_then(server.target, config, number)
        build = await build_of(server)
    return ServedRun(server=THEIRS, round=number, lives=lives, build=build)


async def _warm_then(target: Any, config: Holes, number: int) -> tuple[ClientLife, ...]:  # noqa: ANN401 - a target
    """A short population that fills every slot once, then the measured one."""
    short = replace(config.population, requests=config.slots, fewest=config.slots, most=config.slots,
                    output_low=1, output_high=2)  # fmt: skip
    await send_population(target, plan_of(short, config.seed, -1))
    return await send_population(target, plan_of(config.population, config.seed, number))


# ── statements and tables ───────────────────────────────────────────────────────────────────────────────────────────


def judge(
    config: Holes, runs: Sequence[EngineRun], rounds: Sequence[ServedRun], failed: FailedCells
) -> Iterator[Statement]:
    """The acceptance statements."""
    yield failed.statement()
    lives = [life for run in runs for life in run.lives] + [life for each in rounds for life in each.lives]
    bad = sum(life.outcome is not End.LENGTH for life in lives)
    yield Statement.equal("requests that failed, were rejected or ended early", bad, 0)
    closed = [each for run in runs if run.closes_holes for each in [run.against_contiguous] if each is not None]
    text = "mean step time, holes closed / the same rows on contiguous ids, median over rounds"
    yield Statement.at_most(text, rounded(fmedian(closed)) if closed else None, SLOWER)
    text = "output tok/s / llama-server's, median over rounds"
    pairs = _pairs(rounds)
    if config.peer is None or not pairs:
        reason = NO_PEER if config.peer is None else "no round of both was measured"
        yield Statement.undecided(text, f"at least {FASTER:g}", reason)
    else:
        yield Statement.at_least(text, rounded(fmedian(b / a for a, b in pairs)), FASTER)


def _pairs(rounds: Sequence[ServedRun]) -> list[tuple[float, float]]:
    by_key = {(each.server, each.round): each.tokens_per_s for each in rounds}
    pairs = [(by_key.get((THEIRS, number)), speed) for (server, number), speed in by_key.items() if server == OURS]
    return [(a, b) for a, b in pairs if a and b]


def _engine_table(config: Holes, runs: Sequence[EngineRun]) -> Table:
    rows: list[tuple[Value, ...]] = []
    for closes in (True, False):
        chosen = [run for run in runs if run.closes_holes is closes]
        steps = [step for run in chosen for step in run.steps]
        shares = [run.against_contiguous for run in chosen]
        rows.append((
            "closed" if closes else "left",
            len(chosen),
            len(steps),
            rounded(median(each for run in chosen if (each := run.mean_running) is not None)),
            rounded(ratio(sum(step.num_breaks > 0 for step in steps), len(steps))),
            rounded(ratio(sum(step.num_breaks for step in steps), len(steps))),
            sum(run.num_moves for run in chosen),
            rounded(ratio(sum(step.as_recorded for step in steps), 1e6 * len(steps))),
            rounded(ratio(sum(step.contiguous for step in steps), 1e6 * len(steps))),
            rounded(median(each for each in shares if each is not None)),
            spread(shares),
            rounded(ratio(median(each for run in chosen if (each := run.wall_us) is not None), 1e3)),
        ))  # fmt: skip
    return Table(
        title="Steps of an engine with few busy sequences",
        label=in_process_label(config.model),
        heads=(
            "holes", "rounds", "steps", "mean rows", "steps with a hole", "breaks of a step", "moves",
            "step on its ids, ms", "on contiguous ids, ms", "ratio, median", "rounds", "step in the engine, ms",
        ),
        rows=tuple(rows),
        note=(
            f"{config.slots} sequence ids, {config.population.fewest} to {config.population.most} requests under way. "
            "A step on its ids is its KV operations, moves among them, and its decode call; both are computed again, "
            "taking turns."
        ),
    )  # fmt: skip


def _served_table(config: Holes, rounds: Sequence[ServedRun]) -> Table:
    pairs = _pairs(rounds)
    found = compare_pairs(pairs, floor=None, seed=config.seed, higher_is_better=True) if pairs else None
    rows: list[tuple[Value, ...]] = []
    for server in dict.fromkeys(each.server for each in rounds):
        speeds = [each.tokens_per_s for each in rounds if each.server == server]
        is_base = server == THEIRS and found is not None
        rows.append((
            server,
            len(speeds),
            rounded(median(each for each in speeds if each is not None)),
            spread(speeds),
            rounded(found.median_ratio) if is_base and found is not None else None,
            f"{found.low:.3g} ... {found.high:.3g}" if is_base and found is not None and found.low is not None else "",
        ))  # fmt: skip
    return Table(
        title="The same population over HTTP",
        label=http_label(config.model),
        heads=("server", "rounds", "tok/s", "spread", "ours / this, median", "interval"),
        rows=tuple(rows),
    )


EXPERIMENT: Final = Experiment(
    name="holes",
    number="",
    decides="What do holes between the ids of busy sequences cost, and does moving into them pay?",
    metric="mean step time against the same rows on contiguous ids; output tokens a second",
    comparison="each step on its own ids and on contiguous ones, taking turns; arriero and llama-server, taking turns",
    difference="10 % of a step; 1.3 x llama-server",
    config=Holes,
    run=run,
)
