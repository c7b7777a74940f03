"""Bytes and operations of one decode call, counted from the tensors of the model's file.

For a call of R rows after C positions, O of them with logits, of a model with L layers, H heads, G key-value heads and
heads of K and V numbers:

    a matrix of n weights          2 R n operations, its bytes once: all rows of a micro-batch use what was read
    the output matrix              2 O n operations, its bytes once; it may be the embedding's
    the embedding                  R rows of bytes
    experts, u of E used           2 R n u / E operations, bytes of min(E, R u) of the E experts
    a vector of n weights          R n operations, its bytes once
    the last layer's feed-forward  O rows in place of R: rows without logits end before it
    attention                      S = R C + R (R + 1) / 2 pairs of a row and a position that it sees;
                                   2 S H (K + V) L operations in fp32
    KV read                        (C + R) G (K a + V a) L bytes, a bytes a number; once for all rows of the call
    KV write                       R G (K a + V a) L bytes
    activations                    4 R (in + out) bytes a matrix, fp32; they stay in caches and bound nothing

A multiply-add is two operations. Source: the matrix products of a transformer layer, counted; the attention terms as in
Narayanan et al., "Efficient large-scale language model training on GPU clusters using Megatron-LM", 2021, appendix,
forward pass alone, with the causal half counted exactly.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from arriero.backend.gguf import GgufHeader, TensorInfo
from arriero.core.config import KvType
from arriero.core.errors import ConfigError
from arriero.record.cpu_lab.roofline import Arithmetic, WorkPart

KV_BYTES: Final = {KvType.F32: 4.0, KvType.F16: 2.0, KvType.BF16: 2.0, KvType.Q8_0: 34 / 32, KvType.Q4_0: 18 / 32}
"""Bytes of a number in KV memory, with its share of the block's scale."""

_FLOAT_BYTES: Final = 4
_EXPERTS: Final = re.compile(r"^blk\.\d+\.ffn_\w+_exps\.")
_EMBEDDING: Final = "token_embd.weight"
_OUTPUT: Final = "output.weight"


class CallShape(NamedTuple):
    """One decode call.

    Attributes:
        rows: token positions that are computed.
        context: positions in KV before it.
        outputs: rows that get logits.
        kv_type: of keys and values.
    """

    rows: int
    context: int
    outputs: int
    kv_type: KvType


class AttentionShape(NamedTuple):
    """What a file says of its attention."""

    layers: int
    heads: int
    kv_heads: int
    key_length: int
    value_length: int


def attention_shape(header: GgufHeader) -> AttentionShape:
    """Read it from the file's values.

    Raises:
        ConfigError: a number is missing, or differs from layer to layer.
    """
    name = header.text("general.architecture")
    layers, heads = _count(header, f"{name}.block_count"), _count(header, f"{name}.attention.head_count")
    kv_heads = header.count(f"{name}.attention.head_count_kv") or heads
    width = _count(header, f"{name}.embedding_length") // heads
    key_length = header.count(f"{name}.attention.key_length") or width
    value_length = header.count(f"{name}.attention.value_length") or width
    return AttentionShape(layers, heads, kv_heads, key_length, value_length)


def work_of(header: GgufHeader, call: CallShape) -> tuple[WorkPart, ...]:
    """The work of one call: weights by type, most bytes first, then KV and activations.

    Raises:
        ConfigError: see `attention_shape`.
    """
    shape = attention_shape(header)
    parts: dict[str, WorkPart] = {}
    for each in (*_weights(header, call), *_attention(shape, call), _activations(header, call)):
        known = parts.get(each.name)
        parts[each.name] = each if known is None else _sum(known, each)
    return tuple(sorted(parts.values(), key=lambda part: (not part.from_memory, -part.bytes, part.name)))


def seen_positions(rows: int, context: int) -> int:
    """Pairs of a row and a position that it sees, itself among them."""
    return rows * context + rows * (rows + 1) // 2


