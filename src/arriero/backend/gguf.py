"""read_header: what a GGUF file says of itself and of its tensors, read without llama.cpp and without the weights.

    magic      "GGUF", then version, number of tensors, number of values
    values     key, type, value
    tensors    name, number of dimensions, dimensions, type, offset
    (padding)  to the alignment; offsets count from here
    data       each tensor at a multiple of the alignment

Numbers are little-endian. Nothing in the file is believed before it is compared with the bytes that are left, so a
count that lies costs no memory and no time. Arrays, such as the vocabulary, are walked over and not kept.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Final, NamedTuple, NoReturn, TypeAlias

from arriero.backend.gguf_types import TENSOR_TYPES, TensorType
from arriero.core.errors import ModelUnreadable

MAGIC: Final = b"GGUF"
VERSIONS: Final = (2, 3)
MAX_DIMENSIONS: Final = 4
MAX_NAME_BYTES: Final = 63  # of a tensor; ggml keeps 64 with the end mark
MAX_KEY_BYTES: Final = 65_535
MAX_WEIGHTS: Final = 2**63 - 1

_FORMS: Final = MappingProxyType({
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
})  # fmt: skip
_BOOL, _STRING, _ARRAY = 7, 8, 9
_VALUE_NAMES: Final = MappingProxyType({
    0: "uint8", 1: "int8", 2: "uint16", 3: "int16", 4: "uint32", 5: "int32", 6: "float32", 7: "bool", 8: "string",
    9: "array", 10: "uint64", 11: "int64", 12: "float64",
})  # fmt: skip
_LEAST_VALUE_BYTES: Final = 8 + 1 + 4 + 1  # length of a key, the key, the type, one byte
_LEAST_TENSOR_BYTES: Final = 8 + 1 + 4 + 8 + 4 + 8  # length of a name, the name, dimensions, one of them, type, offset
_REMEDY: Final = "compare its size and SHA-256 with the original's, or fetch it again"


class GgufArray(NamedTuple):
    """An array among the values; its elements are not kept."""

    kind: str  # of its elements
    length: int


Scalar: TypeAlias = int | float | bool | str
Value: TypeAlias = Scalar | GgufArray


class TensorInfo(NamedTuple):
    """One tensor."""

    name: str
    shape: tuple[int, ...]  # row length first, as ggml counts
    type: TensorType
    offset: int  # from `data_at`
    num_weights: int
    num_bytes: int  # without padding


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufHeader:
    """All but the weights.

    Attributes:
        version: of the format.
        values: by key, in the file's order.
        tensors: in the file's order.
        alignment: of tensors, in bytes.
        data_at: where the first tensor may begin.
        file_bytes: size of the whole file.
    """

    version: int
    values: Mapping[str, Value]
    tensors: tuple[TensorInfo, ...]
    alignment: int
    data_at: int
    file_bytes: int

    def text(self, key: str) -> str | None:
        """A value that is a text; None if it is absent or of another type."""
        value = self.values.get(key)
        return value if isinstance(value, str) else None

    def count(self, key: str) -> int | None:
        """A value that is a whole number of at least 0; None if it is absent or anything else."""
        value = self.values.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def read_header(path: Path) -> GgufHeader:
    """Read the beginning of a file; the vocabulary makes it a few megabytes.

    Raises:
        ModelUnreadable: it cannot be read, is no GGUF file of version 2 or 3, is cut short, or contradicts itself. One
            line with the place and the remedy.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            return parse_header(file, size, str(path))
    except OSError as problem:
        reason = (problem.strerror or "cannot be read").lower()
        raise ModelUnreadable(f"{path}: {reason}; give the path of a GGUF file that can be read") from None


def parse_header(file: BinaryIO, size: int, name: str) -> GgufHeader:
    """Read the header of an open file.

    Args:
        file: at its beginning.
        size: of the whole file.
        name: for complaints.

    Raises:
        ModelUnreadable: see `read_header`.
    """
    return _Reader(file, size, name).header()


