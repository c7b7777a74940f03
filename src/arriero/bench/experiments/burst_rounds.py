"""What both experiments on bursts have in common: configuration, rounds in which the sides take turns, their table."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median as fmedian
from typing import Any, Final

import msgspec

from arriero.bench.client_loop import run as run_on_loop
from arriero.bench.experiments.burst_load import BurstRun, BurstShape, burst_of, pooled
from arriero.bench.experiments.burst_sides import BARE, BurstSetting, serve_burst
from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.experiment import Statement, Table, Tell, Value
from arriero.bench.experiments.failed_cells import FailedCells
from arriero.bench.experiments.prefix_reuse_figures import counters
from arriero.bench.experiments.samples import (
    NS_PER_MS,
    http_label,
    in_process_label,
    median,
    ratio,
    rounded,
    samples,
    spread,
)
from arriero.bench.experiments.served import model_facts
from arriero.bench.experiments.sides import NO_PEER, OURS, THEIRS, check_peer
from arriero.metrics.client_life import Outcome as End
from arriero.metrics.distribution import FEWEST_FOR_P99
from arriero.metrics.paired import compare_pairs
from arriero.record.strict import Count, Positive

FIRST_SHARE: Final = 0.25
"""TTFT p99 as a share of llama-server's."""


class BurstLab(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is run.

    Attributes:
        peer: path of llama-server; None: it is left out.
        peer_flags, flags: further flags of it, and of our own server.
        rounds: bursts of each side; the sides take turns in going first.
        slots, slot_tokens: of either server.
        threads: compute threads of each side; 0: every CPU.
        seed: of the tokens.
    """

    model: ModelSettings
    peer: str | None = None
    peer_flags: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    burst: BurstShape
    rounds: Positive
    slots: Positive
    slot_tokens: Positive
    threads: Count
    seed: int

    def setting(self) -> BurstSetting:
        """The same for one side.

        Raises:
            ConfigError: the burst cannot be made.
        """
        self.burst.check()
        return BurstSetting(
            model=self.model,
            shape=self.burst,
            slots=self.slots,
            slot_tokens=self.slot_tokens,
            threads=self.threads,
            flags=self.flags,
            peer=self.peer,
            peer_flags=self.peer_flags,
        )


def measure(config: BurstLab, sides: Sequence[str], failed: FailedCells, tell: Tell) -> list[BurstRun]:
    """Every round of every side whose server served.

    Raises:
        ConfigError: the peer or the model cannot be had.
    """
    check_peer(config.peer, config.model)
    return run_on_loop(_measure(config, sides, failed, tell))


async def _measure(config: BurstLab, sides: Sequence[str], failed: FailedCells, tell: Tell) -> list[BurstRun]:
    setting = config.setting()
    runs: list[BurstRun] = []
    for number in range(config.rounds):
        burst = burst_of(config.burst, number, config.seed)
        for side in _turns(sides, number):
            cell = f"round {number + 1} of {config.rounds}, {side}"
            tell(cell)
            with failed.losing(cell):
                runs.append(await serve_burst(setting, side, number, burst))
    return runs


def _turns(sides: Sequence[str], number: int) -> list[str]:
    """Each round begins with the next side; every second one goes the other way round."""
    first = number // 2 % len(sides)
    turned = [*sides[first:], *sides[:first]]
    return turned if number % 2 == 0 else turned[::-1]


def sides_of(config: BurstLab, *, with_bare: bool) -> list[str]:
    """Those that can be run."""
    return [OURS, *([THEIRS] if config.peer is not None else []), *([BARE] if with_bare else [])]


def facts_of(config: BurstLab, runs: Sequence[BurstRun], failed: FailedCells) -> dict[str, Any]:
    """What was used."""
    build = next((run.build for run in runs if run.build), None)
    return {
        **model_facts(config.model),
        "threads": config.threads,
        "ideal_prompt_rows": config.burst.ideal_rows,
        "peer_build": build,
        **failed.facts,
    }


# ── statements ──────────────────────────────────────────────────────────────────────────────────────────────────────


def sound(runs: Sequence[BurstRun], failed: FailedCells) -> Iterator[Statement]:
    """That figures may be believed."""
    yield failed.statement()
    bad = sum(life.outcome is not End.LENGTH for run in runs for life in run.lives)
    yield Statement.equal("requests that failed, were rejected or ended early", bad, 0)
    yield Statement.equal("rounds with incomplete records", sum(bool(run.problems) for run in runs), 0)


def first_share(runs: Sequence[BurstRun]) -> Statement:
    """TTFT p99 of ours, over that of llama-server, both over all rounds."""
    text, bound = "TTFT p99 / llama-server's, rounds pooled", f"at most {FIRST_SHARE:g}"
    theirs = pooled(runs, THEIRS)
    if not theirs:
        return Statement.undecided(text, bound, NO_PEER)
    ours = pooled(runs, OURS)
    if min(len(ours), len(theirs)) < FEWEST_FOR_P99:
        reason = f"{len(ours)} and {len(theirs)} samples; a p99 needs {FEWEST_FOR_P99}"
        return Statement.undecided(text, bound, reason)
    return Statement.at_most(text, rounded(ratio(samples(ours).p99, samples(theirs).p99)), FIRST_SHARE)


def speed_share(runs: Sequence[BurstRun], base: str, least: float, *, why_not: str) -> Statement:
    """Tokens a second of ours over those of another side, median of the rounds' ratios."""
    text = f"output tok/s / {base}'s, median over rounds"
    found = ratios(runs, base)
    if not found:
        return Statement.undecided(text, f"at least {least:g}", why_not)
    return Statement.at_least(text, rounded(fmedian(found)), least)


def ratios(runs: Sequence[BurstRun], base: str) -> list[float]:
    """Tokens a second of ours over those of another side, of the rounds that both have."""
    return [b / a for a, b in _pairs(runs, base)]


def _pairs(runs: Sequence[BurstRun], base: str) -> list[tuple[float, float]]:
    by_key = {(run.side, run.round): run.tokens_per_s for run in runs}
    pairs = [(by_key.get((base, number)), speed) for (side, number), speed in by_key.items() if side == OURS]
    return [(a, b) for a, b in pairs if a and b]


# ── the table ───────────────────────────────────────────────────────────────────────────────────────────────────────


def tables(config: BurstLab, runs: Sequence[BurstRun], sides: Sequence[str]) -> tuple[Table, ...]:
    """Servers, the bare loop apart since its figures are taken elsewhere, and our own counters."""
    servers = [side for side in sides if side != BARE]
    found = [_table(config, runs, servers, "Bursts over HTTP", is_http=True)]
    if BARE in sides:
        found.append(_table(config, runs, [BARE], "The same bursts by a bare loop", is_http=False))
    totals: Counter[str] = Counter()
    for run in runs:
        totals.update(counters(run.cache))
    if totals:
        rows = tuple((name, totals[name]) for name in sorted(totals) if totals[name])
        title = "Our own counters, over all rounds"
        found.append(Table(title=title, label=http_label(config.model), heads=("counter", "total"), rows=rows))
    return tuple(found)


def _table(config: BurstLab, runs: Sequence[BurstRun], sides: Sequence[str], title: str, *, is_http: bool) -> Table:
    return Table(
        title=title,
        label=(http_label if is_http else in_process_label)(config.model),
        heads=(
            "side", "bursts", "requests", "tok/s", "rounds", "ours / this, median", "interval", "TTFT p50, ms",
            "TTFT p95, ms", "TTFT p99, ms", "TTFT max, ms", "prompt rows", "ideal",
        ),
        rows=tuple(_row(config, runs, side) for side in sides),
        note=(
            f"{config.burst.requests} requests of {config.burst.prefix_tokens} common and {config.burst.own_tokens} "
            f"own tokens, {config.burst.budget} out, {config.burst.clients} clients. A fresh server and a new prefix "
            "each round: its first request is a cold one, and counted. No p99 of fewer than 100 requests."
        ),
    )  # fmt: skip


def _row(config: BurstLab, runs: Sequence[BurstRun], side: str) -> tuple[Value, ...]:
    chosen = [run for run in runs if run.side == side]
    speeds = [run.tokens_per_s for run in chosen]
    firsts = samples(pooled(runs, side), NS_PER_MS)
    pairs = [] if side == OURS else _pairs(runs, side)
    found = compare_pairs(pairs, floor=None, seed=config.seed, higher_is_better=True) if pairs else None
    rows = [run.prefill_rows for run in chosen if run.prefill_rows is not None]
    return (
        side,
        len(chosen),
        firsts.n,
        rounded(median(each for each in speeds if each is not None)),
        spread(speeds),
        None if found is None else rounded(found.median_ratio),
        "" if found is None or found.low is None else f"{found.low:.3g} ... {found.high:.3g}",
        *map(rounded, (firsts.p50, firsts.p95, firsts.p99, firsts.most)),
        f"{min(rows)} ... {max(rows)}" if rows else None,
        config.burst.ideal_rows,
    )
