"""Every link between documents leads somewhere, and the index knows every page."""

import re
from collections.abc import Iterator
from pathlib import Path

FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> Iterator[str]:
    for target in LINK.findall(CODE.sub("code", prose(page))):
        if not re.match(r"[a-z]+:", target):
            yield target


def anchors(page: Path) -> set[str]:
    """As they are made from headings where pages are shown: lower case, words joined by hyphens."""
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(prose(page)))
    return {words.strip().replace(" ", "-") for words in kept}


def pages(root: Path) -> list[Path]:
    return [*root.glob("*.md"), *sorted((root / "docs").rglob("*.md")), *sorted((root / "evidence").rglob("*.md"))]


def test_every_link_leads_to_a_file_and_a_heading(root: Path) -> None:
    lost = []
    for page in pages(root):
        for target in links(page):
            name, _, anchor = target.partition("#")
            file = (page.parent / name) if name else page
            if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
                lost.append(f"{page.relative_to(root)}: {target}")
    assert lost == []


def test_the_index_knows_every_page(root: Path) -> None:
    docs = root / "docs"
    indexes = [docs / "README.md", *sorted(docs.glob("*/README.md"))]
    known = {(index.parent / link.partition("#")[0]).resolve() for index in indexes for link in links(index)}
    reports = {page.parent for page in docs.glob("*/*/README.md")}
    unknown = [
        str(page.relative_to(root))
        for page in sorted(docs.rglob("*.md"))
        if page.resolve() not in known and page not in indexes and page.parent not in reports
    ]
    assert unknown == []
