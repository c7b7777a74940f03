"""Provenance: a variant by the hashes of everything that it names, so that a changed file is another variant."""

import hashlib
import shutil
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from arriero.core.errors import ConfigError, DataError
from arriero.lab.ab.variants import Variant
from arriero.record.cpu_lab.ab_run import VariantFacts
from arriero.record.provenance import portable_command

OUTPUT_FLAGS: Final = frozenset({"-o", "--out", "--output", "--output-file"})
"""A file behind one of these is written by the command, and so is no part of what the variant is."""

READ_BY_LLAMA: Final = ("OMP_", "GOMP_", "KMP_", "GGML_", "LLAMA_", "GLIBC_TUNABLES", "MALLOC_", "LD_PRELOAD")
"""How the names of such variables begin."""

_PIECE: Final = 1 << 20


def variant_facts(variant: Variant) -> VariantFacts:
    """A variant by content.

    Raises:
        ConfigError: its program, its model or its library folder is missing or cannot be read.
    """
    target = variant.target
    words = [*target.command[1:], *variant.environment.values()]
    named = [_program(target.command[0]), *map(Path, target.inputs), *_named_files(words)]
    return VariantFacts(
        name=variant.name,
        kind=target.kind,
        command=shown_command(variant),
        settings=dict(target.settings),
        environment=_portable_values(variant.environment),
        library={} if variant.library is None else library_hashes(variant.library),
        files=file_hashes(named),
    )


def file_hashes(paths: Iterable[Path]) -> dict[str, str]:
    """Base name -> SHA-256, in their order; a second file of one name, from another folder, has its number behind it.

    Raises:
        ConfigError: one cannot be read.
    """
    found: dict[str, str] = {}
    for path in dict.fromkeys(paths):
        name, number = path.name, 1
        while name in found:
            number += 1
            name = f"{path.name} ({number})"
        found[name] = file_sha256(path)
    return found


def shown_command(variant: Variant) -> tuple[str, ...]:
    """The words of a run without absolute paths; a worker's options without the folder of its model."""
    target = variant.target
    if target.settings:
        options = msgspec.json.encode(target.settings).decode()
        return (*portable_command(target.command[:-1]), options)
    return tuple(portable_command(target.command))


def shown_variables(variant: Variant) -> dict[str, str]:
    """The variables of a run without absolute paths."""
    return _portable_values(variant.variables)


def inherited_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """What both sides get from the caller and llama.cpp or its thread pool reads, sorted, without absolute paths."""
    names = sorted(name for name in environment if name.startswith(READ_BY_LLAMA))
    return _portable_values({name: environment[name] for name in names})


def library_hashes(folder: Path) -> dict[str, str]:
    """Base name -> SHA-256 of the shared libraries in a folder; links are followed and named by what they lead to.

    Raises:
        ConfigError: no such folder, or there is no libllama in it.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder; name the one that holds libllama")
    paths = {path.resolve() for path in folder.iterdir() if path.is_file() and ".so" in path.suffixes}
    found = {path.name: file_sha256(path) for path in sorted(paths)}
    if not any(name.startswith("libllama.") for name in found):
        raise ConfigError(f"{folder}: no libllama.so in it; name the folder of a build of llama.cpp")
    return found


def check_library(loaded: Mapping[str, str], promised: Mapping[str, str]) -> None:
    """Refuse a run that loaded other libraries than its variant names.

    Args:
        loaded: as the run says; empty where it does not.
        promised: of the folder that was named.

    Raises:
        DataError: names them.
    """
    strange = sorted(name for name, sha256 in loaded.items() if sha256 not in promised.values())
    if strange:
        raise DataError(
            f"the run loaded {', '.join(strange)} from elsewhere, not from the folder of its variant; "
            "does that build have all of llama.cpp's libraries?"
        )


def file_sha256(path: Path) -> str:
    """The hash of a file's content; once for each state of it.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        state = path.stat()
        return _hash(path, state.st_mtime_ns, state.st_size)
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise ConfigError(f"{path}: {reason}; name a file that can be read") from None


@lru_cache(maxsize=256)
def _hash(path: Path, _mtime_ns: int, _size: int) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _program(word: str) -> Path:
    found = shutil.which(word)
    if found is None:
        raise ConfigError(f"{word}: no such program; name one that can be started")
    return Path(found)


def _named_files(words: Iterable[str]) -> Iterator[Path]:
    """Every word that is a file, also behind `--flag=`; what is written to is left out."""
    before = ""
    for word in words:
        flag, equals, value = word.partition("=") if word.startswith("--") else (before, "", word)
        path = Path(value if equals or not word.startswith("--") else word)
        if flag not in OUTPUT_FLAGS and _is_file(path):
            yield path
        before = word


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a word that is far too long for a name
        return False


def _portable_values(variables: Mapping[str, str]) -> dict[str, str]:
    return dict(zip(variables, portable_command(list(variables.values())), strict=True))
