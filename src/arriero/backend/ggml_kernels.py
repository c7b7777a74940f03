"""Kernels inside the loaded libggml-cpu, as addresses that other native code can call.

Two entries. `ggml_get_type_traits_cpu` is ggml's public interface "for tests and benchmarks": the dot product of two
rows of blocks. `llamafile_sgemm` is the matrix kernel that prefill runs through; its symbol is visible, but it is
nobody's interface, so it is used with the one version of the binding whose declaration is written down here, and what
it returns has to be compared with something known.
"""

import ctypes
from typing import Any, Final, NamedTuple

from arriero.backend.library import BINDING_VERSION, load_library
from arriero.core.errors import BindingMismatch

F32: Final = 0
Q8_0: Final = 8
Q6_K: Final = 14
Q8_K: Final = 15
"""Numbers of tensor types, as GGUF files hold them."""

# Weight type -> type of the activations that its dot product takes: what a structure read wrongly would not say.
_PARTNERS: Final = ((F32, F32), (Q8_0, Q8_0), (Q6_K, Q8_K))
_ROWS: Final = range(1, 5)


class _Traits(ctypes.Structure):
    """What ggml's CPU backend knows of a tensor type."""

    _fields_ = (
        ("from_float", ctypes.c_void_p),
        ("vec_dot", ctypes.c_void_p),
        ("vec_dot_type", ctypes.c_int),
        ("nrows", ctypes.c_int64),
    )


class MatrixParameters(ctypes.Structure):
    """What `llamafile_sgemm` reads of its first argument: which thread of how many; no work memory is needed."""

    _fields_ = (
        ("ith", ctypes.c_int),
        ("nth", ctypes.c_int),
        ("wsize", ctypes.c_size_t),
        ("wdata", ctypes.c_void_p),
        ("threadpool", ctypes.c_void_p),
        ("use_ref", ctypes.c_bool),
    )


class GgmlKernels(NamedTuple):
    """Addresses of functions."""

    q8_dot: int  # Q8_0 x Q8_0
    q6_dot: int  # Q6_K x Q8_K
    matrix: int | None  # `llamafile_sgemm`; None if this build has none


def ggml_kernels() -> GgmlKernels:
    """The kernels of the library that the binding has loaded, which `LLAMA_CPP_LIB_PATH` may choose.

    Raises:
        BindingMismatch: no binding, or its structures lie otherwise in memory.
    """
    library = ctypes.CDLL(load_library().path)  # finds the symbols of everything that it is linked with
    try:
        traits: Any = library.ggml_get_type_traits_cpu
        library.ggml_cpu_init()
    except AttributeError as problem:
        raise BindingMismatch(f"the loaded libllama is linked with another libggml-cpu ({problem})") from None
    traits.restype = ctypes.POINTER(_Traits)
    found = {weights: traits(weights).contents for weights, _ in _PARTNERS}
    for weights, partner in _PARTNERS:
        each = found[weights]
        if each.vec_dot_type != partner or each.nrows not in _ROWS or not each.vec_dot:
            what = f"type {weights}: partner {each.vec_dot_type}, {each.nrows} rows"
            raise BindingMismatch(
                f"libggml-cpu does not fit llama-cpp-python {BINDING_VERSION} ({what}); unset LLAMA_CPP_LIB_PATH"
            )
    return GgmlKernels(found[Q8_0].vec_dot, found[Q6_K].vec_dot, _address(library, "llamafile_sgemm"))


def _address(library: ctypes.CDLL, name: str) -> int | None:
    try:
        return ctypes.cast(library[name], ctypes.c_void_p).value
    except AttributeError:
        return None
