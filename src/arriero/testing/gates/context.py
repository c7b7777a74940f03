"""GateContext: what a gate is given. It says how to get a backend of a shape, where the engine runs, and how large.

The published numbers are for 99 sequences; a gate derives every figure that it compares from its `GateSize`, so that
the same function runs small in tests.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from arriero.core.config import KvLayout
from arriero.core.ids import TokenId
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated, Placement
from arriero.testing.gates.backends import Backends, Shape

PROMPT: Final = "Hello, my name is"
NARRATIVE: Final = (
    "The drover led eleven mules along the river before the sun was up. Each carried two sacks of salt and one of them "
    "a small brass bell, which was the only sound between the hills. At the ford he counted them, as he did at every "
    "ford, and waited for the last to drink before he let the first one climb the other bank."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSize:
    """How large gates run.

    Attributes:
        num_sequences: requests of a full gate; at least 9 plus what waits.
        budgets: decode budgets, dealt round-robin over request numbers, ascending.
        cancel_after: tokens after which the cancel plan strikes: twice the first budget, below the second.
        num_pairs: half of the cancel plan: so many requests of the second budget and of the third.
        num_waiting: waiting requests of the gates on completed slots.
        load_clients, load_slots, load_requests: the closed loop.
        probe_lengths: prompts that arrive beside a decoding request.
        mixed_workloads: letters of the simulator's published workloads.
        exact_prompts: a request of each length, alone and together, in the gate of exactness.
        exact_answer: tokens that each of them is answered with.
        reuse_turns: of each of two conversations, in the gate of prefix reuse.
        reuse_requests: measured ones of its other workloads.
        reuse_layouts: of the KV memory that it tries without exact mode, which has one of its own.
        reuse_tells: whether it counts what reuse changes without exact mode: told, not judged, and it takes as long as
            all that is judged there.
        words: for reports.
    """

    num_sequences: int
    budgets: tuple[int, int, int]
    cancel_after: int
    num_pairs: int
    num_waiting: int
    load_clients: int = 16
    load_slots: int = 4
    load_requests: int = 320
    probe_lengths: tuple[int, ...] = (11, 79, 251, 977)
    mixed_workloads: str = "ABCDEFM"
    exact_prompts: tuple[int, ...] = (40, 53, 66, 79, 92, 105, 118, 131)
    exact_answer: int = 24
    reuse_turns: int = 6
    reuse_requests: int = 12
    reuse_layouts: tuple[KvLayout, ...] = (KvLayout.UNIFIED, KvLayout.SEPARATE)
    reuse_tells: bool = True
    words: str

    @property
    def cancel_plan(self) -> tuple[int, ...]:
        """Request numbers: the first ones of the second budget, then of the third; published: 1, 4, 7, 2, 5, 8."""
        return tuple(first + 3 * i for first in (1, 2) for i in range(self.num_pairs))

    def budget_of(self, number: int) -> int:
        """The decode budget of a request by its number."""
        return self.budgets[number % len(self.budgets)]


PUBLISHED: Final = GateSize(
    num_sequences=99, budgets=(8, 64, 256), cancel_after=16, num_pairs=3, num_waiting=9, words="published"
)
SMALL: Final = GateSize(
    num_sequences=12,
    budgets=(4, 12, 24),
    cancel_after=8,
    num_pairs=1,
    num_waiting=2,
    load_requests=40,
    probe_lengths=(11, 79),
    mixed_workloads="BM",
    exact_prompts=(9, 24, 33, 46, 65, 85),
    exact_answer=12,
    reuse_turns=3,
    reuse_requests=2,
    reuse_layouts=(KvLayout.UNIFIED,),
    reuse_tells=False,
    words="small",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateContext:
    """What a gate is given.

    Attributes:
        backends: where it gets its memory and decode calls from.
        placement: where its engines run.
        size: how large.
        interrupts: whether a cancel may end a decode call; the figures that are compared hold either way.
        on_progress: told in a few words what is being done; called from anywhere.
    """

    backends: Backends
    placement: Placement
    size: GateSize
    interrupts: bool = False
    on_progress: Callable[[str], None] = lambda _: None

    def with_interrupts(self, options: EngineOptions) -> EngineOptions:
        """The options of an engine, with interrupts if they are asked for: of any call, however short."""
        return replace(options, interrupt_after_ms=0.0) if self.interrupts else options

    @property
    def placement_word(self) -> str:
        """`dedicated` or `shared`."""
        return "dedicated" if isinstance(self.placement, Dedicated) else "shared"

    @property
    def prompt(self) -> tuple[TokenId, ...]:
        """The tokens of the usual prompt; its length is P."""
        return tuple(self.backends.vocabulary.encode(PROMPT, add_special=True, parse_special=False))

    def shape_of_mix(self, num_sequences: int) -> Shape:
        """So many slots, and as many usual prompts preloaded, with the budgets of this size."""
        num_prompt = len(self.prompt)
        return Shape(
            num_sequences=num_sequences,
            positions=num_prompt + max(self.size.budgets),
            preloaded_rows=num_prompt * num_sequences,
        )

    def tokens(self, length: int, start: int = 0) -> tuple[TokenId, ...]:
        """A prompt of exactly so many tokens; another `start` gives another content."""
        story = self.backends.vocabulary.encode(NARRATIVE, add_special=False, parse_special=False)
        return tuple(story[(start + i) % len(story)] for i in range(length))
