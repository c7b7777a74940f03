"""Small GGUF files, sound or damaged, made byte by byte."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from arriero.backend.gguf_types import TENSOR_TYPES

CODES = {kind.name: code for code, kind in TENSOR_TYPES.items()}
ALIGNMENT = 32


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """One tensor; without an offset it follows the one before."""

    name: str
    shape: Sequence[int]
    type: str = "F32"
    code: int | None = None
    offset: int | None = None

    @property
    def num_bytes(self) -> int:
        kind = TENSOR_TYPES[CODES[self.type]]
        total = 1
        for length in self.shape:
            total *= length
        return total // kind.block_length * kind.block_bytes


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def entry(key: str | bytes, kind: int, body: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + body


def string(key: str, value: str) -> bytes:
    return entry(key, 8, text(value))


def uint32(key: str, value: int) -> bytes:
    return entry(key, 4, struct.pack("<I", value))


def strings(key: str, values: Sequence[str]) -> bytes:
    return entry(key, 9, struct.pack("<IQ", 8, len(values)) + b"".join(map(text, values)))


def floats(key: str, values: Sequence[float]) -> bytes:
    return entry(key, 9, struct.pack(f"<IQ{len(values)}f", 6, len(values), *values))


def aligned(size: int, alignment: int = ALIGNMENT) -> int:
    return -(-size // alignment) * alignment


def gguf(
    values: Sequence[bytes] = (),
    tensors: Sequence[Tensor] = (),
    *,
    version: int = 3,
    alignment: int = ALIGNMENT,
    counts: Mapping[str, int] | None = None,
) -> bytes:
    """A file; `counts` lies about the number of `tensors` or `values`."""
    said = {"tensors": len(tensors), "values": len(values), **(counts or {})}
    head = b"GGUF" + struct.pack("<IQQ", version, said["tensors"], said["values"]) + b"".join(values)
    place, data = 0, b""
    for each in tensors:
        code = CODES[each.type] if each.code is None else each.code
        offset = place if each.offset is None else each.offset
        shape = struct.pack(f"<I{len(each.shape)}Q", len(each.shape), *each.shape)
        head += text(each.name) + shape + struct.pack("<IQ", code, offset)
        size = aligned(each.num_bytes, alignment)
        data += bytes(size)
        place += size
    return head.ljust(aligned(len(head), alignment), b"\0") + data


def small_model() -> bytes:
    """What a K-quant of a model with rows of 576 looks like."""
    return gguf(
        [
            string("general.architecture", "llama"),
            string("general.name", "Small"),
            uint32("general.file_type", 15),
            uint32("llama.context_length", 2048),
            uint32("llama.block_count", 2),
            uint32("llama.embedding_length", 576),
            strings("tokenizer.ggml.tokens", ["<s>", "</s>", "a", "b"]),
            floats("tokenizer.ggml.scores", [0.0, 1.0, 2.0, 3.0]),
            entry("general.flag", 7, b"\1"),
        ],
        [
            Tensor(name="token_embd.weight", shape=(576, 4), type="Q8_0"),
            Tensor(name="blk.0.ffn_down.weight", shape=(512, 2), type="Q6_K"),
            Tensor(name="blk.0.attn_q.weight", shape=(576, 2), type="Q5_0"),
            Tensor(name="blk.1.attn_q.weight", shape=(576, 2), type="Q5_0"),
            Tensor(name="output_norm.weight", shape=(576,), type="F32"),
        ],
    )
