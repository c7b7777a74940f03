"""KernelLibrary: the compiled kernels, called on numpy blocks."""

import ctypes
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from arriero.lab.kernels.blocks import Halves, Operands
from arriero.lab.kernels.reference import Single

_POINTER: Final = ctypes.c_void_p
_WHOLE: Final = ctypes.c_int64


class KernelLibrary:
    """One build; stays loaded until the process ends."""

    def __init__(self, path: Path) -> None:
        """Open it. OSError if it cannot be loaded."""
        self.path = path
        self._library = ctypes.CDLL(str(path.resolve()))

    def address(self, name: str) -> int:
        """Where a kernel is, for the functions that call it."""
        found = ctypes.cast(self._library[name], _POINTER).value
        assert found is not None, "a symbol of a loaded library has an address"
        return found

    def scales(self, name: str, pairs: Halves) -> Single:
        """float32[n, 2, 4]: each scale of a pair in four lanes."""
        out = np.empty((len(pairs), 2, 4), dtype=np.float32)
        self._call(name, None, pairs, _WHOLE(len(pairs)), out)
        return out

    def tiles(self, kernel: str, operands: Operands) -> Single:
        """float32[count, 2, 4]."""
        count, _, depth = operands.weights.shape
        out = np.empty((count, 2, 4), dtype=np.float32)
        self._many("q8_tile_many", kernel, operands, depth, out)
        return out

    def dots(self, kernel: str, operands: Operands) -> Single:
        """float32[count]."""
        count, blocks = operands.weights.shape
        out = np.empty(count, dtype=np.float32)
        self._many("q6_dot_many", kernel, operands, blocks, out)
        return out

    def time(self, timer: str, kernel: int, operands: Operands, out: Single, calls: int, *extra: Any) -> int:  # noqa: ANN401 - ctypes values
        """Nanoseconds for so many calls of the kernel at an address, on the first case of the operands.

        Args:
            timer: of `sources/timers.c`.
            kernel: address of a function of the type that this timer calls.
            operands: of at least one case.
            out: the last call's result.
            calls: at least 1.
            extra: what the timer hands on between the kernel and the operands.
        """
        size = operands.weights.shape[-1]
        return self._call(
            timer, ctypes.c_int64, _POINTER(kernel), *extra, operands.weights, operands.activations, _WHOLE(size), out,
            _WHOLE(calls),
        )  # fmt: skip

    def _many(self, caller: str, kernel: str, operands: Operands, size: int, out: Single) -> None:
        self._call(
            caller, None, _POINTER(self.address(kernel)), operands.weights, operands.activations, _WHOLE(size),
            _WHOLE(len(out)), out,
        )  # fmt: skip

    def _call(self, name: str, result: Any, *arguments: Any) -> int:  # noqa: ANN401 - ctypes values and arrays
        """Call with arrays as pointers to their first element."""
        function = self._library[name]
        function.restype = result
        found: int = function(*map(_argument, arguments))
        return found


def _argument(value: object) -> object:
    if not isinstance(value, np.ndarray):
        return value
    array = cast("NDArray[Any]", value)
    assert array.flags["C_CONTIGUOUS"], "the kernels walk over whole rows"
    return _POINTER(array.ctypes.data)
