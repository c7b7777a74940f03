"""The model files of a matrix: found, hashed, and compared with what the configuration states."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from arriero.backend.models import EMBEDDED, HUB_PREFIX, resolve_model
from arriero.core.errors import ModelUnreadable
from arriero.lab.machine.model_file import model_facts
from arriero.lab.matrix.config import ModelEntry, ReadConfig
from arriero.lab.matrix.matrix_model import MatrixModel
from arriero.record.cpu_lab.model_facts import ModelFacts
from arriero.record.cpu_lab.yaml_lines import YamlPath

UNKNOWN: Final = "unknown"
_STRANGE: Final = re.compile(r"[^A-Za-z0-9._-]+")

Facts = Callable[[Path], ModelFacts]


class PlannedModel(NamedTuple):
    """What the configuration says of a model file, which may not be there."""

    entry: ModelEntry
    path: Path  # a reference is left as it is, and is resolved when the file is read
    where: YamlPath  # in the configuration
    states_format: bool


def planned_models(read: ReadConfig) -> tuple[PlannedModel, ...]:
    """The models in their order; opens no file."""
    config = read.config
    if config.model is not None:
        name = config.model if is_reference(config.model) else Path(config.model).stem
        entry = ModelEntry(id=_STRANGE.sub("-", name).strip("-._") or "model", path=config.model, quantization=UNKNOWN)
        return (PlannedModel(entry, _place(read, config.model), ("model",), states_format=False),)
    return tuple(
        PlannedModel(entry, _place(read, entry.path), ("models", place), states_format=True)
        for place, entry in enumerate(config.models or ())
    )


def matrix_models(read: ReadConfig, facts: Facts = model_facts) -> tuple[MatrixModel, ...]:
    """Find and hash every file before anything is run.

    Raises:
        DataError: a file is not there, is no GGUF file, or is not the one that the configuration states.
        ConfigError: a reference that cannot be resolved.
    """
    return tuple(_verified(read, facts))


def is_reference(path: str) -> bool:
    """Whether a model's path names no file, but the embedded model or a file of a hub."""
    return path == EMBEDDED or path.startswith(HUB_PREFIX)


def _verified(read: ReadConfig, facts: Facts) -> Iterator[MatrixModel]:
    for planned in planned_models(read):
        entry, where = planned.entry, planned.where
        path = resolve_model(entry.path) if is_reference(entry.path) else planned.path
        try:
            found = facts(path)
        except ModelUnreadable as problem:
            read.refuse(where, str(problem))
        if entry.byte_size is not None and entry.byte_size != found.bytes:
            read.refuse((*where, "byte_size"), f"{path.name} has {found.bytes} bytes, not {entry.byte_size}")
        if entry.sha256 is not None and entry.sha256 != found.sha256:
            read.refuse(
                (*where, "sha256"), f"{path.name} has {found.sha256}: this is another file; fetch the right one"
            )
        declared = entry.quantization if planned.states_format else found.declared_format or UNKNOWN
        yield MatrixModel(entry.id, path, declared, found.sha256, found.bytes)


def _place(read: ReadConfig, word: str) -> Path:
    return Path(word) if is_reference(word) else read.resolve(word)
