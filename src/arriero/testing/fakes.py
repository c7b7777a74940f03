"""Backends for tests: one that says what a script says, and a wrapper that lets things go wrong in any other.

Both are real implementations of `Backend`: they keep books of their memory and pass the conformance suite.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from arriero.backend.protocol import Backend, BackendLimits, ReuseSupport, TokenSampler
from arriero.backend.synthetic import SyntheticOptions, synthetic_reuse
from arriero.backend.synthetic_memory import SyntheticMemory, SyntheticStore
from arriero.backend.synthetic_sampler import SyntheticSampler
from arriero.core.events import KvOp, SavedRun
from arriero.core.ids import SequenceId, TokenId
from arriero.core.option_kinds import Threads
from arriero.core.plan import Row
from arriero.core.request import Request
from arriero.testing.faults import Fault

NO_SCRIPT: Final[Mapping[int, Sequence[TokenId]]] = MappingProxyType({})
SMALL: Final = SyntheticOptions(num_rows=64, num_cells=1024)


class ScriptedBackend:
    """Answers each request with the tokens of its script, whatever the prompt, and then with a filler.

    A request's place in its script is the number of its tokens that are known beyond its prompt, so it survives
    preemption.
    """

    def __init__(
        self,
        script: Mapping[int, Sequence[TokenId]] = NO_SCRIPT,
        *,
        filler: TokenId = 1,
        options: SyntheticOptions = SMALL,
        store: SyntheticStore | None = None,
    ) -> None:
        """Start empty.

        Args:
            script: answers by request id.
            filler: said when a script has ended, and by requests without one.
            options: sizes and end tokens; delays are not used.
            store: where runs are saved; None for nowhere.
        """
        self._script = script
        self._filler = filler
        self._options = options
        self._limits = options.limits()
        self._memory = SyntheticMemory(self._limits, store)
        self._saved_runs = () if store is None else store.saved_runs()
        self._reuse_support = synthetic_reuse(has_store=store is not None)

    @property
    def limits(self) -> BackendLimits:
        """What the options say."""
        return self._limits

    @property
    def end_tokens(self) -> frozenset[TokenId]:
        """What the options say."""
        return self._options.end_tokens

    @property
    def reuse_support(self) -> ReuseSupport:
        """Everything, but for saving without a store."""
        return self._reuse_support

    def saved_runs(self) -> tuple[SavedRun, ...]:
        """What the store held at the start."""
        return self._saved_runs

    def apply(self, op: KvOp) -> bool:
        """Change the books."""
        return self._memory.apply(op)

    def positions(self, sequence_id: SequenceId) -> tuple[int, int] | None:
        """From 0 to the last one held, or None."""
        return self._memory.positions(sequence_id)

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        """Store rows and answer: 1 for the token of the script, 0 for all others."""
        self._memory.store(rows)
        said = [self._next_token(row) for row in rows if row.wants_logits and row.num_rows]
        logits = np.zeros((len(said), self._limits.vocab_size), np.float32)
        logits[range(len(said)), said] = 1
        return logits

    def sampler(self, request: Request) -> TokenSampler:
        """A fresh sampler in numpy."""
        return SyntheticSampler(request, self._options.end_tokens)

    def set_threads(self, threads: Threads) -> None:
        """Nothing: a script has none."""

    def interrupt(self) -> None:
        """No call ever lasts; wrap it with a `BlockedCall` to have one."""

    def close(self) -> None:
        """Nothing is held."""

    def _next_token(self, row: Row) -> TokenId:
        answer = self._script.get(row.request.request_id, ())
        place = row.start + row.num_rows - len(row.request.prompt)
        return answer[place] if 0 <= place < len(answer) else self._filler


class FaultyBackend:
    """Any backend, with faults.

    Attributes:
        num_calls: decode calls so far, failed ones included.
    """

    def __init__(self, inner: Backend, *faults: Fault) -> None:
        """Wrap a backend; closing the wrapper closes it."""
        self._inner = inner
        self._faults = list(faults)
        self.num_calls = 0

    def add(self, fault: Fault) -> None:
        """One fault more, from the next call on."""
        self._faults.append(fault)

    @property
    def limits(self) -> BackendLimits:
        """The inner one's."""
        return self._inner.limits

    @property
    def end_tokens(self) -> frozenset[TokenId]:
        """The inner one's."""
        return self._inner.end_tokens

    @property
    def reuse_support(self) -> ReuseSupport:
        """The inner one's, as the faults leave it."""
        support = self._inner.reuse_support
        for fault in self._faults:
            support = fault.reuse_support(support)
        return support

    def saved_runs(self) -> tuple[SavedRun, ...]:
        """The inner one's."""
        return self._inner.saved_runs()

    def apply(self, op: KvOp) -> bool:
        """Refused if any fault says so."""
        return not any(fault.refuses(op) for fault in self._faults) and self._inner.apply(op)

    def positions(self, sequence_id: SequenceId) -> tuple[int, int] | None:
        """The inner one's."""
        return self._inner.positions(sequence_id)

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        """Faults before, the inner call, faults after."""
        call = self.num_calls
        self.num_calls += 1
        for fault in self._faults:
            fault.before_decode(call, rows)
        logits = self._inner.decode(rows)
        for fault in self._faults:
            fault.after_decode(call, rows)
        return logits

    def sampler(self, request: Request) -> TokenSampler:
        """The inner one's, as the faults leave it."""
        sampler = self._inner.sampler(request)
        for fault in self._faults:
            sampler = fault.sampler(request, sampler)
        return sampler

    def set_threads(self, threads: Threads) -> None:
        """Tell every fault, then the inner one."""
        for fault in self._faults:
            fault.set_threads(threads)
        self._inner.set_threads(threads)

    def interrupt(self) -> None:
        """Interrupt the inner call and every fault that waits."""
        for fault in self._faults:
            fault.interrupt()
        self._inner.interrupt()

    def close(self) -> None:
        """Close the inner one."""
        self._inner.close()
