"""The summary of a client's run: everything of `client_figures.py` from the raw lives."""

from collections import Counter
from collections.abc import Callable, Sequence

from arriero.metrics import client_latency as of
from arriero.metrics.client_distribution import describe
from arriero.metrics.client_figures import (
    SHOW_CHUNKS_ABOVE,
    Attainment,
    ClientSlos,
    ClientSummary,
    Connections,
    Counts,
    Distribution,
    Lengths,
    Loop,
)
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.metrics.client_summary_latency import latencies
from arriero.metrics.client_summary_rates import rates
from arriero.metrics.client_window import ClientWindow, client_window, whole_run
from arriero.metrics.definitions import ARRIERO, Definitions, LagRule
from arriero.metrics.definitions_arriero import broken_objectives
from arriero.metrics.distribution import figure
from arriero.metrics.rates import share


def summarise(
    lives: Sequence[ClientLife],
    *,
    window: ClientWindow | None = None,
    slos: ClientSlos | None = None,
    definitions: Definitions = ARRIERO,
) -> ClientSummary:
    """All figures of one run.

    Args:
        lives: all requests of the run, in any order.
        window: what is measured; None measures from the first to the last arrival.
        slos: objectives; None leaves goodput and attainment out, with the reason.
        definitions: whose words the figures follow.
    """
    measured = [life for life in lives if not life.is_warm_up]
    frame = client_window(measured) if window is None else window
    submitted = [life for life in measured if frame.holds(life) and frame.was_due(life)]
    due = [life for life in measured if frame.was_due(life)]
    return ClientSummary(
        definitions=definitions.name,
        loop=loop_of(measured),
        warm_up_ns=frame.warm_up_ns,
        cool_down_ns=frame.cool_down_ns,
        counts=_counts(lives, measured, submitted, len(due)),
        window=rates(due, definitions.span(due, frame.measured), slos, definitions),
        whole_run=rates(due, whole_run(due), slos, definitions),
        latency=latencies(submitted, definitions),
        attainment=None if slos is None else _attainment(submitted, slos, definitions),
        send_lag_ns=_send_lag(submitted, definitions.lag),
        lengths=_lengths(submitted),
        connections=_connections(submitted),
    )


def remake(summary: ClientSummary, lives: Sequence[ClientLife], definitions: Definitions = ARRIERO) -> ClientSummary:
    """The summary of the same run again, from its raw log, under any definitions.

    Args:
        summary: under arriero's definitions; says window and objectives.
        lives: that it was made from.
        definitions: of the new one.
    """
    window = ClientWindow(
        starts_at=summary.window.begins_at - summary.warm_up_ns,
        stops_at=summary.window.ends_at + summary.cool_down_ns,
        warm_up_ns=summary.warm_up_ns,
        cool_down_ns=summary.cool_down_ns,
    )
    slos = None if summary.attainment is None else summary.attainment.objectives
    return summarise(lives, window=window, slos=slos, definitions=definitions)


def loop_of(lives: Sequence[ClientLife]) -> Loop:
    """Open if every send was intended, closed if none was; open without any request."""
    intended = sum(life.intended_at is not None for life in lives)
    if intended == len(lives):
        return "open"
    return "mixed" if intended else "closed"


def _counts(
    lives: Sequence[ClientLife], measured: Sequence[ClientLife], submitted: Sequence[ClientLife], num_due: int
) -> Counts:
    outcomes = Counter(life.outcome for life in measured)
    errors = Counter(life.error for life in measured if life.error is not None)
    failed = (life for life in measured if not life.outcome.is_normal and life.status is not None)
    return Counts(
        intended=len(measured),
        warm_up=len(lives) - len(measured),
        not_due=len(measured) - num_due,
        submitted=len(submitted),
        finished=sum(life.outcome.is_normal for life in submitted),
        cancelled=sum(life.outcome is Outcome.CANCELLED_BY_CLIENT for life in submitted),
        by_outcome={outcome.value: outcomes[outcome] for outcome in Outcome},
        by_error=dict(sorted(errors.items())),
        by_status=dict(sorted(Counter(str(life.status) for life in failed).items())),
    )


def _attainment(submitted: Sequence[ClientLife], slos: ClientSlos, definitions: Definitions) -> Attainment:
    finished = [life for life in submitted if life.outcome.is_normal]
    judge = definitions.is_good
    verdicts = [None if judge is None else judge(life, slos) for life in finished]
    good, left_out = verdicts.count(True), verdicts.count(None)
    nothing = f"{definitions.version} has no goodput" if judge is None else "no request"
    broken = Counter(name for life in finished for name in broken_objectives(life, slos) if definitions is ARRIERO)
    shares = {
        "of_submitted": figure(share(good, len(submitted) - left_out), f"{nothing} in the window"),
        "of_finished": figure(share(good, len(finished) - left_out), f"{nothing} that ended normally"),
        "served_fraction": figure(share(len(finished), len(submitted)), "no request in the window"),
    }
    return Attainment(
        objectives=slos,
        good=good,
        of_submitted=shares["of_submitted"].value,
        of_finished=shares["of_finished"].value,
        served_fraction=shares["served_fraction"].value,
        misses=dict(sorted(broken.items())),
        reasons={name: each.reason for name, each in shares.items() if each.reason is not None},
    )


def _send_lag(submitted: Sequence[ClientLife], rule: LagRule) -> Distribution | None:
    lags = _known(submitted, of.send_lag)
    if not lags or rule is LagRule.NONE:
        return None
    least = min(lags) if rule is LagRule.LEAST_LATE else 0
    return describe([lag - least for lag in lags])


def _lengths(submitted: Sequence[ClientLife]) -> Lengths:
    finished = [life for life in submitted if life.outcome.is_normal]
    chunks = sum(len(life.chunk_at) for life in submitted)
    ratio = share(sum(sum(life.chunk_tokens) for life in submitted), chunks)
    other = sum(of.num_tokens(life) != life.asked_tokens for life in finished)
    return Lengths(
        tokens_per_chunk=ratio,
        shows_chunks=ratio is not None and ratio > SHOW_CHUNKS_ABOVE,
        sums_differ=sum(of.sums_differ(life) for life in submitted),
        without_usage=sum(life.num_tokens is None for life in finished),
        other_output=other,
        other_output_share=share(other, len(finished)),
        other_prompt=sum(_has_other_prompt(life) for life in submitted),
    )


def _has_other_prompt(life: ClientLife) -> bool:
    asked, counted = life.asked_prompt_tokens, life.prompt_tokens
    return asked is not None and counted is not None and asked != counted


def _connections(submitted: Sequence[ClientLife]) -> Connections:
    opening = _known(submitted, lambda life: life.connect_ns)
    reused = sum(life.sent_at is not None and life.connect_ns is None for life in submitted)
    return Connections(opened=len(opening), reused=reused, connect_ns=describe(opening))


def _known(lives: Sequence[ClientLife], of_life: Callable[[ClientLife], int | None]) -> list[int]:
    return [value for value in map(of_life, lives) if value is not None]
