"""GateContext: what a gate is given. It says how to get a backend of a shape, where the engine runs, and how large.

The published numbers are for 99 sequences; a gate derives every figure that it compares from its `GateSize`, so that
the same function runs small in tests.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from arriero.backend.context import ContextOptions, FlashAttention
from arriero.backend.llama_cpp import LlamaCppBackend
from arriero.backend.llama_model import LlamaModel
from arriero.backend.protocol import Backend
from arriero.core.config import ServeConfig
from arriero.core.config import FlashAttention as FlashWord
from arriero.core.config import KvLayout
from arriero.core.ids import TokenId
from arriero.engine.placement import Dedicated, Placement
from arriero.tokens.vocabulary import Vocabulary

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
    load_requests=64,
    words="small",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a gate asks of a backend.

    Attributes:
        num_sequences: slots.
        positions: what one sequence must be able to hold, at least.
        num_rows: rows of one decode call; None takes the configured batch.
        exact: memory in which a request's bits need not depend on its company.
        as_configured: layout and attention exactly as configured, whatever that means for the tokens.
    """

    num_sequences: int
    positions: int
    num_rows: int | None = None
    exact: bool = False
    as_configured: bool = False


class Backends(Protocol):
    """Makes backends over one model."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's tokens."""
        ...

    def make(self, shape: Shape) -> Backend:
        """A fresh backend, whose owner closes it."""
        ...


class LlamaBackends:
    """Contexts of one loaded model, which must outlive them."""

    def __init__(self, model: LlamaModel, vocabulary: Vocabulary, config: ServeConfig) -> None:
        """`config` gives threads, batch, and the context's share of one sequence."""
        self._model = model
        self._vocabulary = vocabulary
        self._config = config

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's tokens."""
        return self._vocabulary

    def make(self, shape: Shape) -> LlamaCppBackend:
        """A fresh context; flash attention is off unless it is asked for, since it makes tokens depend on company."""
        config = self._config
        cells = max(shape.positions, config.ctx_size // config.sequences)
        flash = config.flash_attn
        if shape.exact or (flash is FlashWord.AUTO and not shape.as_configured):
            flash = FlashWord.OFF
        threads = config.threads
        options = ContextOptions(
            ctx_size=config.ctx_size if shape.as_configured else cells * shape.num_sequences,
            num_sequences=shape.num_sequences,
            num_rows=config.batch if shape.num_rows is None else shape.num_rows,
            micro_batch=config.micro_batch,
            num_threads=None if threads is None else threads.decode,
            num_threads_batch=None if threads is None else threads.prefill,
            unified=config.kv is KvLayout.UNIFIED and not shape.exact,
            flash_attention=FlashAttention(flash.value),
        )
        return LlamaCppBackend(self._model, options)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateContext:
    """What a gate is given.

    Attributes:
        backends: where it gets its memory and decode calls from.
        placement: where its engines run.
        size: how large.
        on_progress: told in a few words what is being done; called from anywhere.
    """

    backends: Backends
    placement: Placement
    size: GateSize
    on_progress: Callable[[str], None] = lambda _: None

    @property
    def placement_word(self) -> str:
        """`dedicated` or `shared`."""
        return "dedicated" if isinstance(self.placement, Dedicated) else "shared"

    @property
    def prompt(self) -> tuple[TokenId, ...]:
        """The tokens of the usual prompt; its length is P."""
        return tuple(self.backends.vocabulary.encode(PROMPT, add_special=True, parse_special=False))

    def tokens(self, length: int, start: int = 0) -> tuple[TokenId, ...]:
        """A prompt of exactly so many tokens; another `start` gives another content."""
        story = self.backends.vocabulary.encode(NARRATIVE, add_special=False, parse_special=False)
        return tuple(story[(start + i) % len(story)] for i in range(length))
