import io
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.backend.gguf import GgufArray, GgufHeader, parse_header, read_header
from arriero.core.errors import ModelUnreadable
from tests.unit.backend.gguf_files import (
    Tensor,
    entry,
    floats,
    gguf,
    small_model,
    string,
    strings,
    text,
    uint32,
)

SMALL = small_model()


class Watched(io.BytesIO):
    """Fails when somebody asks for more than there is: a count was believed."""

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None
        assert 0 <= size <= len(self.getbuffer())
        return super().read(size)


def parse(data: bytes) -> GgufHeader:
    return parse_header(Watched(data), len(data), "model.gguf")


def refusal(data: bytes) -> str:
    with pytest.raises(ModelUnreadable) as caught:
        parse(data)
    message = str(caught.value)
    assert message.startswith("model.gguf: ")
    assert "\n" not in message
    assert "; " in message  # the remedy
    return message


def test_a_header_says_what_the_file_holds() -> None:
    header = parse(SMALL)
    assert (header.version, header.alignment, header.file_bytes) == (3, 32, len(SMALL))
    assert header.text("general.architecture") == "llama"
    assert header.count("llama.context_length") == 2048
    assert header.values["general.flag"] is True
    assert header.values["tokenizer.ggml.tokens"] == GgufArray("string", 4)
    assert header.values["tokenizer.ggml.scores"] == GgufArray("float32", 4)
    embedding = header.tensors[0]
    assert (embedding.name, embedding.shape, embedding.type.name) == ("token_embd.weight", (576, 4), "Q8_0")
    assert (embedding.num_weights, embedding.num_bytes) == (2304, 2304 // 32 * 34)
    assert header.data_at % 32 == 0
    assert header.data_at + header.tensors[-1].offset + 576 * 4 <= len(SMALL)


def test_values_of_another_type_are_neither_text_nor_count() -> None:
    header = parse(gguf([string("a", "x"), entry("b", 5, struct.pack("<i", -1)), entry("c", 7, b"\1")]))
    assert (header.count("a"), header.count("b"), header.count("c"), header.count("d")) == (None, None, None, None)
    assert (header.text("b"), header.text("d")) == (None, None)


@pytest.mark.parametrize(
    ("kind", "body", "value"),
    [
        (0, b"\xff", 255), (1, b"\xff", -1), (2, b"\1\1", 257), (3, b"\xff\xff", -1), (4, b"\1\0\0\0", 1),
        (5, b"\xff\xff\xff\xff", -1), (6, struct.pack("<f", 0.5), 0.5), (7, b"\0", False), (8, text("word"), "word"),
        (10, struct.pack("<Q", 2**64 - 1), 2**64 - 1), (11, struct.pack("<q", -5), -5),
        (12, struct.pack("<d", 0.1), 0.1),
    ],
)  # fmt: skip
def test_every_type_of_value_is_read(kind: int, body: bytes, value: object) -> None:
    found = parse(gguf([entry("key", kind, body)])).values["key"]
    assert found == value
    assert type(found) is type(value)


def test_version_two_is_read_too() -> None:
    assert parse(gguf([uint32("a", 1)], version=2)).version == 2


def test_a_file_may_state_its_alignment() -> None:
    tensors = [Tensor(name="a", shape=(3,)), Tensor(name="b", shape=(3,))]
    header = parse(gguf([uint32("general.alignment", 64)], tensors, alignment=64))
    assert [tensor.offset for tensor in header.tensors] == [0, 64]


def test_padding_after_the_last_tensor_may_be_missing() -> None:
    data = gguf([], [Tensor(name="a", shape=(3,))])
    assert parse(data[:-20]).tensors[0].num_bytes == 12
    assert "20 bytes" not in refusal(data[:-21])


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no GGUF file"),
        (b"GG", "no GGUF file"),
        (b"PK\3\4 and so on", "no GGUF file"),
        (b"GGUF", "ends within the version"),
        (gguf(version=1), "version 1, not 2 or 3"),
        (b"GGUF" + struct.pack(">I", 3), "big-endian"),
        (gguf(counts={"tensors": 2**63}), f"{2**63} tensors"),
        (gguf(counts={"values": 2**40}), f"{2**40} values"),
        (gguf([uint32("a", 1), uint32("a", 2)]), "'a' is there twice"),
        (gguf([entry(b"\xff", 4, b"\0\0\0\0")]), "no UTF-8"),
        (gguf([entry("a", 8, text(b"\xc3\x28"))]), "value 'a' is no UTF-8"),
        (gguf([entry("a", 99, b"")], [Tensor(name="t", shape=(1,))]), "unknown type 99"),
        (gguf([entry("a", 7, b"\2")]), "neither true nor false"),
        (gguf([entry("a", 8, struct.pack("<Q", 2**62))]), "bytes long"),
        (gguf([entry("a", 9, struct.pack("<IQ", 4, 2**61))]), f"{2**61} elements"),
        (gguf([entry("a", 9, struct.pack("<IQ", 8, 2**60))]), f"{2**60} elements"),
        (gguf([entry("a", 9, struct.pack("<IQ", 9, 1) + bytes(64))]), "arrays cannot have"),
        (gguf([entry("a", 9, struct.pack("<IQ", 77, 1) + bytes(64))]), "arrays cannot have"),
        (gguf([entry("a", 9, struct.pack("<IQQ", 8, 1, 2**50))]), "ends within"),
        (gguf([uint32("general.alignment", 0)]), "no power of two"),
        (gguf([uint32("general.alignment", 48)]), "no power of two"),
        (gguf([string("general.alignment", "32")]), "no power of two"),
        (gguf([], [Tensor(name="t", shape=())]), "0 dimensions"),
        (gguf([], [Tensor(name="t", shape=(1, 1, 1, 1, 1))]), "5 dimensions"),
        (gguf([], [Tensor(name="t", shape=(0, 4))]), "shape 0x4"),
        (gguf([], [Tensor(name="t", shape=(1,), code=5)]), "unknown type 5"),
        (gguf([], [Tensor(name="t", shape=(33,), type="Q8_0")]), "rows of 33 weights, no multiple of Q8_0's 32"),
        (gguf([], [Tensor(name="t", shape=(4,), offset=16)]), "no multiple of the alignment"),
        (gguf([], [Tensor(name="t", shape=(4,), offset=2**63)]), "cut short"),
        (gguf([], [Tensor(name="t", shape=(4,)), Tensor(name="t", shape=(4,))]), "one name"),
        (gguf([], [Tensor(name="t", shape=(64,)), Tensor(name="u", shape=(4,), offset=32)]), "'t' and 'u' overlap"),
        (gguf([], [Tensor(name="t" * 64, shape=(4,))]), "64 bytes long, with 63 at most"),
        (SMALL[:-1000], "fetch it again, whole"),
    ],
)  # fmt: skip
def test_damage_is_told_in_one_line_with_the_remedy(data: bytes, says: str) -> None:
    assert says in refusal(data)


