"""Fingerprint: what has to be equal for saved KV to mean the same."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from arriero.backend.context import ContextOptions
from arriero.backend.llama_model import LlamaModel

EDGE_BYTES: Final = 1 << 20  # from the beginning and from the end of a model file
SAMPLE_BYTES: Final = 1 << 12
NUM_SAMPLES: Final = 64
DIGEST_BYTES: Final = 16

FORMAT: Final = "run files"
MODEL: Final = "model"
WEIGHTS: Final = "weights"
KV_TYPE: Final = "KV type"
LAYOUT: Final = "KV layout"
VALUES: Final = "order of values"
MODE: Final = "mode"
STATE: Final = "llama.cpp's state version"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Facts by name, as texts that a person can compare."""

    facts: tuple[tuple[str, str], ...]

    @property
    def digest(self) -> str:
        """All facts in one word."""
        text = json.dumps(self.facts, ensure_ascii=True)
        return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()

    def differences(self, other: "Fingerprint") -> list[str]:
        """One phrase for each fact that `other` has otherwise: its value, then ours."""
        ours, theirs = dict(self.facts), dict(other.facts)
        names = [*ours, *(name for name in theirs if name not in ours)]
        return [
            f"{name}: {theirs.get(name, 'unknown')} there, {ours.get(name, 'unknown')} here"
            for name in names
            if ours.get(name) != theirs.get(name)
        ]


def fingerprint_of(
    model: LlamaModel, options: ContextOptions, *, values_transposed: bool | None, exact: bool
) -> Fingerprint:
    """Describe a loaded model and the KV memory of a context; reads about 2 MiB of the model file."""
    can = model.capabilities
    order = {True: "transposed (flash attention off)", False: "by position (flash attention on)", None: "unknown"}
    facts = (
        (FORMAT, "1"),
        (MODEL, f"{can.description}, {can.num_parameters} parameters, {can.vocab_size} tokens"),
        (WEIGHTS, f"{can.weight_format}, {can.weight_bytes} bytes, {sample_digest(model.path)}"),
        (KV_TYPE, str(options.kv_type)),
        (LAYOUT, "unified" if options.unified else "separate"),
        (VALUES, order[values_transposed]),
        (MODE, "exact" if exact else "fast"),
        (STATE, str(model.library.structs.LLAMA_STATE_SEQ_VERSION)),
    )
    return Fingerprint(facts)


def sample_digest(path: Path) -> str:
    """A word for a file's size, beginning, end and samples in between: tells two trainings of one model apart."""
    size = path.stat().st_size
    digest = hashlib.blake2b(str(size).encode(), digest_size=DIGEST_BYTES)
    with path.open("rb") as file:
        for offset, length in _stretches(size):
            file.seek(offset)
            digest.update(file.read(length))
    return digest.hexdigest()


def _stretches(size: int) -> Iterator[tuple[int, int]]:
    """Where to read, and how much."""
    yield 0, EDGE_BYTES
    yield max(0, size - EDGE_BYTES), EDGE_BYTES
    for number in range(1, NUM_SAMPLES + 1):
        yield size * number // (NUM_SAMPLES + 1), SAMPLE_BYTES
