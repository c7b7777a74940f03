"""Explainer: a fold over the steps of a run that says where the time of each request went.

It is told what happened, in order, and moves along with it:

    idle ── events of messages and plan ── computed ── events of the commit ── idle ...

Live engine, simulator and journal tell the same, so one fold explains all of them: `explain_events` reads the values of
the scheduler, the report of a journal reads its records. Who waits costs nothing until something happens to it; a step
costs O(requests that hold a slot), and O(that x prompts) where prompts are computed.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from arriero.metrics.explain_life import Life
from arriero.metrics.explain_origins import Leader, Origins, Span
from arriero.metrics.explain_parts import Ending, Explanation, State
from arriero.metrics.explain_shares import CallSplit, Shares, Work


class Step(NamedTuple):
    """Rows that were run.

    Attributes:
        ended_at: when they were taken over.
        compute: inside the decode call; more than the step took counts as all of it.
        decoding: requests with a decode row.
        rows: of all requests, ascending by sequence id; need not be given where all of them are decode rows.
        is_redone: whether nothing was computed, so that the rows come again.
        followers: requests that waited for a prefix that was being computed.
    """

    ended_at: int
    compute: int
    decoding: Collection[int]
    rows: Sequence[Work] = ()
    is_redone: bool = False
    followers: Collection[int] = ()


class Explainer:
    """The fold over one run; times are whole microseconds on one line and never go back.

    Attributes:
        origins: told what is copied, moved, saved, restored and cleared, among the events of a step.
    """

    def __init__(self, tell: Callable[[Explanation], None], shares: Shares | None = None) -> None:
        """`tell` gets each request when it ends; without `shares` steps are divided in proportion to rows."""
        self.origins = Origins()
        self._tell = tell
        self._shares = Shares() if shares is None else shares
        self._waiting: dict[int, Life] = {}
        self._running: dict[int, Life] = {}
        self._swapping: list[Life] = []  # whose KV is saved or restored in this step
        self._now = 0
        self._ended_at = 0  # of the last step with rows

    def __len__(self) -> int:
        """Requests that are alive."""
        return len(self._waiting) + len(self._running)

    # ── time passes ─────────────────────────────────────────────────────────────────────────────────────────────────

    def idle(self, until: int) -> None:
        """Nothing is computed until then; a new step begins."""
        time = until - self._now
        self._now = until
        self._swapping.clear()
        self.origins.begin_step()
        if time:
            for life in self._running.values():
                life.idle(time)

    def computed(self, step: Step) -> None:
        """The rows of a step have run since the last moment told; whoever has started by then takes part in it."""
        began_at, compute = self._now, min(step.compute, step.ended_at - self._now)
        host = step.ended_at - began_at - compute
        if step.followers:
            self._follow(step.followers, Span(began_at, step.ended_at))
        if step.is_redone:
            for life in self._running.values():
                life.redo(host, compute)
        else:
            self._share_out(step, host, self._shares.divide(step.rows, compute) if step.rows else None, compute)
        if host and self._swapping:
            self._swap(host)
        self._now = self._ended_at = step.ended_at

    # ── what happens to requests, at the last moment told ───────────────────────────────────────────────────────────

    def came(self, request_id: int, arrival_at: int, prompt_tokens: int) -> None:
        """A request waits."""
        self._waiting[request_id] = Life(request_id, min(arrival_at, self._now), prompt_tokens)

    def refused(self, request_id: int, arrival_at: int, prompt_tokens: int, error: str) -> None:
        """A request was not taken; it may bear the name of one that is alive."""
        life = Life(request_id, min(arrival_at, self._now), prompt_tokens)
        self._tell(self._explained(life, Ending(State.REFUSED, error), is_waiting=True))

    def started(self, request_id: int, sequence_id: int, num_cached: int) -> None:
        """A request gets a slot, the first time or again."""
        life = self._waiting.pop(request_id, None)
        leader = Leader(request_id) if life is None else life.leader
        line = self.origins.start(leader, sequence_id, is_filled=num_cached > 0)
        if life is None:
            return  # nobody knows when it came
        if life.was_preempted and self.origins.was_swapped(sequence_id):
            self._swapping.append(life)
        life.start(self._now, num_cached, line)
        self._running[request_id] = life

    def put_back(self, request_id: int, sequence_id: int, num_computed: int) -> None:
        """A request loses its slot."""
        life = self._running.pop(request_id, None)
        if life is None:
            return
        if self.origins.was_swapped(sequence_id):
            self._swapping.append(life)
        life.put_back(self._now, num_computed)
        self._waiting[request_id] = life

    def tokens(self, request_ids: Iterable[int], number: int = 1) -> None:
        """New tokens for each of these."""
        for request_id in request_ids:
            self.token(request_id, number)

    def token(self, request_id: int, number: int = 1) -> None:
        """New tokens of one request: more than one only where it had nothing but decode rows meanwhile."""
        life = self._running.get(request_id)
        if life is not None:
            life.tokens(self._now, number)

    def ended(self, request_id: int, ending: Ending) -> None:
        """A request has ended, waiting or running."""
        is_waiting = request_id in self._waiting
        life = (self._waiting if is_waiting else self._running).pop(request_id, None)
        if life is not None:
            self._tell(self._explained(life, ending, is_waiting=is_waiting))

    # ── the run ends, or its records do ─────────────────────────────────────────────────────────────────────────────

    def cut(self) -> None:
        """The run is over, whoever is alive."""
        for request_id in (*self._running, *self._waiting):
            self.ended(request_id, Ending(State.UNFINISHED))
        self.lose_track()

    def lose_track(self) -> int:
        """Records are missing: what becomes of those alive is not known any more; returns how many they were."""
        number = len(self)
        self._running.clear()
        self._waiting.clear()
        self._swapping.clear()
        self.origins.clear()
        return number

    # ── what is told of those alive ─────────────────────────────────────────────────────────────────────────────────

    def find(self, request_id: int) -> Explanation | None:
        """The story so far of a request that is alive; None: there is no such request."""
        life = self._running.get(request_id)
        if life is not None:
            return self._explained(life, Ending(State.RUNNING), is_waiting=False)
        life = self._waiting.get(request_id)
        return None if life is None else self._explained(life, Ending(State.WAITING), is_waiting=True)

    # ── helpers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _follow(self, followers: Collection[int], span: Span) -> None:
        """Note who waited for a prefix, and whose prompts were under way."""
        for request_id in followers:
            if (life := self._waiting.get(request_id)) is not None:
                life.follow(self._ended_at, span)
        for life in self._running.values():
            life.lead(self._ended_at, span)

    def _share_out(self, step: Step, host: int, call: CallSplit | None, compute: int) -> None:
        """Give each request its view of a step; without a `call` there were decode rows only."""
        decode = compute if call is None else call.decode
        decoding = step.decoding
        for request_id, life in self._running.items():
            if request_id in decoding:
                life.decoded(host, decode)
            else:
                life.looked_on(host, decode)
            if call is not None and call.prompts:
                life.prompts(call)

    def _swap(self, host: int) -> None:
        """What the host took is for those whose KV was saved or restored; who was put back has waited less for it."""
        for life in self._swapping:
            if life.request_id in self._running:
                life.idle(-host)
            else:
                life.since += host
            life.swap(host)

    def _explained(self, life: Life, ending: Ending, *, is_waiting: bool) -> Explanation:
        return life.explained(ending, self._now, self._shares.basis, is_waiting=is_waiting)
