"""library_facts: the llama.cpp that this process has loaded, by version, features and hashes."""

import hashlib
from functools import lru_cache
from pathlib import Path

from arriero.backend.cpu_features import features_of_build
from arriero.backend.library import BINDING_VERSION, load_library
from arriero.backend.loaded_files import compilers_of, loaded_files, source_version
from arriero.record.cpu_lab.environment import LibraryFacts, LibraryFile


def library_facts() -> LibraryFacts:
    """Load the binding if that was not done yet, and describe what it has loaded.

    Hashing 6 MB takes a few milliseconds and is done once for each state of a file.

    Raises:
        BindingMismatch: the binding is missing or of another version, see `arriero.backend.library`.
    """
    library = load_library()
    files = loaded_files()
    version = source_version(library)
    home = Path(library.path).resolve().parent
    read = [_read(path, path.stat().st_mtime_ns) for path in files]
    return LibraryFacts(
        binding=BINDING_VERSION,
        ggml=version.ggml,
        commit=version.commit,
        features=tuple(sorted(features_of_build(library.system_info()))),
        compilers=tuple(sorted({name for _, names in read for name in names})),
        files=tuple(file for file, _ in read),
        strays=tuple(path.name for path in files if path.resolve().parent != home),
    )


@lru_cache(maxsize=64)
def _read(path: Path, _mtime_ns: int) -> tuple[LibraryFile, frozenset[str]]:
    """A file's size and hash, and the compilers that it names; the time of its last change only keys the cache."""
    data = path.read_bytes()
    return (
        LibraryFile(name=path.name, bytes=len(data), sha256=hashlib.sha256(data).hexdigest()),
        compilers_of(data),
    )
