"""Planner: which rows make up a step.

A planner is one method that offers candidates to a draft in an order of its own. It keeps no state between steps
unless its docstring says so, and it cannot exceed a limit: the draft holds all of them.
"""

from collections.abc import Sequence
from typing import Protocol

from arriero.core.errors import ConfigError
from arriero.core.plan import Deferral
from arriero.core.request import RequestState
from arriero.scheduler.draft import StepDraft
from arriero.scheduler.progress import Progress
from arriero.scheduler.starts import InOrder, Starts
from arriero.scheduler.waiting import Offers

_SHORTEST_CUT = 3
"""Rows that a chunk must be able to have, so that two can be taken where three would leave one over."""


class Planner(Protocol):
    """Fills a step."""

    def fill(self, draft: StepDraft, running: Sequence[Progress], waiting: Offers) -> None:
        """Offer candidates.

        Args:
            draft: the step.
            running: requests that hold a slot, in admission order, or by rank where the policy says so; changes while
                slots are handed out or taken away.
            waiting: requests without a slot, in the order in which the policy offers them in this step.
        """
        ...


class DecodeFirst:
    """Every decoding request gets its row, then prompts share what is left, each in the order of `running`.

    A slot and KV decide whether a waiting request starts, not rows: one that finds no row left begins in the next step.
    """

    def __init__(self, starts: Starts | None = None) -> None:
        """`starts` offers the waiting requests; in order, unless it is given."""
        self._starts: Starts = InOrder() if starts is None else starts

    def fill(self, draft: StepDraft, running: Sequence[Progress], waiting: Offers) -> None:
        """Decode rows, then admissions, then prompt rows."""
        num_rows = decode_all(draft, running)
        self._starts.start(draft, waiting)
        if num_rows < len(running):
            for progress in answers_first(running):
                draft.prefill(progress)


class LeadersFirst:
    """As `DecodeFirst`, but each prompt takes its rows before the next one starts, which may then share them."""

    def fill(self, draft: StepDraft, running: Sequence[Progress], waiting: Offers) -> None:
        """Decode rows, prompts under way, then each head starts and takes its prompt rows."""
        decode_all(draft, running)
        for progress in tuple(running):
            if progress.state is RequestState.PREFILLING:
                draft.prefill(progress)
        while (head := waiting.head()) is not None and draft.start(head) is None:
            draft.prefill(head)


class ByArrival:
    """Decode rows and prompt rows in the policy's order, so an older prompt goes before a younger answer.

    A head that does not fit keeps those behind it waiting, while those who run go on.
    """

    def fill(self, draft: StepDraft, running: Sequence[Progress], waiting: Offers) -> None:
        """Whoever is next by rank; running ones go on, waiting ones start."""
        is_open = True
        for progress in (*sorted(running, key=lambda each: each.rank), None):
            while is_open and (head := waiting.head()) is not None and (progress is None or head.rank < progress.rank):
                is_open = draft.start(head) is None
                if is_open:
                    draft.prefill(head)
            if progress is not None:
                go_on(draft, progress)


class BySlot:
    """As `DecodeFirst`, in the order of the slots instead of that of admission."""

    def __init__(self) -> None:
        """Who waits starts in order."""
        self._starts = InOrder()

    def fill(self, draft: StepDraft, running: Sequence[Progress], waiting: Offers) -> None:
        """Decode rows, then admissions, then prompt rows."""
        decode_all(draft, in_slot_order(running))
        self._starts.start(draft, waiting)
        for progress in in_slot_order(running):
            if progress.state is RequestState.PREFILLING:
                draft.prefill(progress)


class CallsApart:
    """A call of its own for each slot: a pool of contexts, each of which serves one request at a time."""

    def __init__(self) -> None:
        """Rows are limited for each sequence only, by the budget of the scheduler's limits."""
        self._rows = BySlot()

    def fill(self, draft: StepDraft, running: Sequence[Progress], waiting: Offers) -> None:
        """One decode row, or a chunk of the prompt, for each."""
        draft.compute_apart()
        self._rows.fill(draft, running, waiting)