class _Reader:
    """Walks through a file from its beginning to the end of the tensor infos."""

    def __init__(self, file: BinaryIO, size: int, name: str) -> None:
        self._file = file
        self._size = size
        self._left = size
        self._name = name

    def header(self) -> GgufHeader:
        version = self._version()
        num_tensors = self._count("tensors", _LEAST_TENSOR_BYTES)
        num_values = self._count("values", _LEAST_VALUE_BYTES)
        values: dict[str, Value] = {}
        for number in range(num_values):
            key = self._text(f"key {number + 1}", MAX_KEY_BYTES)
            if key in values:
                self._refuse(f"the value {key!a} is there twice")
            values[key] = self._value(f"value {key!a}", self._number("<I", f"type of {key!a}"))
        alignment = self._alignment(values)
        tensors = tuple(self._tensor(number + 1, alignment) for number in range(num_tensors))
        data_at = -(-(self._size - self._left) // alignment) * alignment
        self._check_places(tensors, data_at)
        return GgufHeader(
            version=version,
            values=MappingProxyType(values),
            tensors=tensors,
            alignment=alignment,
            data_at=data_at,
            file_bytes=self._size,
        )

    def _version(self) -> int:
        magic = self._file.read(min(len(MAGIC), self._size))
        self._left -= len(magic)
        if magic != MAGIC:
            raise ModelUnreadable(
                f"{self._name}: this is no GGUF file (it begins with {magic!r}); convert the model to GGUF first"
            )
        version = self._number("<I", "version")
        if version in VERSIONS:
            return version
        if version & 0xFFFF == 0 and version >> 24 in VERSIONS:
            self._refuse("it is a big-endian file", "fetch the little-endian one")
        known = " or ".join(map(str, VERSIONS))
        return self._refuse(
            f"it has version {version}, not {known}", "convert the model again with a current llama.cpp"
        )

    def _value(self, what: str, kind: int) -> Value:
        if kind == _STRING:
            return self._text(what, self._left)
        if kind == _ARRAY:
            return self._array(what)
        return self._scalar(what, kind)

    def _scalar(self, what: str, kind: int) -> Scalar:
        form = _FORMS.get(kind)
        if form is None:
            self._refuse(f"the {what} has the unknown type {kind}")
        if kind == _BOOL:
            byte = self._number("<B", what)
            if byte > 1:
                self._refuse(f"the {what} is neither true nor false")
            return bool(byte)
        value: int | float = struct.unpack(form, self._take(struct.calcsize(form), what))[0]
        return value

    def _array(self, what: str) -> GgufArray:
        kind = self._number("<I", f"element type of the {what}")
        if kind == _STRING:
            length = self._count(f"elements of the {what}", 8)
            for _ in range(length):
                self._skip(self._number("<Q", what), what)
            return GgufArray("string", length)
        form = _FORMS.get(kind)
        if form is None:
            self._refuse(f"the {what} has elements of the type {kind}, which arrays cannot have")
        size = struct.calcsize(form)
        length = self._count(f"elements of the {what}", size)
        self._skip(length * size, what)
        return GgufArray(_VALUE_NAMES[kind], length)

    def _alignment(self, values: Mapping[str, Value]) -> int:
        value = values.get("general.alignment", 32)
        is_power = isinstance(value, int) and not isinstance(value, bool) and value > 0 and value & (value - 1) == 0
        if not is_power or not isinstance(value, int):
            return self._refuse(f"its alignment is {value!a}, no power of two")
        return value

    def _tensor(self, number: int, alignment: int) -> TensorInfo:
        name = self._text(f"name of tensor {number}", MAX_NAME_BYTES)
        what = f"tensor {name!a}"
        num_dimensions = self._number("<I", what)
        if not 1 <= num_dimensions <= MAX_DIMENSIONS:
            self._refuse(f"the {what} has {num_dimensions} dimensions, not 1 to {MAX_DIMENSIONS}")
        shape = tuple(self._number("<Q", what) for _ in range(num_dimensions))
        num_weights = prod(shape)
        if not 1 <= num_weights <= MAX_WEIGHTS:
            self._refuse(f"the {what} has the shape {'x'.join(map(str, shape))}, which cannot be")
        code = self._number("<I", what)
        kind = TENSOR_TYPES.get(code)
        if kind is None:
            return self._refuse(
                f"the {what} has the unknown type {code}", "it may need a newer llama.cpp, or is damaged"
            )
        if shape[0] % kind.block_length:
            self._refuse(f"the {what} has rows of {shape[0]} weights, no multiple of {kind.name}'s {kind.block_length}")
        offset = self._number("<Q", what)
        if offset % alignment:
            self._refuse(f"the {what} begins at {offset}, no multiple of the alignment {alignment}")
        num_bytes = num_weights // kind.block_length * kind.block_bytes
        return TensorInfo(name, shape, kind, offset, num_weights, num_bytes)

    def _check_places(self, tensors: tuple[TensorInfo, ...], data_at: int) -> None:
        """Names are unique, tensors lie inside the file and beside one another."""
        if len({tensor.name for tensor in tensors}) != len(tensors):
            self._refuse("two of its tensors have one name")
        end, last = 0, ""
        for tensor in sorted(tensors, key=lambda each: each.offset):
            if tensor.offset < end:
                self._refuse(f"the tensors {last!a} and {tensor.name!a} overlap")
            end, last = tensor.offset + tensor.num_bytes, tensor.name
        if data_at + end > self._size and tensors:
            missing = data_at + end - self._size
            self._refuse(f"it is cut short: {missing} bytes of its tensors are missing", "fetch it again, whole")

    def _count(self, what: str, least_bytes: int) -> int:
        """A number of things that each take at least some bytes, of which enough are left."""
        number = self._number("<Q", f"number of {what}")
        if number * least_bytes > self._left:
            self._refuse(f"it says that it has {number} {what}, and {self._left} bytes are left for them")
        return number

    def _text(self, what: str, most: int) -> str:
        length = self._number("<Q", f"length of the {what}")
        if length > most:
            self._refuse(f"the {what} is {length} bytes long, with {most} at most")
        try:
            return self._take(length, what).decode()
        except UnicodeDecodeError:
            return self._refuse(f"the {what} is no UTF-8")

    def _number(self, form: str, what: str) -> int:
        number: int = struct.unpack(form, self._take(struct.calcsize(form), what))[0]
        return number

    def _take(self, length: int, what: str) -> bytes:
        self._need(length, what)
        data = self._file.read(length)
        if len(data) != length:  # somebody has shortened it meanwhile
            self._refuse(f"it ends within the {what}")
        return data

    def _skip(self, length: int, what: str) -> None:
        self._need(length, what)
        self._file.seek(length, 1)

    def _need(self, length: int, what: str) -> None:
        if length > self._left:
            self._refuse(f"it ends within the {what}")
        self._left -= length

    def _refuse(self, problem: str, remedy: str = _REMEDY) -> NoReturn:
        raise ModelUnreadable(f"{self._name}: damaged GGUF file: {problem}; {remedy}")
