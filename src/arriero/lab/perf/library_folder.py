"""Which folder the shared libraries of llama.cpp come from, without loading any of them.

The process that measures stays small: what it has mapped and hashed counts against the figures of its children.
"""

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from arriero.core.errors import ConfigError
from arriero.lab.file_hash import file_sha256

VARIABLE: Final = "LLAMA_CPP_LIB_PATH"
"""The binding takes its libraries from the folder that this names."""

_PACKAGE: Final = "llama_cpp"
_LIBRARY: Final = re.compile(r"lib(?:ggml|llama)[\w-]*\.(?:so|dylib)")


def library_folder(choice: str | None, environment: Mapping[str, str] = os.environ) -> Path:
    """The folder that was chosen, else the environment's, else the installed binding's own.

    Raises:
        ConfigError: it holds no library of llama.cpp, or the binding is not installed.
    """
    named = choice or environment.get(VARIABLE)
    if named is None:
        spec = find_spec(_PACKAGE)
        places = [] if spec is None else list(spec.submodule_search_locations or ())
        if not places:
            raise ConfigError("the llama.cpp binding is not installed; pip install 'arriero[llama]', or use --library")
        named = str(Path(places[0]) / "lib")
    folder = Path(named)
    folder = folder.parent if folder.is_file() else folder
    if not library_files(folder):
        origin = "--library" if choice else VARIABLE
        raise ConfigError(f"{origin} {named}: holds no libggml or libllama; name the folder of a built llama.cpp")
    return folder


def library_files(folder: Path) -> tuple[Path, ...]:
    """The libraries in a folder, each once, by name."""
    if not folder.is_dir():
        return ()
    return tuple(sorted(path for path in folder.iterdir() if _LIBRARY.fullmatch(path.name) and path.is_file()))


def library_hashes(folder: Path) -> dict[str, str]:
    """Base name -> SHA-256."""
    return {path.name: file_sha256(path) for path in library_files(folder)}
