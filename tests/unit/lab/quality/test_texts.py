"""The text and the prompts that come with arriero, letter by letter; and texts of users."""

import hashlib
import re
from pathlib import Path

import pytest

from arriero.core.errors import DataError
from arriero.lab.quality.texts import SHIPPED_PROMPTS, SHIPPED_TEXT, read_prompts, read_text, shipped

TEXT_SHA256 = "1518b073a3f49b9c46848e68547c990d5836025dc55355409eab02bcf8f22528"
PROMPTS_SHA256 = "83e06c4e65d6112febaba35eea91bdeb481900fdf6d284630baba17329a78dd2"


def test_the_shipped_text_is_the_one_that_figures_rest_on() -> None:
    """Another letter makes other figures, which must not be compared with earlier ones: say so in the change log."""
    assert hashlib.sha256(shipped(SHIPPED_TEXT)).hexdigest() == TEXT_SHA256
    assert hashlib.sha256(shipped(SHIPPED_PROMPTS)).hexdigest() == PROMPTS_SHA256
    assert read_text().sha256 == TEXT_SHA256
    assert read_prompts().sha256 == PROMPTS_SHA256


def test_the_shipped_text_has_pieces_of_several_kinds() -> None:
    text = read_text().text
    assert 3_000 <= len(text.split()) <= 4_500
    assert len(text.split("\n\n* * *\n\n")) == 10
    assert re.search(r"^\d+\. ", text, re.MULTILINE)
    assert re.search(r"^    return ", text, re.MULTILINE)
    assert "Dear " in text


def test_the_shipped_prompts_are_six_with_names_of_their_own() -> None:
    prompts = read_prompts().prompts
    assert len({prompt.name for prompt in prompts}) == len(prompts) == 6


def test_a_text_of_the_users(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("Où sont les mules ?", encoding="utf-8")
    found = read_text(path)
    assert (found.file, found.text, found.num_bytes) == ("mine.txt", "Où sont les mules ?", 20)
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("data", "words"),
    [(None, "no such file"), (b"a\xffb", "not UTF-8 at byte 1"), (b" \n", "holds no text")],
)
def test_a_text_that_cannot_be_used_is_one_line(tmp_path: Path, data: bytes | None, words: str) -> None:
    path = tmp_path / "bad.txt"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(DataError, match=words) as caught:
        read_text(path)
    assert caught.value.file == str(path)
    assert "\n" not in str(caught.value)
