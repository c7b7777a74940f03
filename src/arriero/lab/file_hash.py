"""The hash by which a file of a measurement is known, wherever it lies."""

import hashlib
from pathlib import Path

from arriero.core.errors import ConfigError


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal; read piece by piece, so that a model costs no memory.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise ConfigError(f"{path}: {reason}; name a file that can be read") from None