def _weights(header: GgufHeader, call: CallShape) -> Iterator[WorkPart]:
    is_tied = all(tensor.name != _OUTPUT for tensor in header.tensors)
    last = f"blk.{attention_shape(header).layers - 1}.ffn_"
    for tensor in header.tensors:
        if tensor.name == _EMBEDDING:
            row_bytes = tensor.num_bytes / tensor.shape[1]
            yield _weight_part(tensor, bytes_read=call.rows * row_bytes, operations=0.0)
            if is_tied:
                yield _head(tensor, call)
        elif tensor.name == _OUTPUT:
            yield _head(tensor, call)
        elif _EXPERTS.match(tensor.name):
            yield _experts(tensor, header, call)
        else:
            per_row = 2 if len(tensor.shape) > 1 else 1
            rows = call.outputs if tensor.name.startswith(last) else call.rows
            operations = float(per_row * rows * tensor.num_weights)
            yield _weight_part(tensor, bytes_read=tensor.num_bytes, operations=operations)


def _head(tensor: TensorInfo, call: CallShape) -> WorkPart:
    read = tensor.num_bytes if call.outputs else 0
    return _weight_part(tensor, bytes_read=read, operations=2.0 * call.outputs * tensor.num_weights)


def _experts(tensor: TensorInfo, header: GgufHeader, call: CallShape) -> WorkPart:
    name = header.text("general.architecture")
    number, used = _count(header, f"{name}.expert_count"), _count(header, f"{name}.expert_used_count")
    read = min(number, call.rows * used) / number
    operations = 2.0 * call.rows * tensor.num_weights * used / number
    return _weight_part(tensor, bytes_read=tensor.num_bytes * read, operations=operations)


def _weight_part(tensor: TensorInfo, *, bytes_read: float, operations: float) -> WorkPart:
    return WorkPart(
        name=f"weights {tensor.type.name}",
        bytes=bytes_read,
        operations=operations,
        arithmetic=Arithmetic.INT8 if tensor.type.is_quantised else Arithmetic.FP32,
        from_memory=True,
    )


def _attention(shape: AttentionShape, call: CallShape) -> Iterator[WorkPart]:
    numbers = shape.kv_heads * (shape.key_length + shape.value_length) * shape.layers
    position_bytes = numbers * KV_BYTES[call.kv_type]
    pairs = seen_positions(call.rows, call.context)
    operations = 2.0 * pairs * shape.heads * (shape.key_length + shape.value_length) * shape.layers
    yield WorkPart(
        name="attention over KV",
        bytes=(call.context + call.rows) * position_bytes,
        operations=operations,
        arithmetic=Arithmetic.FP32,
        from_memory=True,
    )
    yield WorkPart(
        name="KV written",
        bytes=call.rows * position_bytes,
        operations=0.0,
        arithmetic=Arithmetic.FP32,
        from_memory=True,
    )


def _activations(header: GgufHeader, call: CallShape) -> WorkPart:
    matrices = [each for each in header.tensors if len(each.shape) > 1 and each.name not in {_EMBEDDING, _OUTPUT}]
    numbers = sum(each.shape[0] + each.shape[1] for each in matrices)
    return WorkPart(
        name="activations",
        bytes=float(_FLOAT_BYTES * call.rows * numbers),
        operations=0.0,
        arithmetic=Arithmetic.FP32,
        from_memory=False,
    )


def _sum(one: WorkPart, other: WorkPart) -> WorkPart:
    return WorkPart(
        name=one.name,
        bytes=one.bytes + other.bytes,
        operations=one.operations + other.operations,
        arithmetic=one.arithmetic,
        from_memory=one.from_memory,
    )


def _count(header: GgufHeader, key: str) -> int:
    found = header.count(key)
    if not found:
        raise ConfigError(
            f"--roofline: the model's file does not say {key} as one number, so its work cannot be counted; leave out "
            f"--roofline for this model"
        )
    return found


def operations_by_arithmetic(parts: Sequence[WorkPart]) -> dict[Arithmetic, float]:
    """Operations that each peak bounds."""
    return {each: sum(part.operations for part in parts if part.arithmetic is each) for each in Arithmetic}
