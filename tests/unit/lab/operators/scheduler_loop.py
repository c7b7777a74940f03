"""What llama.cpp does with the callbacks of a context, in a few lines: the same questions in the same order."""

import ctypes
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from numpy.typing import NDArray

from arriero.lab.operators.graph_passes import PlainNode, passes_of
from arriero.lab.operators.recorder import Recorder, Watch

STRUCTS = SimpleNamespace(
    ggml_backend_sched_eval_callback=ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_bool, ctypes.c_void_p),
    ggml_abort_callback=ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p),
)


class SchedulerLoop:
    """One context that computes graphs of made-up nodes, and what it has computed together."""

    def __init__(self, recorder: Recorder) -> None:
        self.parameters: Any = SimpleNamespace()
        self.recorder = recorder
        self.packets: list[tuple[int, ...]] = []
        recorder.install(self.parameters, STRUCTS)

    def compute(
        self, nodes: Sequence[PlainNode], watch: Watch, work: Callable[[], None] = lambda: None
    ) -> NDArray[Any]:
        """Compute a graph; `work` is done for each node."""
        self.packets.clear()
        self.recorder.watch(watch)
        begin = 0
        for number, node in enumerate(nodes):
            wanted = self._ask(node, ask=True)
            if wanted or number == len(nodes) - 1:
                self._packet(nodes, begin, number + 1, work)
                if wanted:
                    assert self._ask(node, ask=False), "a word that it is computed is answered with: go on"
                begin = number + 1
        return self.recorder.events()

    def _ask(self, node: PlainNode, *, ask: bool) -> bool:
        answer: bool = self.parameters.cb_eval(node.address, ask, self.parameters.cb_eval_user_data)
        return answer

    def _packet(self, nodes: Sequence[PlainNode], begin: int, end: int, work: Callable[[], None]) -> None:
        self.packets.append(tuple(range(begin, end)))
        for _ in passes_of(nodes[begin:end], joins=True):
            work()
            assert not self.parameters.abort_callback(self.parameters.abort_callback_data), "nothing is to be aborted"


def plain_nodes(operations: Sequence[str]) -> tuple[PlainNode, ...]:
    """Each made from the one before."""
    return tuple(PlainNode(name, 16 * (at + 1), (16 * at,)) for at, name in enumerate(operations))
