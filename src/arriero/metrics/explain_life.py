"""Life: one request while a run is explained, and how it is told at any moment."""

from dataclasses import dataclass

from arriero.metrics.explain_ledger import Blame, Ledger
from arriero.metrics.explain_origins import Leader, Line, Span, extend, length, waits
from arriero.metrics.explain_parts import (
    DECODE,
    HOST,
    OTHERS_DECODE,
    OWN_PREFILL,
    PREEMPTED,
    PREFIX,
    QUEUE,
    RECOMPUTED,
    REDONE,
    SWAP,
    Basis,
    Ending,
    Explanation,
    Moments,
    Split,
)
from arriero.metrics.explain_shares import CallSplit, PromptTime


@dataclass(slots=True)
class _Facts:
    """What is told beside the time that things took."""

    arrival_at: int
    prompt_tokens: int
    cached_tokens: int = 0
    num_tokens: int = 0
    num_preemptions: int = 0
    started_at: int | None = None
    first_at: int | None = None
    last_at: int | None = None


class Life:
    """One request, from its arrival to its end; its books are complete up to `since` while it waits.

    Attributes:
        request_id: its name.
        since: from when on it waits; without meaning while it holds a slot.
        leader: its present or latest start, for whom others may wait.
    """

    __slots__ = ("_facts", "_followed", "_ledger", "_lost", "_next", "_waits", "leader", "request_id", "since")

    def __init__(self, request_id: int, arrival_at: int, prompt_tokens: int) -> None:
        """It waits."""
        self.request_id = request_id
        self.since = arrival_at
        self.leader = Leader(request_id)
        self._facts = _Facts(arrival_at, prompt_tokens)
        self._ledger = Ledger()
        self._waits = Blame()
        self._lost = 0  # positions that were computed before it was preempted
        self._followed: list[Span] = []  # when it waited for a prefix, before its first start
        self._next: int | None = None  # position that its prompt is at; None if it is not under way

    @property
    def was_preempted(self) -> bool:
        """Whether it held a slot before."""
        return self._facts.num_preemptions > 0

    # ── what happens to it ──────────────────────────────────────────────────────────────────────────────────────────

    def start(self, now: int, num_cached: int, line: Line) -> None:
        """It gets a slot; `line` says who computed what is there already."""
        for part, time in enumerate(self._waited(now).values):
            self._ledger.spend(part, time)
        self._next = num_cached
        facts = self._facts
        if facts.started_at is None:
            facts.started_at, facts.cached_tokens = now, num_cached
            for share in waits(line, self._followed, num_cached):
                self._waits.add(*share)

    def put_back(self, now: int, num_computed: int) -> None:
        """It loses its slot, with so many positions computed."""
        self.since = now
        self._lost = num_computed
        self._next = None
        self._facts.num_preemptions += 1
        self.leader = Leader(self.request_id)

    def idle(self, time: int) -> None:
        """Nothing was computed while it held a slot."""
        self._ledger.spent[HOST] += time

    def decoded(self, host: int, decode: int) -> None:
        """A step in which it had a decode row."""
        spent = self._ledger.spent
        spent[HOST] += host
        spent[DECODE] += decode

    def looked_on(self, host: int, decode: int) -> None:
        """A step in which others had decode rows, and it had none."""
        self._ledger.spent[HOST] += host
        self._ledger.spend(OTHERS_DECODE, decode)

    def follow(self, before: int, span: Span) -> None:
        """A step in which it waits for a prefix; `before` is the end of the step before."""
        if not self.was_preempted:
            extend(self._followed, before, span)

    def lead(self, before: int, span: Span) -> None:
        """A step in which somebody waits for a prefix: for this one's, perhaps, if its prompt is under way."""
        if self._next is not None:
            self.leader.lead(before, span, self._next)

    def redo(self, host: int, compute: int) -> None:
        """A decode call that gave nothing."""
        self._ledger.spent[HOST] += host
        self._ledger.spend(REDONE, compute)

    def prompts(self, call: CallSplit) -> None:
        """The prompt rows of a step, its own ones or not."""
        for prompt in call.prompts:
            if prompt.work.request_id == self.request_id:
                self._own_prompt(prompt)
            else:
                self._ledger.blame(prompt.work.request_id, prompt.time)

    def swap(self, time: int) -> None:
        """So much of what the host took was for saving or restoring its KV."""
        self._ledger.spend(SWAP, time)

    def tokens(self, now: int, number: int = 1) -> None:
        """New tokens, the first of them now; more than one only where nothing but decode rows comes between them."""
        facts = self._facts
        self._next = None
        self._ledger.token(facts.num_tokens, now)
        facts.num_tokens += number
        facts.last_at = now
        if facts.first_at is None:
            facts.first_at = now

    # ── what is told ────────────────────────────────────────────────────────────────────────────────────────────────

    def explained(self, ending: Ending, until: int, basis: Basis, *, is_waiting: bool) -> Explanation:
        """Its story until now, whether or not it has ended; the books stay as they are."""
        facts, ledger = self._facts, self._ledger
        until_first, between, closing = ledger.splits()
        if is_waiting:
            waited = self._waited(until)
            if facts.first_at is None:
                until_first += waited
            else:
                closing += waited
        return Explanation(
            request_id=self.request_id,
            ending=ending,
            moments=Moments(
                arrival=facts.arrival_at,
                started=facts.started_at,
                first_token=facts.first_at,
                last_token=facts.last_at,
                until=until,
            ),
            prompt_tokens=facts.prompt_tokens,
            cached_tokens=facts.cached_tokens,
            num_tokens=facts.num_tokens,
            num_preemptions=facts.num_preemptions,
            until_first=until_first,
            between=between,
            closing=closing,
            others=ledger.others(),
            leaders=waits((), self._followed, 0) if facts.started_at is None else self._waits.shares(),
            gaps=ledger.gaps(),
            basis=basis,
        )

    def _waited(self, now: int) -> Split:
        """What went by since it waits."""
        time = now - self.since
        if self.was_preempted:
            return Split.only(PREEMPTED, time)
        followed = length(self._followed)
        return Split.only(PREFIX, followed) + Split.only(QUEUE, time - followed)

    def _own_prompt(self, prompt: PromptTime) -> None:
        """What it had computed before it was preempted is computed a second time."""
        work, time = prompt
        self._next = work.start + work.num_rows
        again = min(work.num_rows, max(0, self._lost - work.start))
        twice = time * again // work.num_rows if again else 0
        self._ledger.spend(RECOMPUTED, twice)
        self._ledger.spend(OWN_PREFILL, time - twice)
