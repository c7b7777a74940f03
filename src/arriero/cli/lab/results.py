"""Where a verb of the lab puts its result: room for it, the report, and what is printed."""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from arriero.cli.simulation.output import require_absent, write_text
from arriero.core.errors import ConfigError

if TYPE_CHECKING:
    from msgspec import Struct

    from arriero.report.document import Document
    from arriero.report.drawing import Drawn

TEXT: Final = "README.md"
PAGE: Final = "index.html"


def tell(line: str) -> None:
    """Progress: a line on standard error, at once."""
    print(line, file=sys.stderr, flush=True)


def require_room(flags: Namespace, file: str) -> Path:
    """The folder of the results; refused before anything is measured.

    Raises:
        ConfigError: a result exists already, or no folder can be made there.
    """
    folder = Path(flags.out)
    names = [TEXT] if flags.source is not None else [TEXT, file]
    require_absent([folder / name for name in names], force=flags.force)
    make_folder(folder)
    return folder


def require_no_report(folder: Path, *, force: bool) -> None:
    """Refuse before anything is measured what would be refused when its report is written.

    Raises:
        ConfigError: a report exists already.
    """
    require_absent([folder / TEXT, folder / PAGE], force=force)


def make_folder(folder: Path) -> None:
    """Make a folder for what `--out` names, unless it is there.

    Raises:
        ConfigError: none can be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or "an error of the system").lower()
        raise ConfigError(f"--out {folder}: no folder can be made there ({reason}); name another") from None


def write_folder(
    folder: Path,
    plain: Callable[[], "Document"],
    drawn: Callable[[], "tuple[Document, tuple[Drawn, ...]]"],
    *,
    force: bool,
) -> None:
    """The report: with figures where matplotlib is installed, else as text."""
    if find_spec("matplotlib") is None:
        from arriero.report.markdown import as_markdown

        write_text(folder / TEXT, as_markdown(plain()), force=force)
        return
    from arriero.report.cpu_lab.folder import write_report

    document, figures = drawn()
    write_report(document, figures, folder, force=force)


def tell_result(result: "Struct", lines: Iterable[str], folder: Path, *, file: str, as_json: bool) -> None:
    """Print a result: as the JSON of its file, or as a summary with the place of the report."""
    if as_json:
        from arriero.record.bench_result_text import encode

        sys.stdout.write(encode(result, file=file).decode())
        return
    for line in lines:
        print(line)
    print(f"report: {folder}/{TEXT}")
