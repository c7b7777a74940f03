"""One HTML page that needs nothing but itself: styles and figures are inside, and there are no scripts."""

# jinja2 leaves the type of its table of filters open.
# pyright: reportUnknownMemberType=false

import re
from html import escape
from types import MappingProxyType
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from arriero.report.document import Alert, Document, Facts, Fold, Part, Picture, Table, Text
from arriero.report.house_style import ON_DARK, variable

_CODE: Final = re.compile(r"`([^`]*)`")
_KINDS: Final = MappingProxyType({
    Text: "text", Alert: "alert", Facts: "facts", Table: "table", Picture: "picture", Fold: "fold",
})  # fmt: skip


def as_html(document: Document) -> str:
    """The whole page; the same document gives the same bytes."""
    environment = Environment(
        loader=PackageLoader("arriero.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["prose"] = _prose
    environment.filters["kind"] = _kind
    environment.filters["name"] = _name
    return environment.get_template("page.html").render(
        document=document,
        light={variable(colour): colour for colour in ON_DARK},
        dark={variable(light): colour for light, colour in ON_DARK.items()},
    )


def _prose(text: str) -> str:
    """Text as HTML, with code between backquotes; the templates take it as it is."""
    return _CODE.sub(r"<code>\1</code>", escape(str(text)))


def _name(text: str) -> str:
    """A name as HTML, which may be broken after each of its parts."""
    broken = escape(str(text)).replace("_", "_<wbr>").replace("-", "-<wbr>")
    return _CODE.sub(r"<code>\1</code>", broken)


def _kind(part: Part) -> str:
    return _KINDS[type(part)]