def test_a_shape_beyond_all_memory_is_refused_before_anything_is_made_of_it() -> None:
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text("t")
    assert "which cannot be" in refusal(head + struct.pack("<I4QIQ", 4, *[2**64 - 1] * 4, 0, 0))
    assert "cut short" in refusal(head + struct.pack("<I2QIQ", 2, 2**31, 2**31, 0, 0))


@given(st.integers(0, len(SMALL) - 1))
def test_a_truncated_file_is_refused(length: int) -> None:
    refusal(SMALL[:length])


@given(st.lists(st.integers(0, 8 * len(SMALL) - 1), min_size=1, max_size=8))
def test_flipped_bits_are_refused_or_harmless(bits: list[int]) -> None:
    data = bytearray(SMALL)
    for bit in bits:
        data[bit // 8] ^= 1 << bit % 8
    check_anything(bytes(data))


@given(st.integers(0, parse(SMALL).data_at - 8), st.binary(min_size=8, max_size=8))
def test_lying_numbers_are_refused_or_harmless(place: int, number: bytes) -> None:
    check_anything(SMALL[:place] + number + SMALL[place + 8 :])


@given(st.binary(max_size=400))
def test_anything_after_the_magic_is_refused_or_harmless(rest: bytes) -> None:
    check_anything(b"GGUF\3\0\0\0" + rest)


@given(st.lists(st.text(max_size=20), max_size=20, unique=True), st.lists(st.floats(width=32), max_size=9))
def test_whole_files_of_any_content_are_read(words: list[str], numbers: list[float]) -> None:
    header = parse(gguf([strings("words", words), floats("numbers", numbers), *(string(f"k{w}", w) for w in words)]))
    assert header.values["words"] == GgufArray("string", len(words))
    assert header.values["numbers"] == GgufArray("float32", len(numbers))
    assert [header.text(f"k{word}") for word in words] == words


def check_anything(data: bytes) -> None:
    """A header that the bytes can hold, or one line."""
    try:
        header = parse(data)
    except ModelUnreadable as problem:
        assert "\n" not in str(problem)  # noqa: PT017 - either outcome is right
        return
    assert len(header.values) * 14 + len(header.tensors) * 33 <= len(data)
    assert sum(tensor.num_bytes for tensor in header.tensors) <= len(data)


def test_a_file_is_read_from_its_path_and_a_missing_one_is_told(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(SMALL)
    assert read_header(path) == parse(SMALL)
    for wrong, says in ((tmp_path / "none.gguf", "no such file"), (tmp_path, "is a directory")):
        with pytest.raises(ModelUnreadable, match=says):
            read_header(wrong)
