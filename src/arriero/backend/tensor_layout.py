"""Where the fields of a tensor lie in memory, found by asking the library instead of copying its header.

A node of a graph reaches a callback as a pointer to a structure that no function of the library takes apart: there is
none that tells a tensor's shape or its sources. So three small tensors are made through the library itself, with types,
shapes and names that occur nowhere else, and their bytes are searched for them.

    a    type 8 (Q8_0), 64 x 3 x 5 x 7, "probed by arriero"
    b    type 30 (BF16), 64 x 11 x 5 x 7
    product = MUL_MAT(a, b)    its number of an operation, its sources a and b
    view = PERMUTE(a)          its number, its source a, and further on what it is a view of, a once more
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from arriero.backend.library import Library
from arriero.core.errors import BindingMismatch

_TYPES: Final = (8, 30)
_SHAPES: Final = ((64, 3, 5, 7), (64, 11, 5, 7))
_NAME: Final = b"probed by arriero"
_MOST_OPERATIONS: Final = 60
"""The operations that are looked for have numbers below it; the library does not check what it is asked for."""
_LONGEST_NAME: Final = 64
_ROOM: Final = 64  # tensors that the probe's memory could hold


class TensorFacts(NamedTuple):
    """One tensor, or one node of a graph.

    Attributes:
        name: as llama.cpp calls it; may be empty.
        operation: that makes it, such as MUL_MAT; NONE for a weight or an input.
        type: of its numbers, such as f32 or q8_0.
        shape: its four extents, the fastest first.
        num_bytes: that it spans in memory.
    """

    name: str
    operation: str
    type: str
    shape: tuple[int, int, int, int]
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorLayout:
    """Offsets in bytes from the beginning of a tensor; `num_sources` pointers follow one another."""

    type_at: int
    shape_at: int
    operation_at: int
    sources_at: int
    num_sources: int
    name_at: int


class _Parameters(ctypes.Structure):
    """What `ggml_init` takes by value."""

    _fields_ = (("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool))


class TensorReader:
    """Reads tensors by their addresses, while the graph that they belong to is alive."""

    def __init__(self, library: Library, layout: TensorLayout) -> None:
        """Keep the functions that name things."""
        self._layout = layout
        # the name of what one operation with variants really is, such as SWIGLU
        self._describe = library.ggml("ggml_op_desc", ctypes.c_void_p, returns=ctypes.c_char_p)
        self._type_name = library.ggml("ggml_type_name", ctypes.c_int, returns=ctypes.c_char_p)
        self._num_bytes = library.ggml("ggml_nbytes", ctypes.c_void_p, returns=ctypes.c_size_t)

    def read(self, address: int) -> TensorFacts:
        """Its facts."""
        layout = self._layout
        name = ctypes.string_at(address + layout.name_at, _LONGEST_NAME).partition(b"\0")[0]
        shape = (ctypes.c_int64 * 4).from_address(address + layout.shape_at)
        kind = ctypes.c_int32.from_address(address + layout.type_at).value
        return TensorFacts(
            name=name.decode(errors="replace"),
            operation=_text(self._describe(address)),
            type=_text(self._type_name(kind)),
            shape=(shape[0], shape[1], shape[2], shape[3]),
            num_bytes=self._num_bytes(address),
        )

    def sources(self, address: int) -> tuple[int, ...]:
        """Addresses of what it is made from, in order; places that are left empty are skipped."""
        kind = ctypes.c_void_p * self._layout.num_sources
        return tuple(each for each in kind.from_address(address + self._layout.sources_at) if each)


def probe_layout(library: Library) -> TensorLayout:
    """Find the fields.

    Raises:
        BindingMismatch: one is not where it can be told from others.
    """
    make = library.ggml("ggml_init", _Parameters, returns=ctypes.c_void_p)
    overhead: int = library.ggml("ggml_tensor_overhead", returns=ctypes.c_size_t)()
    context: int = make(_Parameters(_ROOM * overhead, None, True))  # noqa: FBT003 - ggml's own argument: no data
    try:
        return _search(library, context, overhead)
    finally:
        library.ggml("ggml_free", ctypes.c_void_p, returns=None)(context)


def _search(library: Library, context: int, size: int) -> TensorLayout:
    pointer = ctypes.c_void_p
    new = library.ggml("ggml_new_tensor_4d", pointer, ctypes.c_int, *(ctypes.c_int64,) * 4, returns=pointer)
    a, b = (int(new(context, kind, *shape)) for kind, shape in zip(_TYPES, _SHAPES, strict=True))
    library.ggml("ggml_set_name", pointer, ctypes.c_char_p, returns=pointer)(a, _NAME)
    product = int(library.ggml("ggml_mul_mat", *(pointer,) * 3, returns=pointer)(context, a, b))
    permute = library.ggml("ggml_permute", pointer, pointer, *(ctypes.c_int,) * 4, returns=pointer)
    view = int(permute(context, a, 0, 2, 1, 3))
    multiply, permuted = _operation_numbers(library, ("MUL_MAT", "PERMUTE"))
    data = {address: ctypes.string_at(address, size) for address in (a, b, product, view)}
    sources_at = _only("sources", _places(data[product], _packed(ctypes.c_void_p, (a, b))))
    views_at = [place for place in _places(data[view], _packed(ctypes.c_void_p, (a,))) if place > sources_at]
    operations = {a: 0, b: 0, product: multiply, view: permuted}
    return TensorLayout(
        type_at=_common("type", data, dict(zip((a, b), _TYPES, strict=True))),
        shape_at=_only("shape", _places(data[a], _packed(ctypes.c_int64, _SHAPES[0]))),
        operation_at=_common("operation", data, operations),
        sources_at=sources_at,
        num_sources=(_only("number of sources", iter(views_at)) - sources_at) // ctypes.sizeof(ctypes.c_void_p),
        name_at=_only("name", (data[a].find(_NAME),)),
    )


def _operation_numbers(library: Library, names: Sequence[str]) -> list[int]:
    """The numbers of operations that surely exist."""
    name_of: Callable[[int], bytes | None] = library.ggml("ggml_op_name", ctypes.c_int, returns=ctypes.c_char_p)
    found: dict[str, int] = {}
    for number in range(_MOST_OPERATIONS):
        found.setdefault(_text(name_of(number)), number)
        if all(name in found for name in names):
            return [found[name] for name in names]
    raise BindingMismatch(f"this llama.cpp has no operation {names[0]} or {names[1]}; its graphs cannot be read")


def _common(field: str, data: dict[int, bytes], values: dict[int, int]) -> int:
    """The one place at which each of these tensors holds its value as a 32-bit number."""
    found = [set(_places(data[address], _packed(ctypes.c_int32, (value,)), 4)) for address, value in values.items()]
    return _only(field, iter(sorted(set[int].intersection(*found))))


def _places(data: bytes, wanted: bytes, step: int = 8) -> Iterator[int]:
    return (place for place in range(0, len(data) - len(wanted) + 1, step) if data.startswith(wanted, place))


def _packed(kind: type["ctypes.c_int32 | ctypes.c_int64 | ctypes.c_void_p"], values: Sequence[int]) -> bytes:
    return bytes((kind * len(values))(*values))


def _only(field: str, places: Iterator[int] | Sequence[int]) -> int:
    found = [place for place in places if place >= 0]
    if len(found) != 1:
        raise BindingMismatch(
            f"a tensor of this llama.cpp holds its {field} at {len(found)} places, not at one; "
            "its graphs cannot be read"
        )
    return found[0]


def _text(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")
