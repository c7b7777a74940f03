"""From a leg that was run to its record: how everything ended, and how long streams waited for their tokens."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from arriero.bench.client_errors import ErrorKind
from arriero.bench.soak.load import LegRun
from arriero.bench.soak.plan import Kind
from arriero.bench.soak.records import NOTED, GapSums, LegRecord, Reading, Surprise
from arriero.metrics.client_latency import service_ttft, token_at
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.metrics.distribution import FEWEST_FOR_P99
from arriero.metrics.quantiles import nearest_rank

Stays: TypeAlias = Sequence[tuple[int, int]]

_ANSWERED: Final = frozenset({Outcome.LENGTH, Outcome.STOP, Outcome.REJECTED})
_SERVER_ERROR: Final = 500
_UNAVAILABLE: Final = 503


def expected_ends(kind: Kind) -> frozenset[Outcome]:
    """How a request of a kind may end: whole or refused; one that its client leaves also so."""
    return _ANSWERED | {Outcome.CANCELLED_BY_CLIENT} if kind is Kind.LEFT else _ANSWERED


def record_of(
    run: LegRun, *, number: int, server: int, before: Reading, after: Reading, target_ms: int, longest_block_ns: int
) -> LegRecord:
    """The record of a leg.

    Args:
        run: what came of it.
        number: of the leg, from 0.
        server: on which start.
        before: the idle server before it.
        after: the same when all was drained.
        target_ms: for the time between tokens; 0: none, and every gap is within it.
        longest_block_ns: of the client's event loop.
    """
    ends: dict[Kind, Counter[Outcome]] = {}
    for kind, life in run.lives:
        ends.setdefault(kind, Counter())[life.outcome] += 1
    surprises = [
        Surprise(request_id=life.request_id, kind=kind, outcome=life.outcome, error=life.error, status=life.status)
        for kind, life in run.lives
        if life.outcome not in expected_ends(kind)
    ]
    prompt = [life for kind, life in run.lives if kind is not Kind.SLOW]
    quiet, beside = gap_sums(prompt, run.stays, target_ms)
    every = sorted(gap for life in prompt for _, gap in _gaps(life))
    firsts = sorted(wait for life in prompt if (wait := service_ttft(life)) is not None)
    cpu = [visit.cpu_s for visit in run.visits if visit.cpu_s is not None]
    least, most = may_be_counted([life for _, life in run.lives])
    return LegRecord(
        number=number,
        server=server,
        seconds=run.seconds,
        ends={kind: dict(sorted(found.items())) for kind, found in sorted(ends.items())},
        asked=run.num_asked,
        num_surprises=len(surprises),
        surprises=tuple(surprises[:NOTED]),
        num_errors=sum(is_error(life) for _, life in run.lives),
        counted=after.requests - before.requests,
        least_counted=least,
        most_counted=most,
        quiet=quiet,
        beside=beside,
        gap_p99_ns=float(nearest_rank(every, 0.99)) if len(every) >= FEWEST_FOR_P99 else None,
        first_p50_ns=float(nearest_rank(firsts, 0.5)) if firsts else None,
        visit_s=sum(visit.seconds for visit in run.visits),
        visit_cpu_s=sum(cpu) if len(cpu) == len(run.visits) else None,
        longest_block_ns=longest_block_ns,
        after=after,
    )


def is_error(life: ClientLife) -> bool:
    """Whether the server said that it failed: a status of 500 and more that is no refusal, or an error in a stream."""
    status = life.status
    return life.error == ErrorKind.ERROR_EVENT or (
        status is not None and status >= _SERVER_ERROR and status != _UNAVAILABLE
    )


def may_be_counted(lives: Sequence[ClientLife]) -> tuple[int, int]:
    """The least and the most requests of these that a server has to have counted.

    It must have counted each that it answered, and can have counted each that was sent to it.
    """
    answered = sum(life.status is not None for life in lives)
    sent = sum(life.sent_at is not None for life in lives)
    return answered, sent


def gap_sums(lives: Sequence[ClientLife], stays: Stays, target_ms: int) -> tuple[GapSums, GapSums]:
    """Gaps between tokens, those apart during which the neighbour was there for a moment at least.

    Args:
        lives: of streams that were read at once.
        stays: the neighbour's, none over another.
        target_ms: 0: none, and every gap is within it.
    """
    limit = target_ms * 1_000_000 if target_ms else None
    ordered = sorted(stays)
    found: dict[bool, list[int]] = {False: [], True: []}
    for life in lives:
        for ended_at, gap in _gaps(life):
            found[_meets(ordered, ended_at - gap, ended_at)].append(gap)
    return _sums(found[False], limit), _sums(found[True], limit)


def _gaps(life: ClientLife) -> Iterator[tuple[int, int]]:
    """When each gap ended, and how long it was."""
    moments = token_at(life)
    return ((later, later - earlier) for earlier, later in pairwise(moments))


def _meets(stays: Stays, begins_at: int, ends_at: int) -> bool:
    """Whether a stretch of time and one of the stays, which are in order, have a moment in common."""
    number = bisect_left(stays, (ends_at,)) - 1
    return number >= 0 and stays[number][1] > begins_at


def _sums(gaps: Sequence[int], limit: int | None) -> GapSums:
    return GapSums(
        count=len(gaps),
        total_ns=sum(gaps),
        held_ns=sum(gap for gap in gaps if limit is None or gap <= limit),
        worst_ns=max(gaps, default=0),
    )
