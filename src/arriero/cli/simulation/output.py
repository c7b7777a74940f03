"""Where results are written: below an ignored folder, whole or not at all, and never through a link."""

from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from arriero.cli.sources import LineParser
from arriero.core.errors import ConfigError
from arriero.workload.staging import staged

ROOT: Final = ".artifacts"


def add_force(parser: LineParser) -> None:
    """Give the parser `--force`."""
    parser.add_argument("--force", action="store_true", help="replace results that exist")


@contextmanager
def new_file(path: Path, *, force: bool) -> Generator[BinaryIO]:
    """A file to write to; it takes its name when the block ends well.

    Raises:
        ConfigError: it exists and `force` is False, a link is on the way, or its folder cannot be made or written.
    """
    refuse_links(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or "an error of the system").lower()
        raise ConfigError(f"{path.parent}: no folder can be made there ({reason}); name another with --out") from None
    with staged(path, replace=force) as file:
        yield file


def write_text(path: Path, text: str, *, force: bool) -> None:
    """Write a whole file.

    Raises:
        ConfigError: see `new_file`.
    """
    write_texts({path: text}, force=force)


def write_texts(texts: Mapping[Path, str], *, force: bool) -> None:
    """Write whole files, which appear once all of them are written.

    Raises:
        ConfigError: see `new_file`.
    """
    with ExitStack() as stack:
        for path, text in texts.items():
            file = stack.enter_context(new_file(path, force=force))
            file.write(text.encode())
            file.flush()


def refuse_links(path: Path) -> None:
    """Refuse an output that is a link, or lies in a linked folder below the working folder.

    Raises:
        ConfigError: names the link.
    """
    here = Path.cwd()
    for each in (path, *path.parents):
        is_below = not each.is_absolute() or each.is_relative_to(here)
        if each.is_symlink() and (is_below or each in {path, path.parent}):
            raise ConfigError(f"{each}: is a symbolic link; name an output folder that is none")


def require_absent(paths: list[Path], *, force: bool) -> None:
    """Refuse before anything is run what would be refused at its end.

    Raises:
        ConfigError: a result exists already, or a link is on the way.
    """
    for path in paths:
        refuse_links(path)
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path}: is no regular file; name one")
        if path.exists() and not force:
            raise ConfigError(f"{path}: exists already; name another file, or replace it with --force")
