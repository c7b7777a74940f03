"""Goodput: how many requests a second are answered within an objective for the first token and one for every gap.

Short and long requests arrive by chance and wait for nobody, at several shares of a capacity that is measured first:
what our server serves in a closed loop with all of its slots busy. Every side gets the same arrivals.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from arriero.bench.client_loop import run as run_on_loop
from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.experiment import Experiment, Outcome, Statement, Table, Tell, Value
from arriero.bench.experiments.failed_cells import FailedCells
from arriero.bench.experiments.goodput_load import GoodputCell, Mix, Objectives, asks_of, schedule_of
from arriero.bench.experiments.samples import NS_PER_MS, http_label, median, ratio, rounded, spread
from arriero.bench.experiments.served import model_facts
from arriero.bench.experiments.sides import NO_PEER, OURS, THEIRS, check_peer
from arriero.bench.experiments.tuned import (
    Bed,
    Profile,
    Tuned,
    itl_target_of,
    peer_sides,
    profile_for,
    share_out,
    tuned_server,
    turns,
)
from arriero.bench.runner import LOOK_S, LiveDriver
from arriero.bench.runner_points import Rules, measure
from arriero.bench.servers_commands import split_words
from arriero.metrics.client_figures import Distribution
from arriero.metrics.client_life import Outcome as End
from arriero.record.strict import Count, Positive

BETTER: Final = 1.5
"""Goodput at its best rate over llama-server's."""

_EXPECTED: Final = frozenset({End.LENGTH, End.STOP, End.REJECTED})


