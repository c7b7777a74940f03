"""A busy process beside a server: what is left of its speed, and whether yielding threads to it pays.

The compute threads of a server wait for one another hundreds of times a step. Where one of them has to share its CPU
with somebody else, all of them wait for its turn. Our server with and without threads that yield, and llama-server;
each quiet and beside one busy process, which comes first taking turns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median as fmedian
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from arriero.bench.client_loop import run as run_on_loop
from arriero.bench.experiments.busy_neighbour_load import NeighbourLoad, NeighbourRun, State, serve_both
from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.experiment import Experiment, Outcome, Statement, Table, Tell, Value
from arriero.bench.experiments.failed_cells import FailedCells
from arriero.bench.experiments.samples import http_label, median, ratio, rounded, spread
from arriero.bench.experiments.served import model_facts
from arriero.bench.experiments.sides import NO_PEER, OURS, THEIRS, check_peer
from arriero.bench.experiments.tuned import Bed, Profile, Tuned, gaps, peer_sides, profile_for, sound, turns
from arriero.record.strict import Count, Positive

AGAINST_PEER: Final = 3.0
"""Output tokens a second beside the neighbour, over llama-server's."""

AGAINST_FIXED: Final = 1.0
"""The same over our own without threads that yield."""

LEAST_CORES: Final = 0.2
"""CPUs that the neighbour has to have had; with fewer it was no neighbour."""

YIELDS: Final = f"{OURS}, adapts threads"
FIXED: Final = f"{OURS}, fixed threads"


