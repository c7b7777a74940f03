"""Files that appear whole or not at all."""

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from arriero.core.errors import ConfigError


@contextmanager
def staged(path: Path, *, replace: bool = False) -> Generator[BinaryIO]:
    """A file to write to; it takes its name when the block ends well, and is removed when it does not.

    It is written under a name of its own in the same folder, so that nobody ever sees half of it.

    Args:
        path: where it will be.
        replace: whether a file of that name may be there already; it stays as it is until the end.

    Raises:
        ConfigError: the path is taken, no regular file, or its folder cannot be written.
    """
    _check_place(path, replace=replace)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        file = draft.open("xb")
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        with file:
            yield file
        _publish(draft, path, replace=replace)
    except FileExistsError:
        draft.unlink()
        raise _taken(path) from None
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise _unwritable(path, error) from None
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _check_place(path: Path, *, replace: bool) -> None:
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path}: is no regular file; name one")
    if not replace and os.path.lexists(path):
        raise _taken(path)


def _publish(draft: Path, path: Path, *, replace: bool) -> None:
    if not replace:
        try:
            os.link(draft, path)  # unlike a rename, this fails if somebody was quicker
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            _check_place(path, replace=False)
        else:
            draft.unlink()
            return
    draft.replace(path)


def _taken(path: Path) -> ConfigError:
    return ConfigError(f"{path}: exists already; name another file, or replace it with --force")


def _unwritable(path: Path, error: OSError) -> ConfigError:
    reason = (error.strerror or "an error of the system").lower()
    return ConfigError(f"{path}: cannot be written ({reason}); name a file in a folder that exists and has room")