class GoodputLab(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is run.

    Attributes:
        peer: path of llama-server; None: it is left out.
        peer_flags, flags: further flags of it, and of our own server.
        peer_settings: flags of llama-server, a side for each; empty text: its defaults.
        settings: flags of our own server, a side for each; the first one is judged.
        mix: what is asked.
        objectives: what a good answer keeps.
        capacity_requests: of the closed loop that measures the capacity.
        shares: rates, as shares of it.
        seconds: of arrivals, in each cell.
        rounds: of each side at each rate.
        slots, slot_tokens: of either server.
        backlog: requests that may wait at ours; llama-server lets all wait.
        threads: compute threads of either; 0: every CPU.
        calibrate_s: how long the cost profile of our server is measured before; 0 takes the one that was kept.
        seed: of prompts and arrivals.
    """

    model: ModelSettings
    peer: str | None = None
    peer_flags: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    peer_settings: tuple[str, ...]
    settings: Annotated[tuple[str, ...], Meta(min_length=1)]
    mix: Mix
    objectives: Objectives
    capacity_requests: Positive
    shares: Annotated[tuple[Annotated[float, Meta(gt=0, le=10)], ...], Meta(min_length=1)]
    seconds: Annotated[float, Meta(gt=0, le=3600)]
    rounds: Positive
    slots: Positive
    slot_tokens: Positive
    backlog: Count
    threads: Count
    calibrate_s: Annotated[float, Meta(ge=0, le=600)]
    seed: int


class _Measured(NamedTuple):
    cells: list[GoodputCell]
    capacity: float | None  # requests a second
    profile: Profile


def run(config: GoodputLab, tell: Tell) -> Outcome:
    """Measure and judge."""
    config.mix.check()
    check_peer(config.peer, config.model)
    facts = model_facts(config.model)
    failed = FailedCells()
    cells, capacity, profile = run_on_loop(_measure(config, failed, tell))
    build = next((each.build for each in cells if each.build), None)
    return Outcome(
        statements=tuple(judge(config, cells, failed)),
        tables=(table(config, cells),),
        limits=(
            "Client and server share the machine.",
            "Requests that end after the last arrival are in the latencies and not in the goodput of their cell.",
        ),
        facts={
            **facts,
            "threads": config.threads,
            "capacity_per_s": rounded(capacity),
            "peer_build": build,
            **profile.facts,
            **failed.facts,
        },
        raw={"cells.jsonl": b"".join(msgspec.json.encode(each) + b"\n" for each in cells)},
    )


def sides_of(config: GoodputLab) -> list[Tuned]:
    """Those that can be run; the one that is judged first.

    Raises:
        ConfigError: a quote in a setting is left open.
    """
    ours = [
        Tuned(name=f"{OURS} {each}".strip(), is_ours=True, flags=split_words(each, "settings"))
        for each in config.settings
    ]
    return [*ours, *peer_sides(config.peer, config.peer_settings, config.peer_flags)]


async def _measure(config: GoodputLab, failed: FailedCells, tell: Tell) -> _Measured:
    """The capacity, then every cell whose server served; without a capacity there are none."""
    sides = sides_of(config)
    bed = Bed(
        model=config.model,
        peer=config.peer,
        slots=config.slots,
        slot_tokens=config.slot_tokens,
        backlog=config.backlog,
        threads=config.threads,
    )
    capacity: float | None = None
    target = itl_target_of(sides[0])
    async with profile_for(bed, config.calibrate_s, tell, itl_target_ms=target) as profile:
        steered = replace(bed, flags=(*config.flags, *profile.flags))
        tell("capacity")
        with failed.losing("capacity"):
            capacity = await _capacity(config, steered, sides[0])
        cells = await _cells(config, steered, sides, capacity, failed, tell) if capacity else []
        return _Measured(cells, capacity, profile)


async def _cells(
    config: GoodputLab, bed: Bed, sides: Sequence[Tuned], capacity: float, failed: FailedCells, tell: Tell
) -> list[GoodputCell]:
    cells: list[GoodputCell] = []
    for number, share in product(range(config.rounds), config.shares):
        for side in turns(sides, number):
            cell = f"round {number + 1} of {config.rounds}, {share:g} of the capacity, {side.name}"
            tell(cell)
            with failed.losing(cell):
                cells.append(await _cell(config, bed, side, share, share * capacity, number))
    return cells


async def _capacity(config: GoodputLab, bed: Bed, side: Tuned) -> float | None:
    """Requests a second of a closed loop with as many clients as slots."""
    asks = list(islice(asks_of(config.mix, "capacity", config.seed), config.capacity_requests))
    warm_up = list(islice(asks_of(config.mix, "capacity-warm-up", config.seed), config.slots))
    async with tuned_server(bed, side) as server:
        await share_out(server.target, config.slots, warm_up)
        lives = await share_out(server.target, config.slots, asks)
        await server.end(lives)
    sent = [life.sent_at for life in lives if life.sent_at is not None]
    closed = [life.closed_at for life in lives if life.closed_at is not None]
    seconds = (max(closed) - min(sent)) / 1e9 if sent and closed else 0.0
    return ratio(sum(life.outcome.is_normal for life in lives), seconds)


async def _cell(config: GoodputLab, bed: Bed, side: Tuned, share: float, rate_per_s: float, number: int) -> GoodputCell:
    name = f"{number}-{share:g}"
    schedule = schedule_of(config.mix, rate_per_s=rate_per_s, seconds=config.seconds, name=name, seed=config.seed)
    warm_up = list(islice(asks_of(config.mix, f"warm-up-{name}", config.seed), config.slots))
    async with tuned_server(bed, side) as server:
        await share_out(server.target, config.slots, warm_up)
        look_s = LOOK_S if config.model.backend == "llama" else 0.0
        driver = LiveDriver(server.target, server_pids=server.pids, look_s=look_s)
        came = await driver.run(schedule)  # the target is closed with the server
        problems = await server.end(came.came.lives)
    point = measure(came, Rules(slos=config.objectives.slos))
    return GoodputCell(side=side.name, share=share, round=number, point=point, problems=problems, build=server.build)


# ── statements ──────────────────────────────────────────────────────────────────────────────────────────────────────


def judge(config: GoodputLab, cells: Sequence[GoodputCell], failed: FailedCells) -> Iterator[Statement]:
    """The acceptance statements."""
    yield failed.statement()
    bad = sum(life.outcome not in _EXPECTED for each in cells for life in each.point.lives)
    yield Statement.equal("requests that neither ended well nor were rejected", bad, 0)
    yield Statement.equal("cells with incomplete records", sum(bool(each.problems) for each in cells), 0)
    yield Statement.equal("cells whose generator was late", sum(not each.is_valid for each in cells), 0)
    text = f"goodput at its best rate / {THEIRS}'s at its best rate and setting"
    judged = sides_of(config)[0].name
    ours = max(_levels(cells, lambda name: name == judged), default=None)
    theirs = max(_levels(cells, lambda name: name.startswith(THEIRS)), default=None)
    if theirs is None:
        reason = NO_PEER if config.peer is None else f"no cell of {THEIRS} was measured"
        yield Statement.undecided(text, f"at least {BETTER:g}", reason)
    elif ours is None or not theirs:
        reason = "no cell of ours was measured" if ours is None else f"{THEIRS} answered nothing within the objectives"
        yield Statement.undecided(text, f"at least {BETTER:g}", reason)
    else:
        yield Statement.at_least(text, rounded(ratio(ours, theirs)), BETTER)


def _levels(cells: Sequence[GoodputCell], is_meant: Callable[[str], bool]) -> list[float]:
    """Goodput of each side that is meant at each rate, median over rounds."""
    keys = dict.fromkeys((each.side, each.share) for each in cells if is_meant(each.side))
    found = (goodput(cells, side, share) for side, share in keys)
    return [each for each in found if each is not None]


def goodput(cells: Sequence[GoodputCell], side: str, share: float) -> float | None:
    """Good requests a second of a side at a rate, median over rounds; None without a valid cell."""
    chosen = (each.good_per_s for each in cells if (each.side, each.share) == (side, share))
    return median(each for each in chosen if each is not None)


# ── the table ───────────────────────────────────────────────────────────────────────────────────────────────────────


def table(config: GoodputLab, cells: Sequence[GoodputCell]) -> Table:
    """Every side at every rate."""
    objectives = config.objectives
    keys = dict.fromkeys((each.side, each.share) for each in cells)
    return Table(
        title="Goodput of a mixed load that waits for nobody",
        label=http_label(config.model),
        heads=(
            "side", "rate / capacity", "requests", "good/s", "rounds' good/s", "good / submitted", "served",
            "TTFT p50, ms", "TTFT p95, ms", "ITL p50, ms", "ITL p99, ms", "longest gap p95, ms", "validity",
        ),
        rows=tuple(_row(cells, side, share) for side, share in sorted(keys, key=lambda key: key[1])),
        note=(
            f"Good: first token within {objectives.ttft_ms} ms of when it was due, no gap above {objectives.gap_ms} ms."
            f" {config.seconds:g} s of arrivals, {config.rounds} rounds, a fresh server for each cell. Latencies are "
            "those of requests that ended well, each figure the median over rounds; the share served is of those due."
        ),
    )  # fmt: skip


def _row(cells: Sequence[GoodputCell], side: str, share: float) -> tuple[Value, ...]:
    chosen = [each for each in cells if (each.side, each.share) == (side, share)]
    kept = [each.point.summary.attainment for each in chosen]
    tables = [each.point.summary.latency.finished for each in chosen]
    return (
        side,
        share,
        sum(each.point.summary.counts.submitted for each in chosen),
        rounded(goodput(cells, side, share)),
        spread([each.good_per_s for each in chosen]),
        rounded(median(each.of_submitted for each in kept if each is not None and each.of_submitted is not None)),
        rounded(median(each.served_fraction for each in kept if each is not None and each.served_fraction is not None)),
        _ms([each.ttft_ns for each in tables], "p50"),
        _ms([each.ttft_ns for each in tables], "p95"),
        _ms([each.itl_ns for each in tables], "p50"),
        _ms([each.itl_ns for each in tables], "p99"),
        _ms([each.itl_max_ns for each in tables], "p95"),
        ", ".join(dict.fromkeys(each.point.validity.flag.value for each in chosen)),
    )


def _ms(found: Sequence[Distribution | None], name: str) -> float | None:
    """A figure of each round, median over rounds, in milliseconds."""
    values: list[float | None] = [None if each is None else getattr(each, name) for each in found]
    return rounded(ratio(median(value for value in values if value is not None), NS_PER_MS))


EXPERIMENT: Final = Experiment(
    name="goodput",
    number="",
    decides="How many requests of a mixed load are answered within objectives for first token and gaps?",
    metric="requests a second that kept both objectives, at the best rate",
    comparison="arriero and llama-server with several batches, the same arrivals, fresh each cell, taking turns",
    difference="1.5 x llama-server at its best rate and setting",
    config=GoodputLab,
    run=run,
)
