"""Requests that arrive at one moment with one long beginning that nobody has computed yet."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from arriero.bench.experiments.burst_load import BurstRun
from arriero.bench.experiments.burst_rounds import BurstLab, facts_of, first_share, measure, sides_of, sound, tables
from arriero.bench.experiments.experiment import Experiment, Outcome, Statement, Tell
from arriero.bench.experiments.failed_cells import FailedCells
from arriero.bench.experiments.sides import OURS
from arriero.core.errors import ConfigError


def run(config: BurstLab, tell: Tell) -> Outcome:
    """Measure and judge.

    Raises:
        ConfigError: not all requests of a burst can be sent, or run, at once.
    """
    if config.burst.clients != config.burst.requests:
        raise ConfigError("burst.clients: a fan-out has as many clients as requests; set both alike")
    failed = FailedCells()
    sides = sides_of(config, with_bare=False)
    runs = measure(config, sides, failed, tell)
    return Outcome(
        statements=tuple(judge(config, runs, failed)),
        tables=tables(config, runs, sides),
        limits=(
            "All requests are sent by one client process, so they arrive within about a millisecond, in any order.",
            "Prompts are random token ids: what they say is nonsense, and no answer is compared.",
        ),
        facts=facts_of(config, runs, failed),
        raw={"bursts.jsonl": b"".join(msgspec.json.encode(each) + b"\n" for each in runs)},
    )


def judge(config: BurstLab, runs: Sequence[BurstRun], failed: FailedCells) -> Iterator[Statement]:
    """The acceptance statements."""
    yield from sound(runs, failed)
    ideal = config.burst.ideal_rows
    rows = [run.prefill_rows for run in runs if run.side == OURS]
    text, bound = "prompt rows of every round: the prefix once, and each own part", f"exactly {ideal}"
    if rows:
        shown = "none" if None in rows else ", ".join(map(str, sorted({each for each in rows if each is not None})))
        yield Statement.so(text, shown, bound, holds=set(rows) == {ideal})
    else:
        yield Statement.undecided(text, bound, "no round was measured")
    yield first_share(runs)


EXPERIMENT: Final = Experiment(
    name="cold-fan-out",
    number="",
    decides="Is a beginning that many requests bring at one moment computed once, and does nobody wait for it long?",
    metric="prompt rows, TTFT p99",
    comparison="arriero and llama-server with its cache on, each fresh for each round, taking turns",
    difference="not one row more than the prefix and the own parts; a quarter of llama-server's TTFT p99",
    config=BurstLab,
    run=run,
)
