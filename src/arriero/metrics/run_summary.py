"""The summary of a simulated run in arriero's own mode: everybody is counted, not survivors alone.

Latency tables come twice: of requests that finished, and of all, in which one that was rejected or did not finish
counts as larger than any sample. Cancellations that the workload planned are in neither. What is undefined is null with
a reason.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from arriero.metrics.distribution import distribution, figure, weighted_distribution
from arriero.metrics.goodput import Slos, is_good
from arriero.metrics.rates import per_second, share
from arriero.metrics.served import Outcome, Served, ServedTally
from arriero.metrics.steps import StepFigures
from arriero.metrics.window import Window

_EMPTY: Final = "no requests"
_NO_TIME: Final = "no time passed"

_Judge: TypeAlias = Callable[[Served], bool]


def run_summary(
    tally: ServedTally, steps: StepFigures, *, makespan_us: int, slos: Slos, largest_gap_slo: int | None = None
) -> dict[str, Any]:
    """All figures of one run.

    Args:
        tally: the requests.
        steps: figures of the steps.
        makespan_us: from the first arrival to the last end of a step.
        slos: objectives.
        largest_gap_slo: objective on the largest gap between two tokens of a request.
    """
    requests = tally.requests

    def is_good_request(served: Served) -> bool:
        gap = served.largest_gap
        keeps_gap = largest_gap_slo is None or gap is None or gap <= largest_gap_slo
        return served.outcome is Outcome.FINISHED and keeps_gap and is_good(served.life, slos)

    return {
        "counts": _counts(requests),
        "marks": _marks(requests),
        "whole_run": _whole_run(requests, makespan_us, is_good_request),
        "window": None if tally.window is None else _windowed(tally, tally.window, is_good_request),
        "latency": latency_tables(requests, tally),
        "steps": _step_figures(steps),
        "prefix_cache": _prefix_figures(requests),
        "preemption": {
            "preemptions": sum(each.num_preemptions for each in requests),
            "preempted_requests": sum(each.num_preemptions > 0 for each in requests),
            "recomputed_tokens": sum(each.recomputed_tokens for each in requests),
        },
    }


def latency_tables(requests: Sequence[Served], tally: ServedTally) -> dict[str, Any]:
    """Distributions of every latency, of finished requests and of all."""
    finished = [each for each in requests if each.outcome is Outcome.FINISHED]
    expected = [each for each in requests if each.outcome is not Outcome.CANCELLED]
    pooled, shared = tally.gaps.pooled, tally.gaps.shared
    none = "no request has two tokens"
    num_gaps = sum(pooled.values())
    return {
        "finished": {name: _distribution(finished, of, 0) for name, of in _LATENCIES.items()},
        "all": {name: _distribution(expected, of, _censored(expected, name)) for name, of in _LATENCIES.items()},
        "itl_us_token_weighted": weighted_distribution(pooled, num_samples=num_gaps, undefined=none),
        "itl_us_request_weighted": weighted_distribution(shared, num_samples=num_gaps, undefined=none),
    }


_LATENCIES: Final[Mapping[str, Callable[[Served], float | None]]] = {
    "queue_us": lambda each: each.life.queue_time,
    "ttft_us": lambda each: each.life.ttft,
    "tpot_us": lambda each: each.life.tpot,
    "e2e_us": lambda each: each.life.e2e,
    "itl_max_us": lambda each: each.largest_gap,
}


def _distribution(requests: Iterable[Served], of: Callable[[Served], float | None], censored: int) -> dict[str, Any]:
    samples = [value for value in map(of, requests) if value is not None]
    return distribution(samples, num_censored=censored, undefined="no request has it")


def _censored(requests: Sequence[Served], name: str) -> int:
    """Requests that did not finish and lack the metric: they would have had it, later than anybody."""
    of = _LATENCIES[name]
    return sum(each.outcome is not Outcome.FINISHED and of(each) is None for each in requests)


def _counts(requests: Sequence[Served]) -> dict[str, Any]:
    by_outcome = {outcome.value: sum(each.outcome is outcome for each in requests) for outcome in Outcome}
    served = by_outcome[Outcome.FINISHED.value]
    return {
        "submitted": len(requests),
        **by_outcome,
        "served_fraction": figure(share(served, len(requests)), _EMPTY).as_json(),
        "prompt_tokens": sum(each.prompt_tokens for each in requests),
        "generated_tokens": sum(each.life.num_tokens for each in requests),
    }


def _marks(requests: Sequence[Served]) -> list[str]:
    left = sum(each.outcome in {Outcome.UNFINISHED, Outcome.REJECTED} for each in requests)
    if not left:
        return []
    return [f"incomplete: {left} of {len(requests)} requests did not finish; rates count those that did"]


def _whole_run(
    requests: Sequence[Served], makespan_us: int, is_good_request: Callable[[Served], bool]
) -> dict[str, Any]:
    finished = [each for each in requests if each.outcome is Outcome.FINISHED]
    num_good = sum(is_good_request(each) for each in finished)
    good_tokens = sum(each.life.num_tokens for each in finished if is_good_request(each))
    generated = sum(each.life.num_tokens for each in requests)
    prompts = sum(each.prompt_tokens for each in requests if each.life.first_at is not None)
    cached = sum(each.cached_tokens for each in requests if each.life.first_at is not None)
    amounts = {
        "requests_per_s": len(finished),
        "output_tokens_per_s": generated,
        "prompt_tokens_computed_per_s": prompts - cached,
        "prompt_tokens_cached_per_s": cached,
        "good_requests_per_s": num_good,
        "good_tokens_per_s": good_tokens,
    }
    return {
        "makespan_us": makespan_us,
        "complete": len(finished) == len(requests),
        **_rates(amounts, makespan_us, _NO_TIME),
        **_attainment(len(requests), len(finished), num_good),
    }


def _windowed(tally: ServedTally, window: Window, is_good_request: _Judge) -> dict[str, Any]:
    requests = tally.requests
    ended = [e for e in requests if e.outcome is Outcome.FINISHED and window.holds(e.life.finished_at)]
    arrived = [e for e in requests if window.holds(e.life.arrival_at)]
    with_first = [each for each in requests if window.holds(each.life.first_at)]
    cached = sum(each.cached_tokens for each in with_first)
    amounts = {
        "offered_per_s": len(arrived),
        "requests_per_s": len(ended),
        "output_tokens_per_s": tally.tokens_in_window,
        "prompt_tokens_computed_per_s": sum(each.prompt_tokens for each in with_first) - cached,
        "prompt_tokens_cached_per_s": cached,
        "good_requests_per_s": sum(map(is_good_request, ended)),
    }
    served = [each for each in arrived if each.outcome is Outcome.FINISHED]
    return {
        "begins_at_us": window.begins_at,
        "ends_at_us": window.ends_at,
        **_rates(amounts, window.length, "the window is empty"),
        **_attainment(len(arrived), len(served), sum(map(is_good_request, served))),
        "latency": {name: _distribution(arrived, of, _censored(arrived, name)) for name, of in _LATENCIES.items()},
    }


def _rates(amounts: Mapping[str, int], duration_us: int, reason: str) -> dict[str, Any]:
    return {name: figure(per_second(amount, duration_us), reason).as_json() for name, amount in amounts.items()}


def _attainment(submitted: int, finished: int, good: int) -> dict[str, Any]:
    return {
        "good_requests": good,
        "good_of_submitted": figure(share(good, submitted), _EMPTY).as_json(),
        "good_of_finished": figure(share(good, finished), "no request finished").as_json(),
    }


def _step_figures(steps: StepFigures) -> dict[str, Any]:
    reason = "no time passed, or nothing to divide by"
    return {name: figure(value, reason).as_json() for name, value in steps._asdict().items()}


def _prefix_figures(requests: Sequence[Served]) -> dict[str, Any]:
    looked_up = [each for each in requests if each.was_looked_up]
    hits = sum(each.cached_tokens > 0 for each in looked_up)
    tokens = sum(each.prompt_tokens for each in looked_up)
    cached = sum(each.cached_tokens for each in looked_up)
    reason = "nothing was looked up"
    return {
        "lookups": len(looked_up),
        "hits": hits,
        "cached_tokens": cached,
        "request_hit_rate": figure(share(hits, len(looked_up)), reason).as_json(),
        "token_hit_rate": figure(share(cached, tokens), reason).as_json(),
    }
