"""`arriero gate exactness --requests N`: requests by chance in company, cached and not, against each of them alone.

The requests come in episodes. Each has an engine of its own, whose slots, caps, reuse, scopes, host store and company
are drawn by chance from the seed; all of them are compared with one book of answers alone. In exact mode nothing may
differ, in any bit. In fast mode what differs is told, with the gap of the two tokens' logits.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final

from arriero.backend.protocol import KvExhausted
from arriero.core.events import PrefixSource
from arriero.core.plan import Row
from arriero.core.request import FinishReason
from arriero.engine.options import EngineOptions
from arriero.engine.swapping import WHATEVER_IT_COSTS
from arriero.kv.reuse import EvictionCause, ReuseRules
from arriero.scheduler.draft import PrefillBudget
from arriero.testing.faults import Fault
from arriero.testing.gates.backends import Shape
from arriero.testing.gates.company import Company, Scoping, Verdict, keep_company
from arriero.testing.gates.context import GateContext
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.mixture import Asked, MixtureMaker, MixtureSize
from arriero.testing.gates.solo import Solo, SoloBook
from arriero.testing.gates.turns import reuse_at_end

REQUESTS_AN_EPISODE: Final = 50
CAPS: Final = (None, None, 3, 5, 17, 37, 64, 128)
MAX_TOLD: Final = 12
MANY_CALLS: Final = 250
"""About so many calls an episode has."""

NUM_SQUEEZED: Final = 12
SWAP_ROOMS: Final = (4000, 300, 0)
ENOUGH: Final = 50
"""With so many requests, chance has brought everything that is promised to have happened."""


class Mode(StrEnum):
    """Under which composition."""

    EXACT = "exact"
    FAST = "fast"


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """The engine of some of the requests.

    Attributes:
        slots: requests that run at once.
        width: requests that are there at once.
        retained: sequence ids beside the slots.
        host_tokens: room of the host store.
        scoping: who may see whose prefixes; `NONE` for no reuse.
        budget: caps of prompt rows.
        squeezed: decode calls that find no place in memory, so that somebody is preempted.
        swap_tokens: room for what it has computed; without it is computed again.
    """

    slots: int
    width: int
    retained: int
    host_tokens: int
    scoping: Scoping
    budget: PrefillBudget
    squeezed: tuple[int, ...]
    swap_tokens: int = 0

    @property
    def words(self) -> str:
        """As a person reads it."""
        caps = f"caps {self.budget.per_sequence or '-'}/{self.budget.per_step or '-'}"
        store = f"{self.retained} ids more, host store of {self.host_tokens} tokens"
        return f"{self.slots} slots, {self.width} at once, {caps}, reuse {self.scoping}, {store}"

    def rules(self, mode: Mode) -> ReuseRules | None:
        """The rules of reuse, or None."""
        if self.scoping is Scoping.NONE:
            return None
        if mode is Mode.EXACT:
            return ReuseRules(keeps_answers=False, min_suffix=2, host_tokens=self.host_tokens)
        return ReuseRules(host_tokens=self.host_tokens)


def episode_of(number: int, chance: random.Random) -> Episode:
    """One by chance; each kind of scoping has its turn."""
    slots = chance.randint(2, 8)
    scoping = list(Scoping)[number % len(Scoping)]
    reuses = scoping is not Scoping.NONE
    return Episode(
        slots=slots,
        width=chance.randint(2, slots + 4),
        retained=chance.choice((0, 0, 2, 4)) if reuses else 0,
        host_tokens=chance.choice((0, 600, 4000)) if reuses else 0,
        scoping=scoping,
        budget=PrefillBudget(chance.choice(CAPS), chance.choice(CAPS)),
        squeezed=tuple(chance.sample(range(MANY_CALLS), NUM_SQUEEZED)),
        swap_tokens=SWAP_ROOMS[number % len(SWAP_ROOMS)],
    )


class Squeezed(Fault):
    """Decode calls of certain numbers find no place, where they have rows of several sequences: somebody must yield."""

    def __init__(self, *calls: int) -> None:
        """Name the calls; one with a single sequence is let go, since nobody could yield to it."""
        self._calls = frozenset(calls)

    def before_decode(self, call: int, rows: Sequence[Row]) -> None:
        """Refuse if it is one of the calls."""
        if call in self._calls and len(rows) > 1:
            message = f"decode call {call} was told to find no place"
            raise KvExhausted(message, code="kv_exhausted")


class Mix:
    """A gate: so many requests from a seed, in one mode."""

    def __init__(self, mode: Mode, num_requests: int, seed: int, size: MixtureSize | None = None) -> None:
        """The same seed gives the same requests and the same engines."""
        self._mode = mode
        self._num_requests = num_requests
        self._seed = seed
        self._size = MixtureSize() if size is None else size

    async def check(self, context: GateContext, findings: Findings) -> None:
        """Every request alone, then all of them in company."""
        chance = random.Random(self._seed)
        shape = Shape(num_sequences=1, positions=self._size.positions, exact=self._mode is Mode.EXACT)
        options = EngineOptions(exact=self._mode is Mode.EXACT)
        findings.count("seed", self._seed)
        companies: list[Company] = []
        async with SoloBook(context, findings, shape, options) as solo:
            maker = MixtureMaker(context, solo, self._size, chance)
            for number, first in enumerate(range(0, self._num_requests, REQUESTS_AN_EPISODE)):
                count = min(REQUESTS_AN_EPISODE, self._num_requests - first)
                context.on_progress(f"requests {first + 1} to {first + count} alone")
                asked = await maker.make(first, count)
                solos = {each.number: await solo.answer(each.prompt, each.max_tokens) for each in asked}
                episode = episode_of(number, chance)
                context.on_progress(f"requests {first + 1} to {first + count} together: {episode.words}")
                companies.append(await self._together(context, findings, asked, solos, episode))
            findings.count("prompts_alone", len(solo))
        judge(findings, self._mode, companies)

    async def _together(
        self,
        context: GateContext,
        findings: Findings,
        asked: Sequence[Asked],
        solos: Mapping[int, Solo],
        episode: Episode,
    ) -> Company:
        exact = self._mode is Mode.EXACT
        company = await keep_company(
            context,
            findings,
            asked,
            solos,
            shape=Shape(
                num_sequences=episode.slots + episode.retained,
                positions=self._size.positions,
                exact=exact,
                host_tokens=max(episode.host_tokens, episode.swap_tokens),
            ),
            options=EngineOptions(
                exact=exact,
                budget=episode.budget,
                reuse=episode.rules(self._mode),
                retained=episode.retained,
                swap=WHATEVER_IT_COSTS if episode.swap_tokens else None,
                swap_tokens=episode.swap_tokens,
            ),
            width=episode.width,
            scoping=episode.scoping,
            faults=[Squeezed(*episode.squeezed)],
        )
        different = [verdict for verdict in company.verdicts if verdict.place is not None]
        if different:
            findings.notes.append(f"of {episode.words}:")
        findings.notes.extend(islice(map(line_of, different), max(0, MAX_TOLD - len(findings.notes))))
        return company


def judge(findings: Findings, mode: Mode, companies: Sequence[Company]) -> None:
    """Count what happened, and compare it with what the mode promises."""
    verdicts = [verdict for company in companies for verdict in company.verdicts]
    findings.count("requests", len(verdicts))
    findings.count("whole", sum(verdict.is_whole for verdict in verdicts))
    cancelled = sum(verdict.result.reason is FinishReason.CANCELLED for verdict in verdicts)
    findings.count("cancelled", cancelled)
    findings.equal("failed", sum(verdict.result.reason in _BAD_ENDS for verdict in verdicts), 0)
    count_reuse(findings, companies)
    preempted = sum(verdict.result.num_preemptions > 0 for verdict in verdicts)
    num_rows = sum(company.num_rows for company in companies)
    unlike_rows = sum(company.num_unlike_rows for company in companies)
    different = sum(verdict.place is not None for verdict in verdicts)
    findings.count("rows_compared", num_rows)
    if mode is Mode.EXACT:
        findings.equal("rows_different", unlike_rows, 0)
        findings.equal("different", different, 0)
        if len(verdicts) >= ENOUGH:
            findings.holds("something was reused", holds=any(verdict.result.cached_tokens for verdict in verdicts))
            findings.holds("somebody cancelled, and somebody was preempted", holds=cancelled > 0 and preempted > 0)
        return
    findings.count("rows_different", unlike_rows)
    findings.count("different", different)
    findings.count("mismatch_percent", round(100 * different / len(verdicts), 2))
    near = [verdict.gap.logits for verdict in verdicts if verdict.gap is not None]
    findings.count("widest_gap", float(f"{max(near, default=0.0):.3g}"))


_BAD_ENDS: Final = (FinishReason.FAILED, FinishReason.ABORTED)


def count_reuse(findings: Findings, companies: Sequence[Company]) -> None:
    """Note what was reused and what had to go, over all engines that had rules of reuse."""
    sources: Counter[PrefixSource] = Counter()
    causes: Counter[EvictionCause] = Counter()
    saves = 0
    for company in companies:
        if company.run.summary.snapshot.scheduler.reuse is not None:
            figures = reuse_at_end(company.run)
            sources.update(figures.cached_tokens)
            causes.update(figures.evictions)
            saves += figures.saves
    findings.count("preemptions", sum(each.run.summary.snapshot.totals.preemptions for each in companies))
    for source in PrefixSource:
        if sources[source]:
            findings.count(f"cached_{source}", sources[source])
    for cause in EvictionCause:
        if causes[cause]:
            findings.count(f"evicted_{cause}", causes[cause])
    findings.count("saved", saves)


def line_of(verdict: Verdict) -> str:
    """Where an answer leaves the one alone, as a person reads it."""
    asked, result = verdict.asked, verdict.result
    assert verdict.place is not None, "it differs"
    cached = f", {result.cached_tokens} cached" if result.cached_tokens else ""
    bits = "" if verdict.bits_place is None else f", other bits from place {verdict.bits_place} on"
    return (
        f"request {asked.number} ({len(asked.prompt)} prompt tokens{cached}): first other token at place "
        f"{verdict.place} of {len(result.tokens)}, logit gap {verdict.gap}{bits}"
    )
