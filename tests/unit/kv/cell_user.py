"""A CellManager with short verbs, for tests that tell a story."""

from collections.abc import Sequence

from arriero.core.events import KvOp
from arriero.core.ids import RequestId, SequenceId
from arriero.kv.cells import CellLayout, CellManager
from arriero.kv.protocol import ReleaseCause, Shortage, Started
from arriero.kv.reuse import ReuseFigures, ReuseRules

SYSTEM = tuple(range(1000, 1040))
"""40 tokens that many prompts begin with."""


class CellUser:
    """Requests on ids; each step is a second, and `ops` is what the last verb ordered."""

    def __init__(
        self,
        rules: ReuseRules | None = None,
        *,
        unified: bool = True,
        num_sequences: int = 4,
        num_cells: int = 1000,
        sequence_limit: int = 200,
    ) -> None:
        layout = CellLayout(
            num_sequences=num_sequences,
            num_cells=num_cells if unified else num_sequences * sequence_limit,
            sequence_limit=sequence_limit,
            unified=unified,
        )
        self.kv = CellManager(layout, reuse=ReuseRules() if rules is None else rules)
        self.ops: tuple[KvOp, ...] = ()
        self.known: dict[int, tuple[int, ...]] = {}
        self.num_prompt: dict[int, int] = {}
        self.num_requests = 0
        self.now = 0

    def step(self, now: int | None = None) -> None:
        """Begin the next step."""
        self.now = self.now + 1 if now is None else now
        self.kv.begin_step(self.now)
        self.take()

    def take(self) -> tuple[KvOp, ...]:
        """What was ordered, with the books checked."""
        self.ops = self.kv.take_ops()
        self.kv.check()
        return self.ops

    def ask(self, *prompt: int, scope: str | None = "a", num_known: int | None = None) -> Started | Shortage:
        """Look up and start, and leave the prompt to be computed."""
        hit = self.kv.lookup(prompt, scope, len(prompt) - 1)
        self.num_requests += 1
        started = self.kv.start(RequestId(self.num_requests), len(prompt) if num_known is None else num_known, 0, hit)
        self.take()
        if isinstance(started, Started):
            self.known[started.sequence_id] = prompt
            self.num_prompt[started.sequence_id] = len(prompt)
        return started

    def start(self, *prompt: int, scope: str | None = "a") -> Started:
        """The same of a prompt that fits, computed at once."""
        started = self.ask(*prompt, scope=scope)
        assert isinstance(started, Started), started
        self.kv.publish(started.sequence_id, len(prompt))
        return started

    def say(self, sequence_id: int, *answer: int) -> None:
        """Decode: one place and one token after the other."""
        for token in answer:
            assert self.kv.grow_each([SequenceId(sequence_id)])
            self.known[sequence_id] += (token,)
        self.take()

    def end(
        self,
        sequence_id: int,
        cause: ReleaseCause = ReleaseCause.COMPLETED,
        *,
        computed: Sequence[int] | None = None,
        keeps: bool = True,
    ) -> None:
        """Release with everything that is known, or with less."""
        kept = self.known.pop(sequence_id) if computed is None else computed
        self.kv.release(SequenceId(sequence_id), cause, 0, kept if keeps else None)
        self.take()

    def serve(self, *prompt: int, answer: Sequence[int] = (), scope: str | None = "a") -> Started:
        """A whole request, alone."""
        self.step()
        started = self.start(*prompt, scope=scope)
        ops = self.ops
        self.say(started.sequence_id, *answer)
        self.end(started.sequence_id)
        self.ops = ops + self.ops
        return started

    @property
    def figures(self) -> ReuseFigures:
        """Of a manager with rules."""
        figures = self.kv.reuse_figures()
        assert figures is not None
        return figures

    @property
    def lengths(self) -> dict[int | None, int]:
        """Retained runs by id, the least recently used first."""
        return {run.sequence_id: run.length for run in self.kv.retained() if not run.is_saved}
