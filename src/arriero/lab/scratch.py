"""Scratch: files and folders that are gone when a measurement is over; one line where there is no place for them."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from arriero.core.errors import ConfigError


def scratch_file() -> IO[bytes]:
    """A file without a name, to be used as a context.

    Raises:
        ConfigError: the folder for such files is full, or cannot be written.
    """
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        raise _no_place(error) from None


@contextmanager
def scratch_folder(what: str) -> Generator[Path]:
    """A folder whose name says what it is for.

    Raises:
        ConfigError: see `scratch_file`.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix=f"arriero-{what}-")
    except OSError as error:
        raise _no_place(error) from None
    with folder as name:
        yield Path(name)


def _no_place(error: OSError) -> ConfigError:
    reason = (error.strerror or "an error of the system").lower()
    return ConfigError(f"no temporary file can be made ({reason}); make room, or name a folder with TMPDIR")
