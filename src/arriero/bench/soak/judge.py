"""What a soak came to: statements about its books, from the state and from nothing else.

Every statement is about all legs of all starts of the server; a soak that was killed and resumed is judged like one
that was not.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from arriero.bench.experiments.experiment import Statement
from arriero.bench.experiments.samples import rounded
from arriero.bench.servers_guard import HowEnded
from arriero.bench.soak.plan import Kind
from arriero.bench.soak.records import GapSums, LegRecord, Reading
from arriero.bench.soak.state import SoakState
from arriero.metrics.client_life import Outcome
from arriero.metrics.theil_sen import Slope, theil_sen

FEWEST_FOR_SLOPE: Final = 6
"""Legs of one server below which its memory shows no slope."""

LEAST_CORES: Final = 0.2
"""CPUs that the neighbour has to have had; with fewer it was no neighbour."""

_MIB: Final = 1 << 20


def judge(state: SoakState) -> Iterator[Statement]:
    """The acceptance statements."""
    yield from _run(state)
    yield _health(state)
    yield from _accounts(state)
    yield from _leaks(state)
    yield from _happened(state)
    yield _memory(state)
    if state.settings.itl_target_ms:
        yield _held(state)


def _run(state: SoakState) -> Iterator[Statement]:
    yield Statement.equal("legs that were run", len(state.legs), state.settings.num_legs)
    seen = f"{len(state.failures)}" + (f", such as {state.failures[0]}" if state.failures else "")
    yield Statement.so("times the server failed", seen, "none", holds=not state.failures)
    ends = [each for each in state.servers if each.how is not None]
    bad = [each for each in ends if (each.how, each.status) != (HowEnded.TERMINATED, 0)]
    seen = f"{len(bad)} of {len(ends)}" + (f", such as {bad[0].how} with status {bad[0].status}" if bad else "")
    yield Statement.so("servers that did not end in order when they were asked to", seen, "none", holds=not bad)


def _health(state: SoakState) -> Statement:
    unwell = sum(not leg.after.is_well for leg in state.legs)
    return Statement.equal("legs after which the server was not well", unwell, 0)


def _accounts(state: SoakState) -> Iterator[Statement]:
    legs = state.legs
    lost = sum(abs(leg.asked - leg.num_ended) for leg in legs)
    yield Statement.equal("requests without an end", lost, 0)
    surprises = [each for leg in legs for each in leg.surprises]
    count = sum(leg.num_surprises for leg in legs)
    first = surprises[0] if surprises else None
    seen = f"{count}" + (f", such as {first.request_id}: {first.outcome} ({first.error})" if first is not None else "")
    yield Statement.so("requests that ended as none of their kind should", seen, "none", holds=not count)
    errors = sum(leg.num_errors for leg in legs)
    yield Statement.equal("answers that say the server failed (status 500 and more)", errors, 0)
    text = "requests that server and client count differently over a server's life"
    yield Statement.equal(text, sum(_miscounted(state, server.number) for server in state.servers), 0)


def _miscounted(state: SoakState, server: int) -> int:
    """By how many requests a server's count is off; what is left at the end of a leg may be counted in the next."""
    legs = [leg for leg in state.legs if leg.server == server]
    counted = sum(leg.counted for leg in legs)
    most, least = sum(leg.most_counted for leg in legs), sum(leg.least_counted for leg in legs)
    return max(0, counted - most, least - counted)


def _leaks(state: SoakState) -> Iterator[Statement]:
    after = [leg.after for leg in state.legs]
    for text, counts in (
        ("places, answers and requests left after the worst leg", [each.num_requests_left for each in after]),
        ("KV cells held, or requests swapped out, after the worst leg", [each.num_kv_left for each in after]),
        ("sequence ids nobody can use after the worst leg", [each.num_sequences_left for each in after]),
    ):
        yield _none_left(text, max(counts, default=None))
    words = {"sequence_ids": "sequence ids lost", "tasks": "more tasks", "files": "more open files"}
    for name, word in words.items():
        sign = -1 if name == "sequence_ids" else 1
        found = [grown for before, last in _lives(state) if (grown := _grown(before, last, name)) is not None]
        text = f"{word} at the end of the worst server, against before its first leg"
        yield _none_left(text, max((sign * each for each in found), default=None))


def _none_left(text: str, found: int | None) -> Statement:
    """At most none; open where nobody could tell."""
    if found is None:
        return Statement.undecided(text, "at most 0", "no leg was run, or neither server nor system say")
    return Statement.at_most(text, found, 0)


