"""The parts of a summary of a client's run: plain values, in nanoseconds and per second.

A figure that is undefined or infinite is None, and `reasons` says why under the figure's own name; nothing is ever 0
because it is unknown. All of it goes into a result file as it stands and comes back equal.
"""

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

INFINITE: Final = "infinite: the rank falls among requests that failed"
"""The reason of a figure that is larger than every sample."""

Loop: TypeAlias = Literal["open", "closed", "mixed"]
"""Whether sends are intended (open), follow answers (closed), or some of each, as in conversations that arrive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSlos:
    """Upper bounds on the latencies of one request; None for one that is not set."""

    ttft_ns: int | None = None
    tpot_ns: int | None = None
    e2e_ns: int | None = None
    largest_gap_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """One latency over many requests or gaps.

    Attributes:
        n: finite samples.
        num_infinite: failures, each larger than every sample.
        num_undefined: requests that ended normally and have no such latency.
        p99: None below 100 samples, infinite ones included.
        p99_9: None below 1,000.
        reasons: the name of a figure that is None -> why.
    """

    n: int
    num_infinite: int = 0
    num_undefined: int = 0
    mean: float | None
    min: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    p99_9: float | None
    max: float | None
    reasons: dict[str, str] = field(default_factory=dict[str, str])

    def is_infinite(self, name: str) -> bool:
        """Whether this figure is larger than every sample, which is not the same as undefined."""
        return self.reasons.get(name) == INFINITE


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyTable:
    """The latencies of one group of requests; None for one that the definitions in use do not know.

    Attributes:
        ttft_ns: first token, from the intended send in open loop.
        service_ttft_ns: first token, from the actual send.
        itl_ns: the gaps of all requests, pooled.
        icl_ns: the gaps between chunks, pooled; look here when a chunk carries more than 1.05 tokens.
        itl_max_ns: the worst gap of each request.
        tpot_ns: (last - first) / (tokens - 1) of each request.
        normalised_ns: E2E / tokens of each request; one tool has it.
        e2e_ns: last token, from the intended send in open loop.
        targeted_ns: end of the stream, from the intended send; one tool shows it beside its own E2E.
        service_e2e_ns: last token, from the actual send.
        closing_ns: from the last token to the end of the stream.
    """

    ttft_ns: Distribution | None = None
    service_ttft_ns: Distribution | None = None
    itl_ns: Distribution | None = None
    icl_ns: Distribution | None = None
    itl_max_ns: Distribution | None = None
    tpot_ns: Distribution | None = None
    normalised_ns: Distribution | None = None
    e2e_ns: Distribution | None = None
    targeted_ns: Distribution | None = None
    service_e2e_ns: Distribution | None = None
    closing_ns: Distribution | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Each table twice.

    Attributes:
        finished: requests that ended normally.
        all: those and the failures, which count as infinity; None where the definitions have no such table.
            Cancellations that the client planned are in neither.
    """

    finished: LatencyTable
    all: LatencyTable | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many, and what became of them; nothing is dropped.

    Attributes:
        intended: all requests but warm-ups; the sum over `by_outcome`.
        warm_up: declared before the run, in no figure.
        not_due: of the intended ones, never sent because the run had stopped before their time.
        submitted: intended in the window and due: the denominator of attainment and of the served fraction.
        finished: of the submitted ones, ended normally.
        cancelled: of the submitted ones, cancelled by the client as planned.
        by_outcome: every outcome, also those that did not happen.
        by_error: kind of error -> how many.
        by_status: HTTP status of those that did not end normally -> how many.
    """

    intended: int
    warm_up: int
    not_due: int
    submitted: int
    finished: int
    cancelled: int
    by_outcome: dict[str, int]
    by_error: dict[str, int]
    by_status: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Per second over one stretch of time.

    Attributes:
        begins_at: of the stretch, on the client's clock.
        ends_at: same; included.
        offered_per_s: intended sends, or sends in a closed loop.
        requests_per_s: normal ends.
        output_tokens_per_s: tokens that arrived, whatever became of their request.
        prompt_tokens_per_s: prompts whose first token arrived.
        prompt_computed_per_s: of these, what the server computed.
        prompt_cached_per_s: of these, what it had cached.
        good_requests_per_s: goodput: requests that ended normally within all objectives.
        good_tokens_per_s: their tokens.
        reasons: the name of a figure that is None -> why.
    """

    begins_at: int
    ends_at: int
    offered_per_s: float | None
    requests_per_s: float | None
    output_tokens_per_s: float | None
    prompt_tokens_per_s: float | None
    prompt_computed_per_s: float | None
    prompt_cached_per_s: float | None
    good_requests_per_s: float | None
    good_tokens_per_s: float | None
    reasons: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Attainment:
    """How many of the window's requests kept the objectives; the three shares are never shown apart.

    Attributes:
        objectives: the bounds.
        good: ended normally within all of them.
        of_submitted: good / submitted.
        of_finished: good / ended normally.
        served_fraction: ended normally / submitted.
        misses: objective -> requests that ended normally and broke it; under arriero's own definitions only.
        reasons: the name of a figure that is None -> why.
    """

    objectives: ClientSlos
    good: int
    of_submitted: float | None
    of_finished: float | None
    served_fraction: float | None
    misses: dict[str, int]
    reasons: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Whether the server gave what was asked for; over the window's requests.

    Attributes:
        tokens_per_chunk: over all content chunks; None without one.
        shows_chunks: more than 1.05 tokens a chunk, so a report shows ICL beside ITL.
        sums_differ: requests whose chunks do not add up to the server's count.
        without_usage: requests that ended normally and whose server gave no count.
        other_output: of those that ended normally, answers of another length than asked for.
        other_output_share: the same as a share of them.
        other_prompt: the server counts another prompt length than was sent.
    """

    tokens_per_chunk: float | None
    shows_chunks: bool
    sums_differ: int
    without_usage: int
    other_output: int
    other_output_share: float | None
    other_prompt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """How the window's requests reached the server; connection time is part of no latency's name but `connect_ns`.

    Attributes:
        opened: requests that opened one.
        reused: requests on a connection that was used before; a target without connections makes this all that were
            sent, so nothing is shown of it there.
        connect_ns: how long opening took.
    """

    opened: int
    reused: int
    connect_ns: Distribution


SHOW_CHUNKS_ABOVE: Final = 1.05
"""Tokens a chunk above which zeros dilute the percentiles of ITL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSummary:
    """All figures of one run under one set of definitions.

    Attributes:
        definitions: the name of the set.
        loop: a closed one makes no statement about stalls under independent arrivals.
        warm_up_ns: left out at the beginning.
        cool_down_ns: left out at the end.
        window: rates over the measured window.
        whole_run: the same over the whole run, drain included, to be labelled so.
        latency: of the requests that arrived in the window.
        attainment: None without objectives.
        send_lag_ns: actual - intended send of the window's requests; None in a closed loop and where the definitions
            have no such figure.
    """

    definitions: str
    loop: Loop
    warm_up_ns: int
    cool_down_ns: int
    counts: Counts
    window: Rates
    whole_run: Rates
    latency: Latencies
    attainment: Attainment | None
    send_lag_ns: Distribution | None
    lengths: Lengths
    connections: Connections
