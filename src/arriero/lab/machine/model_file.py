"""model_facts: what a GGUF file holds, by its own header, and its hash."""

import hashlib
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from arriero.backend.gguf import GgufArray, GgufHeader, TensorInfo, read_header
from arriero.backend.gguf_types import DECLARED_FORMATS, FALLBACKS, TENSOR_TYPES
from arriero.core.errors import ModelUnreadable
from arriero.record.cpu_lab.model_facts import FallbackFacts, ModelFacts, TensorTypeFacts

_LONG_BLOCK: Final = 256
"""Weights in a block of the K-quants and of most i-quants."""

_LONG_BLOCK_FORMATS: Final = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ1", "IQ2", "IQ3", "IQ4_XS", "TQ")


def model_facts(path: Path) -> ModelFacts:
    """Read a file's header and hash the whole of it; remembered until the file changes.

    Hashing takes about a second for a gigabyte where the CPU has instructions for it.

    Raises:
        ModelUnreadable: see `arriero.backend.gguf`.
    """
    try:
        state = path.stat()
    except OSError as problem:
        reason = (problem.strerror or "cannot be read").lower()
        raise ModelUnreadable(f"{path}: {reason}; give the path of a GGUF file, or smollm2-135m") from None
    return _facts(path, state.st_mtime_ns, state.st_size)


def header_facts(header: GgufHeader, *, file: str, sha256: str) -> ModelFacts:
    """The facts that follow from a header.

    Args:
        header: of the file.
        file: its base name.
        sha256: of its content.
    """
    architecture = header.text("general.architecture")
    declared = _declared_format(header)
    facts = ModelFacts(
        file=file,
        bytes=header.file_bytes,
        sha256=sha256,
        gguf_version=header.version,
        architecture=architecture,
        name=header.text("general.name"),
        num_parameters=sum(tensor.num_weights for tensor in header.tensors),
        declared_format=declared,
        tensor_types=_tensor_types(header.tensors),
        fallbacks=_fallbacks(header.tensors, declared),
        trained_context=header.count(f"{architecture}.context_length"),
        vocab_size=_vocab_size(header, architecture),
        num_layers=header.count(f"{architecture}.block_count"),
        embedding_length=header.count(f"{architecture}.embedding_length"),
        reasons={},
    )
    absent = [name for name in ModelFacts.__struct_fields__ if getattr(facts, name) is None]
    return msgspec.structs.replace(facts, reasons=dict.fromkeys(absent, "the file does not say it"))


@lru_cache(maxsize=256)
def _facts(path: Path, _mtime_ns: int, _size: int) -> ModelFacts:
    """Time and size of the last change only key the cache."""
    header = read_header(path)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return header_facts(header, file=path.name, sha256=digest)


def _declared_format(header: GgufHeader) -> str | None:
    code = header.count("general.file_type")
    return None if code is None else DECLARED_FORMATS.get(code, f"unknown ({code})")


def _vocab_size(header: GgufHeader, architecture: str | None) -> int | None:
    tokens = header.values.get("tokenizer.ggml.tokens")
    if isinstance(tokens, GgufArray):
        return tokens.length
    return header.count(f"{architecture}.vocab_size")


def _tensor_types(tensors: tuple[TensorInfo, ...]) -> tuple[TensorTypeFacts, ...]:
    """By type; most bytes first, then by name."""
    number, weights, size = Counter[str](), Counter[str](), Counter[str]()
    for tensor in tensors:
        number[tensor.type.name] += 1
        weights[tensor.type.name] += tensor.num_weights
        size[tensor.type.name] += tensor.num_bytes
    names = sorted(number, key=lambda name: (-size[name], name))
    return tuple(
        TensorTypeFacts(type=name, num_tensors=number[name], num_weights=weights[name], bytes=size[name])
        for name in names
    )


def _fallbacks(tensors: tuple[TensorInfo, ...], declared: str | None) -> tuple[FallbackFacts, ...]:
    """Quantised tensors of a format with blocks of 256 whose rows are no multiple of that."""
    if declared is None or not declared.startswith(_LONG_BLOCK_FORMATS):
        return ()
    short = {kind.name for kind in TENSOR_TYPES.values() if kind.is_quantised and kind.block_length < _LONG_BLOCK}
    found = Counter(
        (tensor.type.name, tensor.shape[0])
        for tensor in tensors
        if tensor.type.name in short and tensor.shape[0] % _LONG_BLOCK
    )
    return tuple(
        FallbackFacts(
            type=name,
            instead_of=tuple(sorted(wanted for wanted, taken in FALLBACKS.items() if taken == name)),
            row_length=row_length,
            block_length=_LONG_BLOCK,
            num_tensors=number,
        )
        for (name, row_length), number in sorted(found.items())
    )
