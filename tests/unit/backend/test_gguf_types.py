"""The table of types is compared with the library in use, which is the one that will read the files."""

import ctypes

import pytest

from arriero.backend.gguf_types import DECLARED_FORMATS, FALLBACKS, TENSOR_TYPES, is_quantised
from arriero.backend.library import load_library

BLOCK_OF_ONE = {"F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64"}


@pytest.fixture(scope="module")
def ggml() -> ctypes.CDLL:
    library = ctypes.CDLL(load_library().path)
    library.ggml_type_name.restype = ctypes.c_char_p
    library.ggml_type_size.restype = ctypes.c_size_t
    library.ggml_blck_size.restype = ctypes.c_int64
    return library


def test_names_and_sizes_are_those_of_the_library(ggml: ctypes.CDLL) -> None:
    count = load_library().structs.GGML_TYPE_COUNT
    for code in range(count):
        size: int = ggml.ggml_type_size(code)
        if size == 0:  # taken out of ggml
            assert code not in TENSOR_TYPES
            continue
        kind = TENSOR_TYPES[code]
        assert kind.name == ggml.ggml_type_name(code).decode().upper()
        assert (kind.block_length, kind.block_bytes) == (ggml.ggml_blck_size(code), size)
    assert max(TENSOR_TYPES) < count


def test_declared_formats_are_those_of_the_binding() -> None:
    structs = load_library().structs
    prefix = "LLAMA_FTYPE_MOSTLY_"
    theirs = {getattr(structs, name): name.removeprefix(prefix) for name in dir(structs) if name.startswith(prefix)}
    assert {code: DECLARED_FORMATS.get(code) for code in theirs} == theirs


def test_fallbacks_lead_from_long_blocks_to_shorter_ones() -> None:
    lengths = {kind.name: kind.block_length for kind in TENSOR_TYPES.values()}
    for wanted, taken in FALLBACKS.items():
        assert lengths[wanted] == 256
        assert lengths[taken] == 32


def test_what_is_quantised_shares_scales() -> None:
    assert {kind.name for kind in TENSOR_TYPES.values() if not is_quantised(kind.name)} == BLOCK_OF_ONE
    assert not is_quantised("no such type")
