"""Bytes and operations of a call, against counting by hand."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.backend.gguf import GgufHeader, parse_header
from arriero.core.choices import KvType
from arriero.core.errors import ConfigError
from arriero.lab.operators.work import CallShape, attention_shape, operations_by_arithmetic, seen_positions, work_of
from arriero.record.cpu_lab.roofline import Arithmetic, WorkPart
from tests.unit.backend.gguf_files import Tensor, gguf, string, uint32

NUMBERS = {
    "block_count": 2, "embedding_length": 64, "attention.head_count": 4, "attention.head_count_kv": 2, "vocab_size": 96,
}  # fmt: skip
LAYER = {"attn_q": (64, 64), "attn_output": (64, 64), "ffn_up": (64, 128), "ffn_down": (128, 64)}


def header(*more: Tensor, numbers: dict[str, int] | None = None, tied: bool = True) -> GgufHeader:
    values = [string("general.architecture", "llama")]
    values += [uint32(f"llama.{name}", value) for name, value in (NUMBERS if numbers is None else numbers).items()]
    tensors = [Tensor(name="token_embd.weight", shape=(64, 96), type="Q8_0")]
    tensors += [
        Tensor(name=f"blk.{layer}.{name}.weight", shape=shape, type="Q4_0")
        for layer in range(2)
        for name, shape in LAYER.items()
    ]
    tensors += [Tensor(name="output_norm.weight", shape=(64,), type="F32"), *more]
    if not tied:
        tensors.append(Tensor(name="output.weight", shape=(64, 96), type="F16"))
    data = gguf(values, tensors)
    return parse_header(io.BytesIO(data), len(data), "made")


def part(parts: tuple[WorkPart, ...], name: str) -> WorkPart:
    return next(each for each in parts if each.name == name)


def call(rows: int, context: int = 0, outputs: int = 1, kv_type: KvType = KvType.F16) -> CallShape:
    return CallShape(rows, context, outputs, kv_type)


def test_weights_are_read_once_and_multiplied_once_a_row() -> None:
    parts = work_of(header(), call(rows=10))
    weights = part(parts, "weights Q4_0")
    per_layer = 2 * 64 * 64 + 2 * 64 * 128
    assert weights.bytes == 2 * per_layer * 18 / 32
    last_ffn = 2 * 64 * 128
    assert weights.operations == 2 * (10 * (2 * per_layer - last_ffn) + last_ffn)
    assert weights.arithmetic is Arithmetic.INT8


def test_a_tied_embedding_is_read_by_rows_and_as_the_output_matrix() -> None:
    found = part(work_of(header(), call(rows=10)), "weights Q8_0")
    assert found.bytes == 10 * 68 + 96 * 68
    assert found.operations == 2 * 64 * 96


def test_an_output_matrix_of_its_own() -> None:
    parts = work_of(header(tied=False), call(rows=10))
    assert part(parts, "weights Q8_0").bytes == 10 * 68
    assert part(parts, "weights F16").operations == 2 * 64 * 96
    assert part(parts, "weights F16").arithmetic is Arithmetic.FP32


def test_without_logits_the_output_matrix_is_not_read() -> None:
    assert part(work_of(header(), call(rows=10, outputs=0)), "weights Q8_0").bytes == 10 * 68


def test_attention_reads_what_is_there_and_what_is_new() -> None:
    found = part(work_of(header(), call(rows=3, context=5)), "attention over KV")
    assert found.bytes == 2 * 8 * 2 * (16 + 16) * 2  # layers, positions, heads, K and V, bytes
    assert found.operations == 2 * (6 + 7 + 8) * 4 * 32 * 2
    assert part(work_of(header(), call(rows=3, context=5)), "KV written").bytes == 2 * 3 * 2 * 32 * 2


@pytest.mark.parametrize(("kv_type", "share"), [(KvType.Q8_0, 34 / 64), (KvType.Q4_0, 18 / 64), (KvType.F32, 2.0)])
def test_the_kv_type_decides_its_bytes(kv_type: KvType, share: float) -> None:
    plain = part(work_of(header(), call(rows=1, context=99)), "attention over KV")
    other = part(work_of(header(), call(rows=1, context=99, kv_type=kv_type)), "attention over KV")
    assert other.bytes == pytest.approx(share * plain.bytes)
    assert other.operations == plain.operations


def test_activations_are_counted_and_bound_nothing() -> None:
    found = part(work_of(header(), call(rows=2)), "activations")
    assert found.bytes == 4 * 2 * 2 * (128 + 128 + 192 + 192)
    assert not found.from_memory


def test_experts_that_no_row_needs_are_not_read() -> None:
    experts = Tensor(name="blk.0.ffn_gate_exps.weight", shape=(64, 32, 8), type="F32")
    numbers = {**NUMBERS, "expert_count": 8, "expert_used_count": 2}
    one = part(work_of(header(experts, numbers=numbers), call(rows=1)), "weights F32")
    many = part(work_of(header(experts, numbers=numbers), call(rows=100)), "weights F32")
    norm = 64 * 4
    assert one.bytes - norm == 64 * 32 * 8 * 4 / 4
    assert many.bytes - norm == 64 * 32 * 8 * 4
    assert many.operations == 100 * (2 * 64 * 32 * 2 + 64)


@given(st.integers(1, 200), st.integers(0, 500))
def test_pairs_of_rows_and_positions_are_counted_one_by_one(rows: int, context: int) -> None:
    assert seen_positions(rows, context) == sum(context + row + 1 for row in range(rows))


@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 300))
def test_two_calls_compute_what_one_does(first: int, second: int, context: int) -> None:
    """Cutting a prompt changes no operation but the logits and the last layer's, which only rows with logits need."""
    whole = operations_by_arithmetic(work_of(header(), call(first + second, context)))
    one = operations_by_arithmetic(work_of(header(), call(first, context, outputs=0)))
    other = operations_by_arithmetic(work_of(header(), call(second, context + first)))
    for arithmetic in Arithmetic:
        assert whole[arithmetic] == pytest.approx(one[arithmetic] + other[arithmetic])


def test_head_sizes_that_the_file_states_are_taken() -> None:
    numbers = {**NUMBERS, "attention.key_length": 24, "attention.value_length": 8}
    assert attention_shape(header(numbers=numbers)) == (2, 4, 2, 24, 8)


@pytest.mark.parametrize("name", ["block_count", "attention.head_count", "embedding_length"])
def test_a_file_that_does_not_say_enough_is_refused(name: str) -> None:
    numbers = {key: value for key, value in NUMBERS.items() if key != name}
    with pytest.raises(ConfigError, match=rf"--roofline: the model's file does not say llama\.{name}"):
        work_of(header(numbers=numbers), call(rows=1))
