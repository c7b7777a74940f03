"""InterruptFlag: a byte that a running decode call looks at, without Python.

llama.cpp asks a callback `bool (*)(void *)` before every node of its graph, hundreds of times a step, from the thread
that computes. A Python function there would have to get the GIL each time, and would wait for whoever holds it. A
compiled function of our own would need a compiler wherever arriero is installed.

The C library has the function already: `strlen` of a two-byte buffer [flag, 0] is 0 if the flag is 0, and 1 if it is
1 - exactly the two values of a C bool, in the same return register.
"""

import ctypes
from typing import Any


class InterruptFlag:
    """Set by any thread, read by llama.cpp, cleared by the owner of the context. Keep it as long as the context."""

    def __init__(self) -> None:
        """Start cleared."""
        self._buffer = ctypes.create_string_buffer(2)
        self._strlen = ctypes.CDLL(None).strlen

    @property
    def data(self) -> int:
        """The address that the callback gets."""
        return ctypes.addressof(self._buffer)

    def callback(self, kind: Any) -> Any:  # noqa: ANN401 - a ctypes function type and a function of that type
        """The compiled function as a C function of the given type."""
        return ctypes.cast(self._strlen, kind)

    def set(self) -> None:
        """Make the running call stop at its next node; one store of a byte."""
        self._buffer[0] = b"\x01"

    def clear(self) -> None:
        """Let calls run."""
        self._buffer[0] = b"\x00"