class PhasesApart:
    """Prefill and decode in calls of their own, one prompt a call, no chunk of one row: the exact mode's composition.

    Which kernel computes a row depends on its company: a row alone in its sequence takes another attention path than
    two or more, and the weights' kernels may depend on the number of rows. Under this rule a request's rows meet the
    same paths whatever else runs. A request that resumes after preemption computes its prompt as before and then its
    own answer one row at a time, beside the decode rows, since that is how the answer was computed the first time.
    Prefill and decode steps alternate while both have work, so neither waits for the end of the other.

    Keeps one bit between steps: whose turn it is.
    """

    def __init__(self, *, max_chunk: int, starts: Starts | None = None) -> None:
        """Nothing is planned yet.

        Args:
            max_chunk: the micro-batch; a longer chunk would be cut inside llama.cpp, at its own places.
            starts: offers the waiting requests; in order, unless it is given.

        Raises:
            ConfigError: it is below 3, which is too little to cut every prompt without a chunk of one row.
        """
        if max_chunk < _SHORTEST_CUT:
            message = f"a micro-batch of {max_chunk} rows leaves chunks of one row; exact mode needs {_SHORTEST_CUT}"
            raise ConfigError(message)
        self._max_chunk = max_chunk
        self._starts: Starts = InOrder() if starts is None else starts
        self._prefill_next = True

    def fill(self, draft: StepDraft, running: Sequence[Progress], waiting: Offers) -> None:
        """One chunk of one prompt, or every decode row."""
        self._starts.start(draft, waiting)
        if self._prefill_next and self._prefill(draft, running):
            self._prefill_next = False
        elif self._decode(draft, running):
            self._prefill_next = True
        else:
            # Nobody decodes, or those who did have yielded their places: then it is not their turn either.
            self._prefill(draft, running)

    def _prefill(self, draft: StepDraft, running: Sequence[Progress]) -> bool:
        """One chunk of the first prompt in turn; whether there was one."""
        for progress in running:
            if remaining := progress.num_prompt_remaining:
                draft.let_wait((each for each in running if not each.num_prompt_remaining), progress)
                allowed = draft.chunk_limit(progress, min(self._max_chunk, remaining))
                return draft.prefill(progress, self._chunk(remaining, allowed)) is None
        return False

    def _decode(self, draft: StepDraft, running: Sequence[Progress]) -> bool:
        """Every decode row, and one row of each answer that is computed again; whether there were any."""
        num_rows = decode_all(draft, running)
        for progress in running:
            if progress.state is RequestState.PREFILLING and not progress.num_prompt_remaining:
                num_rows += draft.prefill(progress, 1) is None
        return num_rows > 0

    def _chunk(self, remaining: int, rows_left: int) -> int:
        """Rows of the next chunk: as many as fit, but never leave one row over, since it would be computed alone.

        Caps below 3 rows cannot avoid that; the prompt gets on all the same.
        """
        limit = min(self._max_chunk, rows_left, remaining)
        return limit - 1 if remaining == limit + 1 and limit >= _SHORTEST_CUT else limit


def go_on(draft: StepDraft, progress: Progress) -> Deferral | None:
    """Offer the next row or chunk of a request that runs; one that has lost its place meanwhile has none."""
    match progress.state:
        case RequestState.DECODING:
            return draft.decode(progress)
        case RequestState.PREFILLING:
            return draft.prefill(progress)
        case _:
            return Deferral.YIELDED


def answers_first(running: Sequence[Progress]) -> list[Progress]:
    """Those who have not computed all known tokens, in turn; who lacks one token for the next one of an answer first.

    That is who has just got its own KV back: its one row is a decode row in all but name, and waits behind no prompt.
    """
    prefilling = [progress for progress in running if progress.state is RequestState.PREFILLING]
    if len(prefilling) > 1:
        prefilling.sort(key=lambda progress: progress.num_remaining > 1 or not progress.num_decoded)
    return prefilling


def in_slot_order(running: Sequence[Progress]) -> list[Progress]:
    """The same requests, ascending by sequence id."""
    return sorted(running, key=lambda progress: progress.held_sequence)


def decode_all(draft: StepDraft, running: Sequence[Progress]) -> int:
    """Offer a row for each decoding request, in turn; returns how many were taken.

    One by one only if not all of them fit. It then looks at the state again before each: room for one may have been
    taken from a later one.
    """
    decoding = [progress for progress in running if progress.state is RequestState.DECODING]
    if not decoding or draft.decode_together(decoding):
        return len(decoding)
    num_rows = 0
    for progress in decoding:
        if progress.state is RequestState.DECODING and draft.decode(progress) is None:
            num_rows += 1
    return num_rows
