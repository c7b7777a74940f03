"""Long prompts beside streams: how long the streams wait for a token, and what a bound on that costs.

Our server once with each target for the time between tokens and once without one; llama-server by its defaults and with
smaller and larger batches, which is how it can be told to hold streams up for less long.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median as fmedian
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from arriero.bench.client_loop import run as run_on_loop
from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.experiment import Experiment, Outcome, Statement, Table, Tell, Value
from arriero.bench.experiments.failed_cells import FailedCells
from arriero.bench.experiments.long_prompts_load import LongLoad, LongRun, asks_of, send_beside, warm_up
from arriero.bench.experiments.samples import SAMPLE_HEADS, Samples, http_label, median, ratio, rounded, spread
from arriero.bench.experiments.served import model_facts
from arriero.bench.experiments.sides import NO_PEER, OURS, THEIRS, check_peer
from arriero.bench.experiments.tuned import (
    Bed,
    Profile,
    Tuned,
    gaps,
    itl_target_of,
    peer_sides,
    profile_for,
    sound,
    tuned_server,
    turns,
)
from arriero.metrics.distribution import FEWEST_FOR_P99
from arriero.record.strict import Count, Positive

GAP_SHARE: Final = 0.25
"""ITL p99 of the streams as a share of that of llama-server's fastest setting."""

SLOWER: Final = 1.25
"""Total time over that of llama-server's fastest setting."""

WITHOUT: Final = f"{OURS}, no target"

Seconds = Annotated[float, Meta(ge=0, le=600)]


class LongPrompts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is run.

    Attributes:
        peer: path of llama-server; None: it is left out.
        peer_flags, flags: further flags of it, and of our own server.
        peer_settings: flags of llama-server, a side for each; empty text: its defaults.
        load: what is sent.
        targets_ms: our targets for the time between tokens, a side for each; the first one is judged.
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
    peer_settings: tuple[str, ...]
    load: LongLoad
    targets_ms: Annotated[tuple[Positive, ...], Meta(min_length=1)]
    rounds: Positive
    slots: Positive
    slot_tokens: Positive
    threads: Count
    calibrate_s: Seconds
    seed: int


class _Measured(NamedTuple):
    runs: list[LongRun]
    profile: Profile


def run(config: LongPrompts, tell: Tell) -> Outcome:
    """Measure and judge."""
    config.load.check()
    check_peer(config.peer, config.model)
    facts = model_facts(config.model)
    failed = FailedCells()
    runs, profile = run_on_loop(_measure(config, failed, tell))
    build = next((each.build for each in runs if each.build), None)
    return Outcome(
        statements=tuple(judge(config, runs, failed)),
        tables=(table(config, runs),),
        limits=(
            "Prompts are random token ids: what they say is nonsense, and no answer is compared.",
            "Percentiles pool the gaps of whole streams, those before and after the long prompts included.",
            *(() if config.peer is not None else (NO_PEER[:1].upper() + NO_PEER[1:] + ".",)),
        ),
        facts={**facts, "threads": config.threads, "peer_build": build, **profile.facts, **failed.facts},
        raw={"runs.jsonl": b"".join(msgspec.json.encode(each) + b"\n" for each in runs)},
    )


def target_name(target_ms: int) -> str:
    """Our side with this target."""
    return f"{OURS}, target {target_ms} ms"


def sides_of(config: LongPrompts) -> list[Tuned]:
    """Those that can be run.

    Raises:
        ConfigError: a setting of the peer cannot be read.
    """
    ours = [
        Tuned(name=target_name(each), is_ours=True, flags=("--itl-target", str(each))) for each in config.targets_ms
    ]
    return [
        *ours, Tuned(name=WITHOUT, is_ours=True), *peer_sides(config.peer, config.peer_settings, config.peer_flags)
    ]  # fmt: skip


async def _measure(config: LongPrompts, failed: FailedCells, tell: Tell) -> _Measured:
    """Every round of every side whose server served."""
    sides = sides_of(config)
    bed = Bed(
        model=config.model,
        peer=config.peer,
        slots=config.slots,
        slot_tokens=config.slot_tokens,
        backlog=config.load.num_requests,
        threads=config.threads,
    )
    target = max(map(itl_target_of, sides), default=0)
    async with profile_for(bed, config.calibrate_s, tell, itl_target_ms=target) as profile:
        plain = replace(bed, flags=config.flags)
        beds = {
            side.name: replace(bed, flags=(*config.flags, *profile.flags)) if itl_target_of(side) else plain
            for side in sides
        }
        return _Measured(await _rounds(config, beds, sides, failed, tell), profile)


async def _rounds(
    config: LongPrompts, beds: Mapping[str, Bed], sides: Sequence[Tuned], failed: FailedCells, tell: Tell
) -> list[LongRun]:
    """Sides without a target are served as anybody would start them, without the profile that steers the others."""
    runs: list[LongRun] = []
    for number in range(config.rounds):
        for side in turns(sides, number):
            cell = f"round {number + 1} of {config.rounds}, {side.name}"
            tell(cell)
            with failed.losing(cell):
                runs.append(await _round(config, beds[side.name], side, number))
    return runs


async def _round(config: LongPrompts, bed: Bed, side: Tuned, number: int) -> LongRun:
    asks = asks_of(config.load, number, config.seed)
    async with tuned_server(bed, side) as server:
        await warm_up(server.target, config.load)
        streams, prompts = await send_beside(server.target, config.load, *asks)
        problems = await server.end((*streams, *prompts))
    return LongRun(
        side=side.name, round=number, streams=streams, prompts=prompts, problems=problems, build=server.build
    )


