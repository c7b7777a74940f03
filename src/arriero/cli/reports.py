"""What `sim report` and `bench report` share: the form of the output, and the files that it is written to."""

from argparse import Namespace
from collections.abc import Iterable, Mapping
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from arriero.cli.simulation.output import ROOT, add_force, new_file, require_absent, write_text
from arriero.cli.sources import LineParser
from arriero.core.errors import ConfigError

if TYPE_CHECKING:
    from arriero.report.document import Document, Picture
    from arriero.report.drawing import Drawn

DEFAULT_OUT: Final = f"{ROOT}/report.html"


class Form(StrEnum):
    """How a report is written."""

    HTML = "html"
    MARKDOWN = "markdown"
    CSV = "csv"


_FORMS: Final[Mapping[str, Form]] = MappingProxyType({
    ".html": Form.HTML, ".htm": Form.HTML, ".md": Form.MARKDOWN, ".markdown": Form.MARKDOWN, ".csv": Form.CSV,
})  # fmt: skip


def add_report_flags(parser: LineParser) -> None:
    """Give the parser the flags of a report."""
    says = f"an .html page, .md or .csv (default: {DEFAULT_OUT})"
    parser.add_argument("--out", metavar="FILE", default=DEFAULT_OUT, help=says)
    parser.add_argument("--plots", metavar="DIR", help="write every figure there as well, as SVG and PNG")
    add_force(parser)


def form_of(flags: Namespace) -> Form:
    """The form that the ending of `--out` asks for; looked at before anything is read.

    Raises:
        ConfigError: no such form, the file exists, or figures are asked for and cannot be drawn.
    """
    out = Path(flags.out)
    form = _FORMS.get(out.suffix.lower())
    if form is None:
        raise ConfigError(f"--out {out}: its ending is no form of a report; use {', '.join(_FORMS)}")
    require_absent([out], force=flags.force)
    if draws(form, flags):
        _require_matplotlib()
    return form


def draws(form: Form, flags: Namespace) -> bool:
    """Whether any figure is needed."""
    return form is Form.HTML or flags.plots is not None


def _require_matplotlib() -> None:
    try:
        import_module("matplotlib")
    except ImportError:
        message = (
            "figures need matplotlib, which is not here; pip install 'arriero[report]', or name a .md or .csv file"
        )
        raise ConfigError(f"{message} with --out") from None


def pictures_of(drawn: Iterable["Drawn"], flags: Namespace) -> "dict[str, Picture]":
    """Figures as parts of a page; their own files are written on the way, if a folder is named.

    Raises:
        ConfigError: a file exists or cannot be written.
    """
    from arriero.report.drawing import as_picture, as_png, as_svg

    found: dict[str, Picture] = {}
    for each in drawn:
        found[each.key] = as_picture(each)
        if flags.plots is not None:
            path = Path(flags.plots) / each.key
            write_text(path.with_suffix(".svg"), as_svg(each.figure), force=flags.force)
            with new_file(path.with_suffix(".png"), force=flags.force) as file:
                file.write(as_png(each.figure))
    return found


def write_document(document: "Document", form: Form, flags: Namespace) -> None:
    """Write a page or Markdown, and say where.

    Raises:
        ConfigError: the file cannot be written.
    """
    if form is Form.HTML:
        from arriero.report.page import as_html

        text = as_html(document)
    else:
        from arriero.report.markdown import as_markdown

        text = as_markdown(document)
    write_text(Path(flags.out), text, force=flags.force)