def _lives(state: SoakState) -> Iterator[tuple[Reading, Reading]]:
    """Each server that had a leg: before the first one, and after its last."""
    for server in state.servers:
        after = [leg.after for leg in state.legs if leg.server == server.number]
        if after:
            yield server.before, after[-1]


def _grown(before: Reading, last: Reading, name: str) -> int | None:
    first: int | None = getattr(before, name)
    second: int | None = getattr(last, name)
    return None if first is None or second is None else second - first


def _happened(state: SoakState) -> Iterator[Statement]:
    """That the server was really put under all of it: a soak without overload says nothing about overload."""
    load = state.settings.load
    wanted = {
        "refusals": (bool(load.bursts), sum(leg.num_of(Outcome.REJECTED) for leg in state.legs)),
        "cancels": (load.cancel_share > 0, _num(state.legs, Kind.LEFT, Outcome.CANCELLED_BY_CLIENT)),
        "long prompts": (bool(load.longs), _num_whole(state.legs, Kind.LONG)),
        "slow readers": (bool(load.slow_readers), _num_whole(state.legs, Kind.SLOW)),
    }
    missing = [name for name, (is_wanted, count) in wanted.items() if is_wanted and not count]
    seen = ", ".join(missing) or "nothing"
    yield Statement.so("what never happened of overload, cancels, long prompts, slow readers", seen, "nothing",
                       holds=not missing)  # fmt: skip
    if load.visits and state.settings.num_legs > 1:
        yield _neighbour(state.legs)


def _neighbour(legs: Sequence[LegRecord]) -> Statement:
    text = "CPUs that the neighbour had while it was there"
    visits = [leg for leg in legs if leg.visit_s]
    cpu = [leg.visit_cpu_s for leg in visits if leg.visit_cpu_s is not None]
    if not visits or len(cpu) < len(visits):
        reason = "this system does not say" if visits else "it never came"
        return Statement.undecided(text, f"at least {LEAST_CORES:g}", reason)
    return Statement.at_least(text, rounded(sum(cpu) / sum(leg.visit_s for leg in visits)), LEAST_CORES)


def _num(legs: Sequence[LegRecord], kind: Kind, outcome: Outcome) -> int:
    return sum(leg.ends.get(kind, {}).get(outcome, 0) for leg in legs)


def _num_whole(legs: Sequence[LegRecord], kind: Kind) -> int:
    return sum(_num(legs, kind, outcome) for outcome in Outcome if outcome.is_normal)


# ── memory and target ───────────────────────────────────────────────────────────────────────────────────────────────


def _memory(state: SoakState) -> Statement:
    """A growth that is above the bound but may as well be below it is open: a longer soak can tell."""
    text, bound = "growth of resident memory, MiB a minute", state.settings.memory_mib_per_min
    slopes = [slope for server in state.servers if (slope := memory_slope(state, server.number)) is not None]
    if not slopes:
        reason = f"no server had {FEWEST_FOR_SLOPE} legs after the first third of its life, or the system does not say"
        return Statement.undecided(text, f"at most {bound:g}", reason)
    most = max(slopes)
    if most.value > bound >= max(slope.low for slope in slopes):
        reason = f"{most.value:.2f}, known to lie within {most.low:.2f} ... {most.high:.2f} only; run longer"
        return Statement.undecided(text, f"at most {bound:g}", reason)
    return Statement.at_most(text, rounded(most.value), bound)


def memory_slope(state: SoakState, server: int) -> Slope | None:
    """MiB a minute of a server, after the first third of its legs; None of too few.

    The median over all pairs of legs, so that a single leg that came at a bad moment does not matter.
    """
    points: list[tuple[float, float]] = []
    minutes = 0.0
    for leg in state.legs:
        if leg.server == server and leg.after.resident_bytes is not None:
            minutes += leg.seconds / 60
            points.append((minutes, leg.after.resident_bytes / _MIB))
    points = points[len(points) // 3 :]
    return None if len(points) < FEWEST_FOR_SLOPE else theil_sen(points)


def all_gaps(state: SoakState) -> tuple[GapSums, GapSums]:
    """Without and beside the neighbour, of all legs."""
    quiet, beside = GapSums(), GapSums()
    for leg in state.legs:
        quiet, beside = quiet + leg.quiet, beside + leg.beside
    return quiet, beside


def _held(state: SoakState) -> Statement:
    settings = state.settings
    quiet, beside = all_gaps(state)
    text = f"share of the streams' time in gaps of at most {settings.itl_target_ms} ms"
    return Statement.at_least(text, rounded((quiet + beside).held_share), settings.held_share)