# ── statements ──────────────────────────────────────────────────────────────────────────────────────────────────────


def judge(config: LongPrompts, runs: Sequence[LongRun], failed: FailedCells) -> Iterator[Statement]:
    """The acceptance statements."""
    yield from sound([life for each in runs for life in each.lives], [each.problems for each in runs], failed)
    silent = sum(not each.spoke_before for each in runs)
    yield Statement.equal("rounds in which a stream had no token before the long prompts came", silent, 0)
    judged, target_ms = target_name(config.targets_ms[0]), config.targets_ms[0]
    ours = gaps_of(runs, judged)
    text = f"ITL p99 of the streams at a target of {target_ms} ms"
    if ours.p99 is None:
        yield Statement.undecided(text, f"at most {target_ms} ms", _too_few(ours))
    else:
        yield Statement.at_most(text, rounded(ours.p99), target_ms, " ms")
    yield from _against_peer(config, runs, judged, ours)


def _against_peer(config: LongPrompts, runs: Sequence[LongRun], judged: str, ours: Samples) -> Iterator[Statement]:
    gap_text = f"ITL p99 of the streams / that of {THEIRS} at its fastest"
    time_text = f"total time / that of {THEIRS} at its fastest, median over rounds"
    best = fastest(runs)
    if best is None:
        reason = NO_PEER if config.peer is None else f"no round of {THEIRS} was measured"
        yield Statement.undecided(gap_text, f"at most {GAP_SHARE:g}", reason)
        yield Statement.undecided(time_text, f"at most {SLOWER:g}", reason)
        return
    theirs = gaps_of(runs, best)
    if ours.p99 is None or theirs.p99 is None:
        reason = _too_few(ours if ours.p99 is None else theirs)
        yield Statement.undecided(gap_text, f"at most {GAP_SHARE:g}", reason)
    else:
        yield Statement.at_most(gap_text, rounded(ratio(ours.p99, theirs.p99)), GAP_SHARE)
    yield Statement.at_most(time_text, rounded(time_ratio(runs, judged, best)), SLOWER)


def _too_few(found: Samples) -> str:
    return f"{found.n} gaps; a p99 needs {FEWEST_FOR_P99}"


def gaps_of(runs: Sequence[LongRun], side: str) -> Samples:
    """Milliseconds between the tokens of the streams, all rounds of a side pooled."""
    return gaps([life for each in runs if each.side == side for life in each.streams])


def fastest(runs: Sequence[LongRun]) -> str | None:
    """llama-server's side of the least total time, median over rounds; None without a round of it."""
    names = dict.fromkeys(each.side for each in runs if each.side.startswith(THEIRS))
    times = {name: time for name in names if (time := _median_seconds(runs, name)) is not None}
    return min(times, key=times.__getitem__) if times else None


def _median_seconds(runs: Sequence[LongRun], side: str) -> float | None:
    return median(time for each in runs if each.side == side and (time := each.seconds) is not None)


def time_ratio(runs: Sequence[LongRun], side: str, base: str) -> float | None:
    """Total time of a side over another's, median over the rounds that both have."""
    by_key = {(each.side, each.round): each.seconds for each in runs}
    rounds = [number for name, number in by_key if name == side]
    found = [each for number in rounds if (each := ratio(by_key[side, number], by_key.get((base, number)))) is not None]
    return fmedian(found) if found else None


# ── the table ───────────────────────────────────────────────────────────────────────────────────────────────────────


def table(config: LongPrompts, runs: Sequence[LongRun]) -> Table:
    """Every side: how long its streams waited, and what it took in all."""
    best = fastest(runs)
    load = config.load
    return Table(
        title="Streams beside long prompts",
        label=http_label(config.model),
        heads=(
            "side", "rounds", *(f"gap {head}" if head == "n" else f"ITL {head}, ms" for head in SAMPLE_HEADS),
            "beside", "last prompt's first token, s", "total, s", "rounds' totals", f"total / {THEIRS} at its fastest",
            "total / no target",
        ),
        rows=tuple(_row(runs, side, best) for side in dict.fromkeys(each.side for each in runs)),
        note=(
            f"{load.streams} streams of {load.stream_budget} tokens; after {load.after_s:g} s {load.prompts} prompts of"
            f" {load.prompt_tokens} tokens at once. A fresh server each round. Beside: gaps of one round that ended "
            f"while the prompts were computed, median. {THEIRS} at its fastest: "
            f"{'not run' if best is None else best}."
        ),
    )  # fmt: skip


def _row(runs: Sequence[LongRun], side: str, best: str | None) -> tuple[Value, ...]:
    chosen = [each for each in runs if each.side == side]
    return (
        side,
        len(chosen),
        *gaps_of(runs, side).cells(),
        median(each.num_beside for each in chosen),
        rounded(median(first for each in chosen if (first := each.first_s) is not None)),
        rounded(_median_seconds(runs, side)),
        spread([each.seconds for each in chosen]),
        None if best is None else rounded(time_ratio(runs, side, best)),
        rounded(time_ratio(runs, side, WITHOUT)),
    )


EXPERIMENT: Final = Experiment(
    name="long-prompts",
    number="",
    decides="How long do streams wait beside long prompts, and what does a bound on that cost?",
    metric="ITL p99 of the streams, total time",
    comparison="arriero with targets and without, llama-server with several batches, fresh each round, taking turns",
    difference="the target itself, a quarter of llama-server's ITL p99 at its fastest, 25 % of its total time",
    config=LongPrompts,
    run=run,
)
