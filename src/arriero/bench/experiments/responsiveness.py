"""E1: how soon the control plane reacts, in process, in three placements.

    queued cancel   a request that can never be admitted is cancelled while the engine sleeps
    fan-out         several streams are submitted together onto idle slots, each read by a thread of its own

Engines of all placements take turns, in an order that changes from round to round, each on a fresh context.
"""

import random
from collections.abc import Sequence
from typing import Final

import msgspec

from arriero.bench.client_loop import run as run_on_loop
from arriero.bench.experiments.contexts import ModelSettings, ModelSource, open_model
from arriero.bench.experiments.experiment import Experiment, Outcome, Tell
from arriero.bench.experiments.placements import PlacementRefused, PlacementWord, last_cpu
from arriero.bench.experiments.responsiveness_figures import Rounds, cancel_tables, fan_out_table, judge
from arriero.bench.experiments.responsiveness_rounds import Bench, CancelRound, FanOutRound, cancel_round, fan_out_round
from arriero.record.strict import Name, Positive


class Responsiveness(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is run.

    Attributes:
        prompt: of every request.
        positions: KV positions of one sequence.
        batch_rows: rows of one decode call.
        threads: compute threads, the same in every placement; a pinned engine has one CPU, hence 1.
        rounds: fresh engines for each placement.
        cancels: cancels of a waiting request in each round.
        fewest_cancels: of each placement, without which "no hang" says too little.
        fan_outs: trials of streams in each round.
        streams: submitted together.
        budget: tokens of each of them.
        yardstick_tokens: of the request alone whose decode calls give the model's decode step.
        hang_s: a trial that takes longer hangs.
        seed: of the order of placements.
    """

    model: ModelSettings
    prompt: Name
    positions: Positive
    batch_rows: Positive
    threads: Positive
    placements: tuple[PlacementWord, ...]
    rounds: Positive
    cancels: Positive
    fewest_cancels: Positive
    fan_outs: Positive
    streams: Positive
    budget: Positive
    yardstick_tokens: Positive
    hang_s: Positive
    seed: int


def run(config: Responsiveness, tell: Tell) -> Outcome:
    """Measure and judge."""
    with open_model(config.model) as source:
        rounds = run_on_loop(_rounds(config, source, tell))
        facts = {**source.facts(), "threads": config.threads}
    if "pinned" in rounds.placements:
        facts["pinned_to"] = last_cpu()
    return Outcome(
        statements=judge(rounds, config.fewest_cancels),
        tables=(*cancel_tables(rounds, config.model), fan_out_table(rounds, config.model)),
        limits=_limits(config, rounds),
        facts=facts,
        raw={"cancels.jsonl": _lines(rounds.cancels), "fan_outs.jsonl": _lines(rounds.fan_outs)},
    )


async def _rounds(config: Responsiveness, source: ModelSource, tell: Tell) -> Rounds:
    bench = Bench(
        source=source,
        prompt=tuple(source.vocabulary.encode(config.prompt, add_special=True, parse_special=False)),
        budget=config.budget,
        positions=config.positions,
        num_rows=config.batch_rows,
        threads=config.threads,
        limit_s=config.hang_s,
    )
    rounds = Rounds(placements=list(dict.fromkeys(config.placements)))
    order = random.Random(config.seed)
    for number in range(config.rounds):
        for placement in order.sample(rounds.placements, len(rounds.placements)):
            tell(f"round {number + 1} of {config.rounds}, {placement}")
            try:
                rounds.cancels.append(await cancel_round(bench, placement, config.cancels))
                rounds.fan_outs.append(
                    await fan_out_round(bench, placement, config.fan_outs, config.streams, config.yardstick_tokens)
                )
            except PlacementRefused as error:
                rounds.refused[placement] = str(error)
        rounds.placements = [each for each in rounds.placements if each not in rounds.refused]
    return rounds


def _limits(config: Responsiveness, rounds: Rounds) -> tuple[str, ...]:
    return (
        "One machine, one model, one prompt; absolute times are context, ratios are what carries over.",
        "The published callers were tasks of one runtime; here a wake-up between threads is part of every figure.",
        "The future is judged where it is set; when its caller goes on depends on the interpreter's lock and is told.",
        f"All placements compute with {config.threads} thread(s), since a pinned engine has one CPU.",
        *(f"The placement {word} could not be had: {reason}" for word, reason in rounds.refused.items()),
    )


def _lines(rounds: Sequence[CancelRound | FanOutRound]) -> bytes:
    """One JSON line a round."""
    return b"".join(msgspec.json.encode(each, enc_hook=str) + b"\n" for each in rounds)


EXPERIMENT: Final = Experiment(
    name="responsiveness",
    number="E1",
    decides="Does a queued cancel resolve at once in every placement, and does a thread of its own serve the engine?",
    metric="p95 of the time from a cancel to its result being set, as a share of the median decode step",
    comparison="placements, on fresh engines in an order that changes from round to round",
    difference="1 % of the median decode step of the same model; between placements only ratios are reported",
    config=Responsiveness,
    run=run,
)
