"""The one file that touches the llama.cpp binding: its functions, its version, its log, its process-wide state.

A call through ctypes gives the GIL away and must get it back, which can take milliseconds while the event loop is busy.
So every function can be had in two ways, from one shared library: `long` gives the GIL away, for calls that compute;
`short` keeps it, for calls that only read or write a few bytes.

The process entry calls `process_start` and `process_stop`; no engine does, so that several may live one after another.
"""

import ctypes
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

from arriero.backend.cpu_features import compare_features, features_of_build, features_of_cpu
from arriero.core.errors import BindingMismatch

try:
    import llama_cpp as _package
    from llama_cpp import llama_cpp as _binding
except (ImportError, OSError, RuntimeError) as problem:  # the last two: the shared library itself does not load
    _package = _binding = None
    _problem: str | None = str(problem)
else:
    _problem = None

BINDING_VERSION: Final = "0.3.36"
REMEDY: Final = "install it with: pip install 'arriero[llama]' (built from source, so that it fits this CPU)"
FOLDER_VARIABLE: Final = "LLAMA_CPP_LIB_PATH"
"""Where the binding looks for its libraries instead of in its own package."""

LOGGER: Final = logging.getLogger("arriero.llama_cpp")

# llama.cpp's own `info` tells every tensor of a model, so it is our debug. Pieces of continued lines are dropped.
_LEVELS: Final = {1: logging.DEBUG, 2: logging.DEBUG, 3: logging.WARNING, 4: logging.ERROR}

# Defaults that libllama itself fills in. If the structures of the binding lay otherwise in memory than the library's,
# these fields, from the first to one of the last, would not read as they do.
_ABI_PROBE: Final = (
    ("n_ctx", 512),
    ("n_batch", 2048),
    ("n_ubatch", 512),
    ("n_seq_max", 1),
    ("rope_scaling_type", -1),
    ("yarn_ext_factor", -1.0),
    ("type_k", 1),
    ("type_v", 1),
    ("embeddings", False),
    ("offload_kqv", True),
    ("kv_unified", False),
    ("n_samplers", 0),
    ("ctx_other", None),
)

Function = Callable[..., Any]


class Library:
    """The functions and structures of one loaded libllama; made by `load_library`."""

    def __init__(self, binding: Any) -> None:  # noqa: ANN401 - the binding has no types that a strict checker accepts
        """Open the library that the binding has loaded a second and a third time."""
        self.structs: Any = binding  # structure classes and constants, by their llama.cpp names
        self.path: str = binding._lib._name  # noqa: SLF001 - the binding does not tell its path otherwise
        self._releasing = ctypes.CDLL(self.path)
        self._keeping = ctypes.PyDLL(self.path)

    def long(self, name: str, *, returns: Any = None) -> Function:  # noqa: ANN401 - a ctypes type
        """A function by its llama.cpp name; the call gives the GIL away. `returns` replaces the declared result."""
        return self._declare(self._releasing[name], name, returns)

    def short(self, name: str, *, returns: Any = None) -> Function:  # noqa: ANN401 - a ctypes type
        """A function by its llama.cpp name; the call keeps the GIL. `returns` replaces the declared result."""
        return self._declare(self._keeping[name], name, returns)

    def ggml(self, name: str, *takes: Any, returns: Any) -> Function:  # noqa: ANN401 - ctypes types
        """A function of ggml by its name, which the binding does not declare; the call keeps the GIL."""
        function = self._keeping[name]  # the system looks into the libraries that libllama itself needs, too
        function.argtypes = takes
        function.restype = returns
        return cast("Function", function)

    def _declare(self, function: Any, name: str, returns: Any) -> Function:  # noqa: ANN401 - ctypes has no such types
        """Give a fresh function object the binding's types: pointers to opaque things come and go as numbers."""
        declared: Any = getattr(self.structs, name)
        function.argtypes = declared.argtypes
        function.restype = returns or declared.restype
        return cast("Function", function)

    def system_info(self) -> str:
        """What the library was compiled for, in llama.cpp's words."""
        text: bytes = self.short("llama_print_system_info")()
        return text.decode()


def load_library() -> Library:
    """The binding, checked; cheap to call again.

    Raises:
        BindingMismatch: missing, of another version, or a library whose structures lie otherwise in memory.
    """
    if _package is None or _binding is None:
        message = f"the llama.cpp binding cannot be loaded ({_problem}); {_remedy(os.environ.get(FOLDER_VARIABLE))}"
        raise BindingMismatch(message)
    found = str(_package.__version__)
    if found != BINDING_VERSION:
        message = f"llama-cpp-python {found} is installed, {BINDING_VERSION} is needed; {REMEDY}"
        raise BindingMismatch(message)
    library = Library(_binding)
    check_abi(library.long("llama_context_default_params")())
    return library


def _remedy(folder: str | None) -> str:
    """What to do about a library that does not load; somebody may have named its folder."""
    if folder is None:
        return REMEDY
    return f"{FOLDER_VARIABLE} names {folder}: unset it, or name a folder that holds the libraries of a whole build"


def check_abi(defaults: object) -> None:
    """Compare the library's own default parameters with what they must read as.

    Raises:
        BindingMismatch: a field reads otherwise.
    """
    for name, expected in _ABI_PROBE:
        value = getattr(defaults, name, "missing")
        if value != expected:
            message = (
                f"the loaded libllama does not fit llama-cpp-python {BINDING_VERSION} "
                f"({name} reads {value!r}, not {expected!r}); unset LLAMA_CPP_LIB_PATH, or {REMEDY}"
            )
            raise BindingMismatch(message)


def process_start() -> None:
    """Start llama.cpp once for this process, before the first model; its log goes to `arriero.llama_cpp` from now on.

    Raises:
        BindingMismatch: the binding is missing or of another version, or was built for another CPU.
    """
    library = load_library()
    library.long("llama_log_set")(_LOG, None)
    check_cpu(library)
    library.long("llama_backend_init")()


def process_stop() -> None:
    """Stop llama.cpp, after the last model was closed."""
    load_library().long("llama_backend_free")()


def check_cpu(library: Library) -> None:
    """Compare what the library was compiled for with what this CPU can do; warn if the library could be faster.

    A wheel from a cache does not know how it was built.

    Raises:
        BindingMismatch: the library uses instructions that this CPU lacks; it would be killed in the first decode call.
    """
    difference = compare_features(features_of_build(library.system_info()), features_of_cpu(Path("/proc/cpuinfo")))
    if difference.lacking_in_cpu:
        message = f"the binding was built for a CPU with {', '.join(difference.lacking_in_cpu)}; {REMEDY}"
        raise BindingMismatch(message)
    if difference.unused_by_build:
        LOGGER.warning(
            "the binding does not use %s of this CPU and will be slow; %s",
            ", ".join(difference.unused_by_build),
            REMEDY,
        )


def _log_line(level: int, text: bytes, _user_data: int | None) -> None:
    """Hand one line of llama.cpp's to Python's logging."""
    known = _LEVELS.get(level)
    if known is not None and LOGGER.isEnabledFor(known):
        LOGGER.log(known, "%s", text.decode(errors="replace").rstrip())


# at module level, so that it lives as long as the library may call it
_LOG: Final = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(_log_line)
