import re

import numpy as np
import pytest
from matplotlib import rc_context

from arriero.report.drawing import _short_path, as_fragment, as_png, as_svg, new_figure, styled
from arriero.report.house_style import BLUE, INK, ON_DARK, variable


def figure(title: str = "a & b"):  # type: ignore[no-untyped-def]  # noqa: ANN201 - matplotlib's
    with styled():
        made = new_figure(1.5)
        axes = made.subplots()
        axes.set_title(title)
        axes.plot(np.arange(5), np.arange(5) ** 2, color=BLUE, marker="o")
        axes.stairs([1, 3, 2], [0, 1, 2, 3], fill=True, color=INK)
    return made


def test_the_same_figure_gives_the_same_bytes() -> None:
    assert as_svg(figure()) == as_svg(figure())
    assert as_png(figure()) == as_png(figure())
    assert as_fragment(figure(), "one", "x") == as_fragment(figure(), "one", "x")


def test_settings_of_a_user_change_nothing() -> None:
    plain = as_svg(figure())
    with rc_context({"axes.facecolor": "red", "lines.linewidth": 9.0, "font.size": 30.0}):
        assert as_svg(figure()) == plain


def test_no_time_and_no_program_stand_in_a_file() -> None:
    text = as_svg(figure())
    assert "Matplotlib" not in text.split("<svg", 1)[1]
    assert "dc:date" not in text
    assert b"Software" not in as_png(figure())


def test_a_fragment_needs_no_network_and_takes_its_colours_from_the_page() -> None:
    text = as_fragment(figure(), "one", 'what "it" shows')
    assert "http" not in text
    assert text.startswith('<svg viewBox="')
    assert 'aria-label="what &quot;it&quot; shows"' in text
    assert f"var({variable(BLUE)})" in text
    assert not re.search("|".join(ON_DARK), text)
    assert "a &amp; b" in text


def test_what_is_read_keeps_its_digits_and_what_is_drawn_does_not() -> None:
    text = as_fragment(figure("0.001234 s"), "one", "x")
    assert ">0.001234 s<" in text
    assert not re.search(r'="[^"]*\d\.\d{4}[^"]*"', text)


def test_names_in_two_fragments_are_never_the_same_and_never_dangle() -> None:
    texts = [as_fragment(figure(), key, "x") for key in ("one", "two")]
    names = [set(re.findall(r' id="([^"]*)"', text)) for text in texts]
    assert names[0]
    assert not names[0] & names[1]
    for text, own in zip(texts, names, strict=True):
        assert set(re.findall(r'(?:url\(#|href="#)([^)"]*)', text)) == own


@pytest.mark.parametrize(
    ("path", "short"),
    [
        ("M 1.04 2 L 3.06 2 L 3.06 5.55 z ", "M1 2H3.1V5.5z"),
        ("M 0 0 L 1 2 L 1.01 2.01 L 3 4 ", "M0 0L1 2L3 4"),
        ("M 0 0 C 1 2 3 4 5 6 Q 1 2 3 4 Z ", "M0 0C1 2 3 4 5 6Q1 2 3 4Z"),
    ],
)
def test_paths_are_written_to_a_tenth_of_a_point(path: str, short: str) -> None:
    assert _short_path(path) == short
