"""What the page of any document keeps: wide tables in boxes of their own, and words that can be read."""

from html.parser import HTMLParser

from arriero.report.document import Column, Document, Facts, Fold, Section, Table, Text
from arriero.report.page import as_html
from tests.unit.report.pages import outline

COLUMNS = (Column("`prompt_tokens` of a-name", is_number=False), Column("mean (tokens/s)"))
WIDE = Table((*COLUMNS, *(Column(f"figure {number}") for number in range(20))), (("one", *["1,234.5"] * 21),), "Wide")
NUMBERED = Table((Column("size"), Column("word", is_number=False)), (("1", "a"),))


def page() -> str:
    parts = (WIDE, NUMBERED, Fold("More", (Text("Words."), WIDE)), Facts("Run", (("name", "value"),)))
    section = Section(key="one", heading="One", parts=parts)
    return as_html(Document(title="A page", badges=(), lead=(), sections=(section,), made_by="Made by a test."))


class Tables(HTMLParser):
    """The element around each table, and the classes of cells."""

    def __init__(self) -> None:
        super().__init__()
        self.around: list[tuple[str, str | None]] = []
        self.cells: list[tuple[str, str | None]] = []
        self._open: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note where a table stands."""
        found = (tag, dict(attrs).get("class"))
        if tag == "table":
            self.around.append(self._open[-1])
        if tag in {"td", "th"}:
            self.cells.append(found)
        if tag not in {"meta", "wbr"}:
            self._open.append(found)

    def handle_endtag(self, tag: str) -> None:
        """Leave an element."""
        assert self._open.pop()[0] == tag


def test_every_table_stands_in_a_box_that_scrolls() -> None:
    found = Tables()
    found.feed(page())
    assert found.around == [("div", "table")] * 4
    style = page().partition("<style>")[2].partition("</style>")[0]
    box = style.partition(".table {")[2].partition("}")[0]
    assert "overflow-x: auto" in box
    assert "main { grid-area: main; min-width: 0; }" in style


def test_numbers_are_set_to_the_right_and_never_broken() -> None:
    found = Tables()
    found.feed(page())
    assert found.cells.count(("td", "number")) == 21 + 1 + 21
    assert found.cells.count(("th", "number")) == 21 + 1 + 21
    assert ".number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }" in page()


def test_the_first_column_of_words_keeps_its_width() -> None:
    assert '<th scope="row"><span class="head">one</span></th>' in page()


def test_headings_show_code_as_code_and_may_break() -> None:
    assert "<code>prompt_<wbr>tokens</code> of a-<wbr>name" in page()
    assert "`" not in page().partition("</style>")[2]
    assert outline(page()).headings == ["One"]