class BusyBeside(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is run.

    Attributes:
        peer: path of llama-server; None: it is left out.
        peer_flags, flags: further flags of it, and of our own server.
        load: what is sent, quiet and beside the neighbour alike.
        rounds: of each side.
        slots, slot_tokens: of either server.
        threads: compute threads of either; 0: every CPU.
        calibrate_s: how long the cost profile of our server is measured before; 0 takes the one that was kept.
        seed: of the prompts.
    """

    model: ModelSettings
    peer: str | None = None
    peer_flags: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    load: NeighbourLoad
    rounds: Positive
    slots: Positive
    slot_tokens: Positive
    threads: Count
    calibrate_s: Annotated[float, Meta(ge=0, le=600)]
    seed: int


class _Measured(NamedTuple):
    runs: list[NeighbourRun]
    profile: Profile


def run(config: BusyBeside, tell: Tell) -> Outcome:
    """Measure and judge."""
    check_peer(config.peer, config.model)
    facts = model_facts(config.model)
    failed = FailedCells()
    runs, profile = run_on_loop(_measure(config, failed, tell))
    build = next((each.build for each in runs if each.build), None)
    return Outcome(
        statements=tuple(judge(config, runs, failed)),
        tables=(table(config, runs),),
        limits=(
            "Client and server share the machine, so the neighbour slows the client down as well.",
            "The neighbour computes and touches no memory; one that fills caches would cost more.",
        ),
        facts={**facts, "threads": config.threads, "peer_build": build, **profile.facts, **failed.facts},
        raw={"runs.jsonl": b"".join(msgspec.json.encode(each) + b"\n" for each in runs)},
    )


def sides_of(config: BusyBeside) -> list[Tuned]:
    """Those that can be run."""
    return [
        Tuned(name=YIELDS, is_ours=True, flags=("--adapt-threads",)),
        Tuned(name=FIXED, is_ours=True, flags=("--no-adapt-threads",)),
        *peer_sides(config.peer, ("",), config.peer_flags),
    ]


async def _measure(config: BusyBeside, failed: FailedCells, tell: Tell) -> _Measured:
    """Every round of every side whose server served."""
    sides = sides_of(config)
    bed = Bed(
        model=config.model,
        peer=config.peer,
        slots=config.slots,
        slot_tokens=config.slot_tokens,
        backlog=config.load.clients,
        threads=config.threads,
    )
    async with profile_for(bed, config.calibrate_s, tell) as profile:
        steered = replace(bed, flags=(*config.flags, *profile.flags))
        return _Measured(await _rounds(config, steered, sides, failed, tell), profile)


async def _rounds(
    config: BusyBeside, bed: Bed, sides: Sequence[Tuned], failed: FailedCells, tell: Tell
) -> list[NeighbourRun]:
    runs: list[NeighbourRun] = []
    for number in range(config.rounds):
        for side in turns(sides, number):
            cell = f"round {number + 1} of {config.rounds}, {side.name}"
            tell(cell)
            with failed.losing(cell):
                runs += await serve_both(bed, side, config.load, number, config.seed)
    return runs


# ── statements ──────────────────────────────────────────────────────────────────────────────────────────────────────


def judge(config: BusyBeside, runs: Sequence[NeighbourRun], failed: FailedCells) -> Iterator[Statement]:
    """The acceptance statements."""
    yield from sound([life for each in runs for life in each.lives], [each.problems for each in runs], failed)
    cores = [each.cores for each in runs if each.state is State.BESIDE]
    text = "CPUs that the neighbour had, where it had least"
    if not cores or None in cores:
        yield Statement.undecided(text, f"at least {LEAST_CORES:g}", "this system does not say")
    else:
        yield Statement.at_least(text, rounded(min(each for each in cores if each is not None)), LEAST_CORES)
    text = f"beside the neighbour: output tok/s / {THEIRS}'s, median over rounds"
    found = ratios(runs, YIELDS, THEIRS, State.BESIDE)
    if not found:
        reason = NO_PEER if config.peer is None else "no round of both was measured"
        yield Statement.undecided(text, f"at least {AGAINST_PEER:g}", reason)
    else:
        yield Statement.at_least(text, rounded(fmedian(found)), AGAINST_PEER)
    text = "beside the neighbour: output tok/s / our own with fixed threads, median over rounds"
    found = ratios(runs, YIELDS, FIXED, State.BESIDE)
    yield Statement.at_least(text, rounded(fmedian(found)) if found else None, AGAINST_FIXED)


def ratios(runs: Sequence[NeighbourRun], side: str, base: str, state: State) -> list[float]:
    """Tokens a second of a side over another's, of the rounds that both have."""
    speeds = {(each.side, each.round): each.tokens_per_s for each in runs if each.state is state}
    rounds = [number for name, number in speeds if name == side]
    found = (ratio(speeds[side, number], speeds.get((base, number))) for number in rounds)
    return [each for each in found if each is not None]


def left(runs: Sequence[NeighbourRun], side: str) -> list[float]:
    """Tokens a second beside the neighbour over those of the same server when it was quiet, round by round."""
    speeds = {(each.state, each.round): each.tokens_per_s for each in runs if each.side == side}
    rounds = [number for state, number in speeds if state is State.BESIDE]
    found = (ratio(speeds[State.BESIDE, number], speeds.get((State.QUIET, number))) for number in rounds)
    return [each for each in found if each is not None]


# ── the table ───────────────────────────────────────────────────────────────────────────────────────────────────────


def table(config: BusyBeside, runs: Sequence[NeighbourRun]) -> Table:
    """Every side, quiet and beside the neighbour."""
    load = config.load
    return Table(
        title="A busy process beside a server",
        label=http_label(config.model),
        heads=(
            "side", "state", "rounds", "tok/s", "rounds' tok/s", "/ quiet, median", f"/ {THEIRS}, median",
            "ITL p50, ms", "ITL p99, ms", "ITL max, ms", "neighbour's CPUs", "threads at the end",
        ),
        rows=tuple(
            _row(runs, side, state)
            for side in dict.fromkeys(each.side for each in runs)
            for state in (State.QUIET, State.BESIDE)
        ),
        note=(
            f"{load.clients} clients, {load.requests} requests of {load.prompt_tokens} prompt and {load.budget} output "
            "tokens in each state; the neighbour comes with the first request, so what it takes to notice is counted."
        ),
    )  # fmt: skip


def _row(runs: Sequence[NeighbourRun], side: str, state: State) -> tuple[Value, ...]:
    chosen = [each for each in runs if each.side == side and each.state is state]
    speeds = [each.tokens_per_s for each in chosen]
    between = gaps([life for each in chosen for life in each.lives])
    shares = left(runs, side) if state is State.BESIDE else []
    against = [] if side == THEIRS else ratios(runs, side, THEIRS, state)
    return (
        side,
        str(state),
        len(chosen),
        rounded(median(each for each in speeds if each is not None)),
        spread(speeds),
        rounded(fmedian(shares)) if shares else None,
        rounded(fmedian(against)) if against else None,
        *map(rounded, (between.p50, between.p99, between.most)),
        rounded(median(each.cores for each in chosen if each.cores is not None)),
        median(each.threads for each in chosen if each.threads is not None),
    )


EXPERIMENT: Final = Experiment(
    name="busy-neighbour",
    number="",
    decides="What is left of a server's speed beside one busy process, and does yielding threads to it pay?",
    metric="output tokens a second",
    comparison="arriero with and without --adapt-threads, and llama-server, each quiet and beside a busy process",
    difference="3 x llama-server, no less than with fixed threads",
    config=BusyBeside,
    run=run,
)
