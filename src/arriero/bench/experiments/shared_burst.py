"""A burst with one long prefix from a few clients: against llama-server, and against what a loop by hand reaches."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from arriero.bench.experiments.burst_load import BurstRun
from arriero.bench.experiments.burst_rounds import (
    BurstLab,
    facts_of,
    first_share,
    measure,
    sides_of,
    sound,
    speed_share,
    tables,
)
from arriero.bench.experiments.burst_sides import BARE
from arriero.bench.experiments.experiment import Experiment, Outcome, Statement, Tell
from arriero.bench.experiments.failed_cells import FailedCells
from arriero.bench.experiments.samples import rounded
from arriero.bench.experiments.sides import NO_PEER, OURS, THEIRS

AGAINST_PEER: Final = 2.2
AGAINST_BARE: Final = 0.9
EXCESS: Final = 1.02
"""Prompt rows over those of a prefix that is computed once."""


def run(config: BurstLab, tell: Tell) -> Outcome:
    """Measure and judge."""
    failed = FailedCells()
    sides = sides_of(config, with_bare=True)
    runs = measure(config, sides, failed, tell)
    return Outcome(
        statements=tuple(judge(config, runs, failed)),
        tables=tables(config, runs, sides),
        limits=(
            "The bare loop knows the burst beforehand and has all of its requests at once; it runs in this process.",
            "Prompts are random token ids: what they say is nonsense, and no answer is compared.",
        ),
        facts=facts_of(config, runs, failed),
        raw={"bursts.jsonl": b"".join(msgspec.json.encode(each) + b"\n" for each in runs)},
    )


def judge(config: BurstLab, runs: Sequence[BurstRun], failed: FailedCells) -> Iterator[Statement]:
    """The acceptance statements."""
    yield from sound(runs, failed)
    yield speed_share(runs, THEIRS, AGAINST_PEER, why_not=NO_PEER)
    yield speed_share(runs, BARE, AGAINST_BARE, why_not="no round of both was measured")
    yield first_share(runs)
    rows = [run.prefill_rows for run in runs if run.side == OURS and run.prefill_rows is not None]
    most = rounded(max(rows) / config.burst.ideal_rows) if rows else None
    yield Statement.at_most("prompt rows of the worst round / prefix once and own parts", most, EXCESS)


EXPERIMENT: Final = Experiment(
    name="shared-burst",
    number="",
    decides="How much faster is a burst of requests with one long beginning, and how far from the possible?",
    metric="output tokens a second, TTFT p99",
    comparison="arriero, llama-server with its cache on, and a bare loop, each fresh for each round, taking turns",
    difference="2.2 x llama-server, 0.9 of the bare loop, a quarter of llama-server's TTFT p99",
    config=BurstLab,
    run=run,
)
