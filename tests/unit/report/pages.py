"""What every page must keep."""

import re
from html.parser import HTMLParser

VOID = {"wbr", "meta", "link", "br", "hr", "img", "input"}


class Outline(HTMLParser):
    """Checks that elements nest, and collects what is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.values: list[str] = []
        self.headings: list[str] = []
        self.tags: set[str] = set()
        self._in_heading = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.values.extend(str(value) for _, value in attrs)
        for name, value in attrs:
            if name == "id":
                self.ids.append(str(value))
            if name in {"href", "src", "xlink:href"}:
                self.links.append(str(value))
        if tag not in VOID:
            self.open.append(tag)
        self._in_heading = tag == "h2"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> closes {self.open[-1]}"
        self.open.pop()
        self._in_heading = False

    def handle_data(self, data: str) -> None:
        if self._in_heading:
            self.headings.append(data)


def outline(page: str) -> Outline:
    """Parse a page and check what holds of all."""
    found = Outline()
    found.feed(page)
    found.close()
    assert not found.open
    assert not [value for value in found.values if "//" in value], "an attribute holds an address"
    for style in re.findall(r"<style>(.*?)</style>", page, re.DOTALL):
        assert "url(" not in style
        assert "@import" not in style
    assert not found.tags & {"script", "link", "img", "iframe", "object"}
    assert len(found.ids) == len(set(found.ids)), "two elements have one id"
    targets = {link.removeprefix("#") for link in found.links}
    assert all(link.startswith("#") for link in found.links)
    assert targets <= set(found.ids), "a link leads nowhere"
    assert len(page) < 3_000_000
    return found
