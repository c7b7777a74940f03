"""A report as a folder, which reads well on a file host, in a browser and in an editor.

README.md     the text and the tables, with links to the figures beside it
KEY.svg       one file a figure
index.html    the same in one page that needs nothing but itself
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from arriero.core.errors import ConfigError
from arriero.report.document import Document, Part, Picture, Text
from arriero.report.drawing import Drawn, as_picture, as_svg
from arriero.report.markdown import as_markdown
from arriero.report.page import as_html
from arriero.workload.staging import staged

TEXT: Final = "README.md"
PAGE: Final = "index.html"


def pictures_by_key(drawn: Sequence[Drawn]) -> Mapping[str, Picture]:
    """Figures as parts that a document builder takes.

    Raises:
        ValueError: two of them have one key.
    """
    found = {each.key: as_picture(each) for each in drawn}
    if len(found) != len(drawn):
        raise ValueError("two figures of a report have the same key")
    return found


def write_report(
    document: Document,
    drawn: Sequence[Drawn],
    folder: Path,
    *,
    force: bool = False,
    svgs: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Path, ...]:
    """Write the folder; all files appear once all of them are written.

    Args:
        document: with the pictures of `pictures_by_key(drawn)` in it, and those of `svgs`.
        drawn: its figures; none for a report without any.
        folder: made if it is missing; other files in it are left alone.
        force: replace files of these names.
        svgs: key -> the whole text of a figure that was drawn by other means.

    Returns:
        What was written, the text first.

    Raises:
        ConfigError: a file exists already, or the folder cannot be made or written.
        ValueError: the document shows a picture that is not among the figures.
    """
    texts = {TEXT: folder_markdown(document), PAGE: as_html(document)}
    texts |= {file_of(each.key): as_svg(each.figure, each.key) for each in drawn}
    texts |= {file_of(key): text for key, text in svgs.items()}
    missing = [key for key in _shown(document) if file_of(key) not in texts]
    if missing:
        raise ValueError(f"no figure is given for {', '.join(missing)}")
    _make(folder)
    with ExitStack() as stack:
        for name, text in texts.items():
            file = stack.enter_context(staged(folder / name, replace=force))
            file.write(text.encode())
            file.flush()
    return tuple(folder / name for name in texts)


def folder_markdown(document: Document) -> str:
    """Markdown in which every picture is a link to its file."""
    linked = replace(
        document,
        lead=tuple(map(_linked, document.lead)),
        sections=tuple(replace(each, parts=tuple(map(_linked, each.parts))) for each in document.sections),
    )
    return as_markdown(linked)


def file_of(key: str) -> str:
    """The name of a figure's file."""
    return f"{key}.svg"


def _linked(part: Part) -> Part:
    if not isinstance(part, Picture):
        return part
    return Text(f"![{part.title}]({file_of(part.key)})\n\n*{part.title}.* {part.caption}")


def _shown(document: Document) -> list[str]:
    parts = [*document.lead, *(part for section in document.sections for part in section.parts)]
    return [part.key for part in parts if isinstance(part, Picture)]


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or "an error of the system").lower()
        raise ConfigError(f"{folder}: no folder can be made there ({reason}); name another with --out") from None
