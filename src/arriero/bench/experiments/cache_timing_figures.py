"""Pairs of the timing probe: what a prober learns from them, by the statistics that judge every comparison here."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.experiment import Statement, Table, Value
from arriero.bench.experiments.samples import NS_PER_MS, http_label, median, ratio, rounded
from arriero.metrics.client_life import ClientLife
from arriero.metrics.paired import compare_pairs
from arriero.metrics.paired_verdict import PairedVerdict, Verdict

_NO_SIGNAL: Final = frozenset({Verdict.NOT_RESOLVED, Verdict.NO_LARGER_DIFFERENCE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One primed trial and one unprimed.

    Attributes:
        order: `pu` or `up`, as they were run.
        primed, unprimed: the prober's requests.
    """

    order: str
    primed: ClientLife
    unprimed: ClientLife

    @property
    def lives(self) -> tuple[ClientLife, ClientLife]:
        """Both."""
        return self.primed, self.unprimed


def judge(
    name: str, pairs: Sequence[Pair], *, expects_signal: bool, margin: float, seed: int
) -> Iterator[Statement]:  # fmt: skip
    """Whether there is a signal where one has to be, and none where none may be."""
    told, bound = f"{name}: cached tokens that a primed prober was told", "more than 0" if expects_signal else "0"
    timing = f"{name}: TTFT of primed / unprimed"
    words = "a signal: smaller by the verdict" if expects_signal else "no signal: no difference that can be resolved"
    if not pairs:
        yield Statement.undecided(told, bound, "its server failed")
        yield Statement.undecided(timing, words, "its server failed")
        return
    cached = [pair.primed.cached_tokens for pair in pairs]
    known = [each for each in cached if each is not None]
    if len(known) < len(cached):
        yield Statement.undecided(told, bound, "the server does not say")
    elif expects_signal:
        yield Statement.so(told, f"{min(known)} to {max(known)}", bound, holds=min(known) > 0)
    else:
        yield Statement.so(told, max(known), bound, holds=max(known) == 0)
    found = verdict_on(pairs, margin=margin, seed=seed)
    if found.verdict is Verdict.NO_VERDICT:
        yield Statement.undecided(timing, words, "; ".join(found.reasons))
        return
    holds = found.verdict is Verdict.BETTER if expects_signal else found.verdict in _NO_SIGNAL
    yield Statement.so(timing, f"{found.verdict}: {found.reasons[0]}", words, holds=holds)


def verdict_on(pairs: Sequence[Pair], *, margin: float, seed: int) -> PairedVerdict:
    """Primed against unprimed: `better` is a prober that is answered sooner."""
    times = [(_first_ns(pair.unprimed), _first_ns(pair.primed)) for pair in pairs]
    order = "".join("AB" if pair.order == "up" else "BA" for pair in pairs)
    return compare_pairs(times, floor=None, seed=seed, higher_is_better=False, margin=margin, order=order)


def table(model: ModelSettings, found: Mapping[str, Sequence[Pair]], *, margin: float, seed: int) -> Table:
    """Every question."""
    rows: list[tuple[Value, ...]] = []
    for name, pairs in found.items():
        verdict = verdict_on(pairs, margin=margin, seed=seed)
        faster = sum(_first_ns(pair.primed) < _first_ns(pair.unprimed) for pair in pairs)
        rows.append((
            name,
            len(pairs),
            rounded(ratio(median(_first_ns(pair.unprimed) for pair in pairs), NS_PER_MS)),
            rounded(ratio(median(_first_ns(pair.primed) for pair in pairs), NS_PER_MS)),
            rounded(verdict.median_ratio),
            "" if verdict.low is None else f"{verdict.low:.4f} ... {verdict.high:.4f}",
            rounded(ratio(faster, len(pairs))),
            None if verdict.sign_p_value is None else rounded(verdict.sign_p_value),
            str(verdict.verdict),
            max((pair.primed.cached_tokens or 0 for pair in pairs), default=0),
            max((pair.unprimed.cached_tokens or 0 for pair in pairs), default=0),
        ))  # fmt: skip
    return Table(
        title="What a prober sees",
        label=http_label(model),
        heads=(
            "question", "pairs", "TTFT unprimed, ms", "TTFT primed, ms", "primed / unprimed", "95 % interval",
            "primed is sooner, share of pairs", "sign test p", "verdict", "cached, primed", "cached, unprimed",
        ),
        rows=tuple(rows),
        note="Half of the pairs sooner is chance. Medians over pairs; the ratio is taken pair by pair.",
    )  # fmt: skip


def _first_ns(life: ClientLife) -> float:
    return life.chunk_at[0] - life.sent_at if life.chunk_at and life.sent_at is not None else float("inf")
