"""The table in docs/configuration.md is what the code says; `make bless` writes it anew."""

from collections.abc import Iterator
from pathlib import Path

from arriero.core.config import OPTIONS

BEGIN = "<!-- settings: written by `make bless` from the table in arriero/core/config.py -->\n"
END = "<!-- end of settings -->\n"


def table() -> Iterator[str]:
    for section in dict.fromkeys(option.spec.section for option in OPTIONS):
        yield f"\n### {section}\n\n| flag | default | values | unit | meaning |\n| --- | --- | --- | --- | --- |\n"
        for option in OPTIONS:
            if option.spec.section == section:
                cells = (
                    f"`{option.flag}`",
                    f"{option.shown_default}",
                    option.spec.kind.range,
                    option.spec.unit,
                    option.spec.says,
                )
                yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"
    yield "\n"


def test_the_page_holds_every_setting(root: Path, blessing: bool) -> None:  # noqa: FBT001 - a fixture
    page = root / "docs" / "configuration.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    expected = f"{before}{BEGIN}{''.join(table())}{END}{after}"
    if blessing:
        page.write_text(expected, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == expected, "run `make bless` and look at the difference"
