"""The text that is predicted and the prompts that are answered: those that come with arriero, or a file of the user's.

Both were written for arriero; `text/ORIGIN.md` says how. Their hashes stand in every result, since figures on another
text are other figures.
"""

import hashlib
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from arriero.core.errors import DataError
from arriero.record.strict import Name, convert, parse_object

SHIPPED_TEXT: Final = "passages.txt"
SHIPPED_PROMPTS: Final = "prompts.json"
_FOLDER: Final = "text"


class Passage(NamedTuple):
    """A text with its hash."""

    file: str  # base name
    text: str
    num_bytes: int
    sha256: str


class Prompt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One question; a chat template is put around it."""

    name: Name
    text: Name


class _PromptFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    schema_version: Name
    prompts: tuple[Prompt, ...]


class Prompts(NamedTuple):
    """The prompts of a file, with its hash."""

    sha256: str
    prompts: tuple[Prompt, ...]


def read_text(path: Path | None = None) -> Passage:
    """A text of UTF-8; without a path the one that comes with arriero.

    Raises:
        DataError: it cannot be read, is no UTF-8, or is empty.
    """
    if path is None:
        return _passage(SHIPPED_TEXT, shipped(SHIPPED_TEXT), SHIPPED_TEXT)
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise DataError(f"--text: {reason}; name a text file that can be read", file=str(path)) from None
    return _passage(path.name, data, str(path))


def read_prompts() -> Prompts:
    """The prompts that come with arriero."""
    data = shipped(SHIPPED_PROMPTS)
    table = convert(parse_object(data, file=SHIPPED_PROMPTS), _PromptFile, file=SHIPPED_PROMPTS)
    return Prompts(hashlib.sha256(data).hexdigest(), table.prompts)


def shipped(name: str) -> bytes:
    """The bytes of a file that comes with arriero."""
    return (files("arriero.lab.quality") / _FOLDER / name).read_bytes()


def _passage(name: str, data: bytes, shown: str) -> Passage:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"--text: not UTF-8 at byte {error.start}; save the file as UTF-8", file=shown) from None
    if not text.strip():
        raise DataError("--text: the file holds no text; name one that does", file=shown)
    return Passage(name, text, len(data), hashlib.sha256(data).hexdigest())
