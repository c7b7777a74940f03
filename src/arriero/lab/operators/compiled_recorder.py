"""CompiledRecorder: callbacks of a few machine instructions, built by the C compiler of this machine when needed."""

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from arriero.core.errors import ConfigError, InvariantViolation
from arriero.lab.compile import Compiler, find_compilers
from arriero.lab.operators.python_recorder import PythonRecorder
from arriero.lab.operators.recorder import EVENT, NO_LAST, ROOM, STILL, Chosen, Recorder, Watch

SOURCE: Final = Path(__file__).parent / "sources" / "recorder.c"
FLAGS: Final = ("-O2", "-std=gnu11", "-Wall", "-Werror")


class _State(ctypes.Structure):
    """As `sources/recorder.c` has it."""

    _fields_ = (
        ("every", ctypes.c_int64),
        ("last", ctypes.c_int64),
        ("lists", ctypes.c_int64),
        ("stamps", ctypes.c_int64),
        ("asked", ctypes.c_int64),
        ("noted", ctypes.c_int64),
        ("room", ctypes.c_int64),
        ("events", ctypes.c_void_p),
    )


class CompiledRecorder:
    """A `Recorder`; its memory stays where it is."""

    def __init__(self, library: ctypes.CDLL, name: str, room: int = ROOM) -> None:
        """Callbacks of an opened library; `room` for so many events of one decode call."""
        self._library = library
        self._name = name
        self._events = np.zeros(room, EVENT)
        self._state: Any = _State(room=room, events=self._events.ctypes.data)
        self.watch(STILL)

    @property
    def name(self) -> str:
        """The compiler."""
        return self._name

    def install(self, parameters: Any, structs: Any) -> None:  # noqa: ANN401 - ctypes has no static types
        """See `GraphHooks.install`."""
        data = ctypes.addressof(self._state)
        parameters.cb_eval = ctypes.cast(self._library["note_node"], structs.ggml_backend_sched_eval_callback)
        parameters.cb_eval_user_data = data
        parameters.abort_callback = ctypes.cast(self._library["note_time"], structs.ggml_abort_callback)
        parameters.abort_callback_data = data

    def watch(self, watch: Watch) -> None:
        """See `Recorder.watch`."""
        state = self._state
        state.every, state.lists, state.stamps = watch.every, watch.lists, watch.stamps
        state.last = NO_LAST if watch.last is None else watch.last
        state.asked = state.noted = 0

    def events(self) -> NDArray[np.void]:
        """See `Recorder.events`."""
        noted: int = self._state.noted
        if noted > len(self._events):
            raise InvariantViolation(f"{noted} events of one decode call, and room for {len(self._events)}")
        return self._events[:noted].copy()


def choose_recorders(folder: Path, compilers: Mapping[str, Compiler] | None = None) -> Chosen:
    """Compiled callbacks where a C compiler works, else those in Python.

    Args:
        folder: where the library is put; must outlive the recorders.
        compilers: those of this machine, by default.
    """
    found = find_compilers() if compilers is None else compilers
    compiler = next(iter(found.values()), None)
    if compiler is None:
        return Chosen(PythonRecorder, "no C compiler on this machine")
    try:
        library = ctypes.CDLL(str(compiler.build([SOURCE], FLAGS, folder / "recorder.so", shared=True)))
    except (ConfigError, OSError) as problem:
        return Chosen(PythonRecorder, str(problem))

    def make() -> Recorder:
        return CompiledRecorder(library, f"callbacks compiled by {compiler.name} {compiler.number}")

    return Chosen(make, None)
