"""A report as a folder."""

from pathlib import Path

import pytest

from arriero.core.errors import ConfigError
from arriero.report.cpu_lab.curves import Curve, CurvePanel, Mark, curve_figure
from arriero.report.cpu_lab.folder import folder_markdown, pictures_by_key, write_report
from arriero.report.document import Document, Part, Picture, Section, Text, present
from arriero.report.drawing import Drawn
from tests.unit.report.pages import outline


def drawn(key: str = "speed") -> Drawn:
    panel = CurvePanel("prefill", "threads", "tokens/s", [Curve("q4_0", [Mark(1, 10.0, 1.0), Mark(2, 18.0, 1.0)])])
    return Drawn(key, "Speed", "How to read it.", curve_figure([panel]))


def document(*parts: Part | None) -> Document:
    section = Section(key="one", heading="One", parts=(Text("Words."), *present(parts)))
    return Document(title="A report", badges=(), lead=(Text("First."),), sections=(section,), made_by="Made by a test.")


def test_a_folder_holds_text_page_and_figures(tmp_path: Path) -> None:
    figures = [drawn()]
    made = document(pictures_by_key(figures)["speed"])
    paths = write_report(made, figures, tmp_path / "report")
    assert [path.name for path in paths] == ["README.md", "index.html", "speed.svg"]
    text, page, figure = (path.read_text() for path in paths)
    assert "![Speed](speed.svg)\n\n*Speed.* How to read it." in text
    assert text.endswith("Made by a test.\n")
    assert "<svg" in page
    assert outline(page).headings == ["One"]
    assert figure.startswith("<?xml")
    assert "tokens/s" in figure


def test_the_same_report_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        figures = [drawn()]
        write_report(document(pictures_by_key(figures)["speed"]), figures, tmp_path / name)
    for name in ("README.md", "index.html", "speed.svg"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_report_that_exists_is_replaced_by_force_alone(tmp_path: Path) -> None:
    write_report(document(), (), tmp_path)
    with pytest.raises(ConfigError, match="exists already"):
        write_report(document(), (), tmp_path)
    write_report(document(), (), tmp_path, force=True)


def test_a_figure_that_was_drawn_by_other_means_is_written_as_it_is(tmp_path: Path) -> None:
    made = document(Picture("flames", "Flames", "Wider is longer.", "<svg></svg>"))
    write_report(made, (), tmp_path, svgs={"flames": "<svg>whole</svg>"})
    assert (tmp_path / "flames.svg").read_text() == "<svg>whole</svg>"
    assert "![Flames](flames.svg)" in folder_markdown(made)


def test_pictures_without_a_file_and_files_of_one_name_are_our_mistakes(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no figure is given for flames"):
        write_report(document(Picture("flames", "Flames", "", "<svg/>")), (), tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="same key"):
        pictures_by_key([drawn(), drawn()])


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="no folder can be made there"):
        write_report(document(), (), tmp_path / "file" / "report")
