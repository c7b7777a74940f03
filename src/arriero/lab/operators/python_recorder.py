"""PythonRecorder: callbacks in Python, for machines without a C compiler.

Each call takes the GIL and runs some twenty instructions of Python, about a microsecond; a small model's graph is
computed in a few microseconds a node. So what it says about small nodes is mostly itself, and a profile that was made
with it says so.
"""

import ctypes
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arriero.lab.operators.recorder import EVENT, NO_LAST, STILL, Kind, Watch


class PythonRecorder:
    """A `Recorder`."""

    def __init__(self) -> None:
        """Note nothing yet."""
        self._watch = STILL
        self._asked = 0
        self._events: list[tuple[int, int, int]] = []
        self._callbacks: tuple[Any, ...] = ()

    @property
    def name(self) -> str:
        """Python."""
        return "Python callbacks"

    def install(self, parameters: Any, structs: Any) -> None:  # noqa: ANN401 - ctypes has no static types
        """See `GraphHooks.install`."""
        node = structs.ggml_backend_sched_eval_callback(self.note_node)
        stamp = structs.ggml_abort_callback(self.note_time)
        parameters.cb_eval, parameters.cb_eval_user_data = node, None
        parameters.abort_callback, parameters.abort_callback_data = stamp, None
        self._callbacks = (node, stamp)

    def watch(self, watch: Watch) -> None:
        """See `Recorder.watch`."""
        self._watch, self._asked = watch, 0
        self._events.clear()

    def events(self) -> NDArray[np.void]:
        """See `Recorder.events`."""
        return np.array(self._events, EVENT)

    def note_node(self, node: int | None, ask: bool, _data: ctypes.c_void_p | None) -> bool:  # noqa: FBT001 - C's order
        """Whether the packet ends at this node; or, if not asked, note that it was computed and go on."""
        if not ask:
            self._note(node or 0, Kind.COMPUTED)
            return True
        watch, number = self._watch, self._asked
        self._asked = number + 1
        is_last = number == (NO_LAST if watch.last is None else watch.last)
        ends = watch.every > 0 and ((number + 1) % watch.every == 0 or is_last)
        if ends or watch.lists or (watch.stamps and is_last):
            self._note(node or 0, Kind.ASKED)
        return ends

    def note_time(self, _data: ctypes.c_void_p | None) -> bool:
        """Note that a node was computed; never abort."""
        if self._watch.stamps:
            self._note(0, Kind.STAMPED)
        return False

    def _note(self, node: int, kind: Kind) -> None:
        self._events.append((time.perf_counter_ns(), node, kind.value))
