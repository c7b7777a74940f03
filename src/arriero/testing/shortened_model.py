"""A model file with the first few layers of another one: its vocabulary, shapes and kernels, and little of its time.

What llama.cpp does with rows, KV memory and bits is the same with three layers as with thirty; only what the model says
becomes nonsense. So tests of the former need not wait for the latter.

    header     magic, version, number of tensors, number of values
    values     key, type, value; `<family>.block_count` becomes smaller
    tensors    name, dimensions, type, offset; those of later layers are left out
    data       each tensor at a multiple of the alignment
"""

import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from arriero.core.errors import ModelUnreadable

MAGIC: Final = b"GGUF"
_VERSION: Final = 3
_ALIGNMENT: Final = 32  # of every file that does not say another one
_SIZES: Final = (1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8)  # bytes of a value by its type
_UINT32, _STRING, _ARRAY = 4, 8, 9
_LAYER: Final = re.compile(rb"blk\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class _Tensor:
    """What the file says of one tensor; `shape` holds dimensions and type, as they stand there."""

    name: bytes
    shape: bytes
    offset: int

    @property
    def layer(self) -> int:
        """The layer that it belongs to; -1 if to none."""
        found = _LAYER.match(self.name)
        return -1 if found is None else int(found[1])


def shorten(source: Path, target: Path, num_layers: int) -> Path:
    """Write a model with the first `num_layers` layers of `source`; the target is replaced if it exists.

    Raises:
        ModelUnreadable: the source is no GGUF file of version 3, has an alignment of its own, or has fewer layers.
    """
    with source.open("rb") as file:
        if file.read(4) != MAGIC or _number(file, "<I") != _VERSION:
            raise ModelUnreadable(f"{source}: no GGUF file of version {_VERSION}")
        num_tensors, num_values = _number(file, "<Q"), _number(file, "<Q")
        values = b"".join(_value(file, source, num_layers) for _ in range(num_values))
        tensors = [_tensor(file) for _ in range(num_tensors)]
        if max(each.layer for each in tensors) < num_layers:
            raise ModelUnreadable(f"{source}: has fewer than {num_layers + 1} layers, so there is nothing to leave out")
        data_at = _aligned(file.tell())
        data = _data(file, data_at, tensors)
    kept = [each for each in tensors if each.layer < num_layers]
    infos, offset = b"", 0
    for each in kept:
        infos += _text(each.name) + each.shape + struct.pack("<Q", offset)
        offset += _aligned(len(data[each.name]))
    head = MAGIC + struct.pack("<IQQ", _VERSION, len(kept), num_values) + values + infos
    with target.open("wb") as file:
        file.write(_padded(head))
        for each in kept:
            file.write(_padded(data[each.name]))
    return target


def _value(file: BinaryIO, source: Path, num_layers: int) -> bytes:
    """One value, as it stands there; the number of layers is another one."""
    key = _string(file)
    if key == b"general.alignment":
        raise ModelUnreadable(f"{source}: says an alignment of its own")
    kind = _number(file, "<I")
    start = file.tell()
    _skip(file, kind)
    end = file.tell()
    file.seek(start)
    body = file.read(end - start)
    if key.endswith(b".block_count"):
        assert kind == _UINT32, "a number of layers has 32 bits"
        body = struct.pack("<I", num_layers)
    return _text(key) + struct.pack("<I", kind) + body


def _skip(file: BinaryIO, kind: int) -> None:
    if kind == _STRING:
        _string(file)
    elif kind == _ARRAY:
        inner, number = _number(file, "<I"), _number(file, "<Q")
        if inner in (_STRING, _ARRAY):
            for _ in range(number):
                _skip(file, inner)
        else:
            file.seek(_SIZES[inner] * number, 1)
    else:
        file.seek(_SIZES[kind], 1)


def _tensor(file: BinaryIO) -> _Tensor:
    name = _string(file)
    start = file.tell()
    num_dimensions = _number(file, "<I")
    file.seek(start)
    shape = file.read(4 + 8 * num_dimensions + 4)
    return _Tensor(name, shape, _number(file, "<Q"))


def _data(file: BinaryIO, data_at: int, tensors: list[_Tensor]) -> dict[bytes, bytes]:
    """The bytes of each tensor up to where the next one begins, so with the padding between them."""
    ordered = sorted(tensors, key=lambda each: each.offset)
    size = file.seek(0, 2) - data_at
    ends = [each.offset for each in ordered[1:]] + [size]
    found: dict[bytes, bytes] = {}
    for each, end in zip(ordered, ends, strict=True):
        file.seek(data_at + each.offset)
        found[each.name] = file.read(end - each.offset)
    return found


def _string(file: BinaryIO) -> bytes:
    return file.read(_number(file, "<Q"))


def _text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def _number(file: BinaryIO, form: str) -> int:
    number: int = struct.unpack(form, file.read(struct.calcsize(form)))[0]
    return number


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _padded(body: bytes) -> bytes:
    return body + bytes(_aligned(len(body)) - len(body))
