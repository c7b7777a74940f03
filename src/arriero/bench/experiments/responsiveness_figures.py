"""What rounds of responsiveness come to: tables and acceptance statements."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.experiment import Statement, Table, Value
from arriero.bench.experiments.placements import PlacementWord
from arriero.bench.experiments.responsiveness_rounds import CancelRound, FanOutRound
from arriero.bench.experiments.responsiveness_trials import FanOutStream
from arriero.bench.experiments.samples import (
    NS_PER_MS,
    NS_PER_US,
    SAMPLE_HEADS,
    Samples,
    in_process_label,
    median,
    ratio,
    rounded,
    samples,
    spread,
    stable,
)
from arriero.core.request import FinishReason

MOST_OF_A_STEP: Final = 0.01
BASE: Final = "dedicated"


@dataclass(slots=True, kw_only=True)
class Rounds:
    """Everything that was measured.

    Attributes:
        placements: those that could be had.
        refused: the others, and why.
    """

    placements: list[PlacementWord]
    refused: dict[PlacementWord, str] = field(default_factory=dict[PlacementWord, str])
    cancels: list[CancelRound] = field(default_factory=list[CancelRound])
    fan_outs: list[FanOutRound] = field(default_factory=list[FanOutRound])

    def cancels_of(self, placement: PlacementWord) -> list[CancelRound]:
        """The rounds of cancels in one placement."""
        return [each for each in self.cancels if each.placement == placement]

    def fan_outs_of(self, placement: PlacementWord) -> list[FanOutRound]:
        """The rounds of streams in one placement."""
        return [each for each in self.fan_outs if each.placement == placement]

    def future(self, placement: PlacementWord) -> Samples:
        """From a cancel to its result being set, microseconds."""
        return samples(chain.from_iterable(map(_futures_ns, self.cancels_of(placement))), NS_PER_US)

    def resumed(self, placement: PlacementWord) -> Samples:
        """From a cancel to its caller going on with the result, microseconds."""
        trials = (trial for each in self.cancels_of(placement) for trial in each.trials)
        return samples((trial.resumed_ns for trial in trials if trial.resumed_ns is not None), NS_PER_US)

    def step_us(self) -> float | None:
        """The median decode call of one request alone, over every placement."""
        return median(us for each in self.fan_outs for us in each.decode_us)

    def idle_turn_us(self, placement: PlacementWord) -> float | None:
        """The median turn of the loop with nothing to compute."""
        return median(us for each in self.fan_outs_of(placement) for us in each.idle_us)


def judge(rounds: Rounds, fewest_cancels: int) -> tuple[Statement, ...]:
    """The acceptance statements; fewer cancels of a placement than that prove nothing."""
    hashes: dict[object, set[str]] = {}
    for shape, token_hash in chain.from_iterable(each.shapes for each in rounds.fan_outs):
        hashes.setdefault(shape, set()).add(token_hash)
    cancels, streams = rounds.cancels, list(_streams(rounds.fan_outs))
    unfinished = sum(stream.result.reason is not FinishReason.LENGTH for stream in streams)
    wrong = sum(not trial.was_queued for each in cancels for trial in each.trials)
    computed = sum(each.decode_calls + each.admitted for each in cancels)
    return (
        Statement.equal("queued cancels that had a slot, a token or another end", wrong, 0),
        Statement.equal("requests admitted and decode calls run while queued requests were cancelled", computed, 0),
        *chain.from_iterable(_judge_placement(rounds, each, fewest_cancels) for each in rounds.placements),
        *(_refused(placement, reason) for placement, reason in rounds.refused.items()),
        Statement.equal("streams that did not get all of their tokens", unfinished, 0),
        stable("an answer is the same wherever its rows were computed in the same company", hashes),
    )


def _judge_placement(rounds: Rounds, placement: PlacementWord, fewest_cancels: int) -> Iterator[Statement]:
    cancels = rounds.cancels_of(placement)
    hangs = [each.hang for each in cancels if each.hang is not None]
    hangs += [each.hang for each in rounds.fan_outs_of(placement) if each.hang is not None]
    ended = sum(len(each.trials) for each in cancels)
    asked = sum(each.asked for each in cancels)
    yield Statement.so(
        f"{placement}: no trial hangs",
        f"{ended} of {asked} cancels ended; {len(hangs)} hangs",
        f"all of at least {fewest_cancels}",
        holds=not hangs and ended == asked >= fewest_cancels,
    )
    share = ratio(rounds.future(placement).p95, rounds.step_us())
    text = f"{placement}: p95 from cancel to future as a share of the median decode step"
    yield Statement.at_most(text, rounded(share), MOST_OF_A_STEP)


def _refused(placement: PlacementWord, reason: str) -> Statement:
    return Statement.undecided(f"{placement}: no trial hangs, and a cancel resolves at once", "as elsewhere", reason)


def cancel_tables(rounds: Rounds, model: ModelSettings) -> tuple[Table, ...]:
    """Times of queued cancels, and what they are in other units."""
    label = in_process_label(model)
    times: list[tuple[Value, ...]] = []
    shares: list[tuple[Value, ...]] = []
    base = rounds.future(BASE).p99
    for placement in rounds.placements:
        of_rounds = rounds.cancels_of(placement)
        trials = [trial for each in of_rounds for trial in each.trials]
        future = rounds.future(placement)
        found = (
            ("observed", samples((trial.observed_ns for trial in trials), NS_PER_US)),
            ("future", future),
            ("caller goes on", rounds.resumed(placement)),
            ("stream closed", samples((t.closed_ns for t in trials if t.closed_ns is not None), NS_PER_US)),
        )
        times += [(placement, word, *each.cells()) for word, each in found]
        medians = [ratio(median(_futures_ns(each)), NS_PER_US) for each in of_rounds]
        idle = rounds.idle_turn_us(placement)
        shares.append((
            placement,
            rounded(ratio(future.p99, base)),
            rounded(ratio(future.p99, idle)),
            rounded(ratio(future.p95, rounds.step_us())),
            rounded(ratio(rounds.resumed(placement).p95, rounds.step_us())),
            rounded(idle),
            spread(medians),
        ))  # fmt: skip
    step = rounded(rounds.step_us())
    return (
        Table(
            title="Queued cancel, microseconds from the cancel",
            label=label,
            heads=("placement", "until", *SAMPLE_HEADS),
            rows=tuple(times),
            note="Future: the result is set. Callers wait for it or for the end of the stream, in turns.",
        ),
        Table(
            title="Queued cancel to future, as ratios",
            label=label,
            heads=(
                "placement", f"p99 / p99 of {BASE}", "p99 / idle turn of the loop", "p95 / decode step",
                "caller goes on, p95 / decode step",
                "idle turn, us", "median of each round, us",
            ),
            rows=tuple(shares),
            note=f"The decode step is the median call for one request alone, {step} us over all placements.",
        ),
    )  # fmt: skip


def fan_out_table(rounds: Rounds, model: ModelSettings) -> Table:
    """Times of streams that were submitted together."""
    rows: list[tuple[Value, ...]] = []
    for placement in rounds.placements:
        of_rounds = rounds.fan_outs_of(placement)
        streams = list(_streams(of_rounds))
        found = (
            ("admitted", samples((each.admitted_ns for each in streams), NS_PER_MS)),
            ("first token", samples((each.first_ns for each in streams), NS_PER_MS)),
            ("stream closed", samples((each.closed_ns for each in streams), NS_PER_MS)),
            ("complete", samples((each.complete_ns for each in streams), NS_PER_MS)),
            ("gap between tokens", gaps := samples((gap for each in streams for gap in each.gaps_ns), NS_PER_MS)),
        )
        rows += [(placement, word, *each.cells()) for word, each in found]
        rows.append((placement, "gap p95 / p50", None, rounded(ratio(gaps.p95, gaps.p50)), None, None, None))
        rows.append((placement, "share admitted in the first step", len(streams), _first_share(of_rounds), *[None] * 3))
        pieces = sum(each.num_pieces for each in streams)
        rows.append((placement, "tokens a piece", pieces, rounded(ratio(_num_tokens(streams), pieces)), *[None] * 3))
    return Table(
        title="Streams submitted together, milliseconds from the first submission",
        label=in_process_label(model),
        heads=("placement", "until", *SAMPLE_HEADS),
        rows=tuple(rows),
        note="Ratios and shares stand in the column p50.",
    )


def _futures_ns(one: CancelRound) -> list[int]:
    return [trial.future_ns for trial in one.trials]


def _streams(rounds: list[FanOutRound]) -> Iterator[FanOutStream]:
    for each in rounds:
        for trial in each.trials:
            yield from trial


def _num_tokens(streams: list[FanOutStream]) -> int:
    return sum(each.result.num_decoded for each in streams)


def _first_share(rounds: list[FanOutRound]) -> float | None:
    """The share of streams that got their slot in the first step of their trial."""
    firsts = total = 0
    for each in rounds:
        for trial in each.trials:
            steps = [stream.result.admitted_step or 0 for stream in trial]
            firsts += steps.count(min(steps, default=0))
            total += len(steps)
    return rounded(ratio(firsts, total))
