"""Families of symbols: what a hot function of llama.cpp or of its surroundings is for, by its name.

The names of functions in a stripped library are few, so the object they lie in decides where the name says nothing.
The first pattern that fits wins; so the order of the tables is part of the definition, from the special to the general.
"""

import re
from enum import StrEnum
from typing import Final


class Family(StrEnum):
    """What a function does."""

    QUANTISED_DOT = "quantised dot product"
    UNPACKING = "quantisation, dequantisation or unpacking"
    MATRIX = "GEMM or GEMV"
    ATTENTION = "attention"
    ROPE = "RoPE"
    SOFTMAX = "softmax"
    KV_COPY = "KV copy or convert"
    ELEMENTWISE = "normalisation or element by element"
    SYNCHRONISATION = "thread synchronisation"
    GRAPH = "graph scheduling"
    MEMORY_COPY = "memory copy"
    LOADER = "loader"
    INTERPRETER = "interpreter"
    UNKNOWN = "unknown"


_ELEMENTWISE: Final = (
    r"(?<![a-z])norm(?![a-z])|silu|swiglu|geglu|reglu|gelu|relu|sigmoid|unary|v_expf"
    r"|forward_(?:add|sub|mul|div|scale|glu|sum|sqr|sqrt|clamp)|vec_(?:add|acc|mul|scale|mad|exp|max|sum)"
)
_WORDS: Final = (
    (Family.SYNCHRONISATION, r"barrier|\bgomp_|^GOMP_|\bomp_|pthread_|futex|sched_yield|do_spin|spin_lock|\bkmp_"),
    (Family.ATTENTION, r"flash_attn|attention|\battn_"),
    (Family.SOFTMAX, r"soft_?max"),
    (Family.ROPE, r"(?<![a-z])rope(?![a-z])"),
    (Family.UNPACKING, r"dequant|quantize|quantise|unpack|from_float|to_float|make_block"),
    (Family.QUANTISED_DOT, r"vec_dot_(?:i?q\d|tq\d|mxfp|nvfp)"),
    (Family.MATRIX, r"gemm|gemv|sgemm|tinyblas|mul_mat|vec_dot|mat_?mul|matvec|out_prod"),
    (Family.KV_COPY, r"kv_cache|set_rows|get_rows|_cpy|forward_(?:dup|cont|set)|fp16_to_fp32|fp32_to_fp16|bf16_to"),
    (Family.ELEMENTWISE, _ELEMENTWISE),
    (Family.LOADER, r"model_load|gguf_|load_tensors|mmap|\bdo_lookup|_dl_|dl_(?:open|relocate|map)|check_match"),
    (Family.GRAPH, r"graph|backend_sched|gallocr|build_forward|llm_build|llama_decode|llama_context|process_ubatch"),
    (Family.MEMORY_COPY, r"memcpy|memmove|memset|clear_page|copy_(?:user|page)|bcopy|rep_movs"),
    (Family.INTERPRETER, r"^_?Py[A-Z_]|PyEval|_PyEval"),
)
_OBJECTS: Final = (
    (Family.SYNCHRONISATION, r"^lib(?:gomp|omp|iomp5|pthread)\b"),
    (Family.LOADER, r"^ld-|^ld\.so"),
    (Family.INTERPRETER, r"^(?:lib)?python\d|\.cpython-|^_ctypes"),
)
_BY_SYMBOL: Final = tuple((family, re.compile(words, re.IGNORECASE)) for family, words in _WORDS)
_BY_OBJECT: Final = tuple((family, re.compile(words)) for family, words in _OBJECTS)


def family_of(symbol: str, shared_object: str = "") -> Family:
    """The family of a function.

    Args:
        symbol: its name, demangled or not; that of a function without a name says nothing.
        shared_object: base name of the file it lies in, such as `libgomp.so.1`.
    """
    for family, pattern in _BY_SYMBOL:
        if pattern.search(symbol):
            return family
    return next((family for family, pattern in _BY_OBJECT if pattern.search(shared_object)), Family.UNKNOWN)
