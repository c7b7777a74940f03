"""`arriero lab variant` on a tiny project."""

from pathlib import Path

import pytest

from arriero.cli.lab.variant import main
from arriero.core.errors import ConfigError, DataError
from arriero.record.cpu_lab.variant import read_variant
from tests.unit.lab.variant.test_builder import needs_cmake
from tests.unit.lab.variant.tiny_project import EDIT, write_edit, write_project


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    edit = write_edit(tmp_path / "edit.toml")
    source = write_project(tmp_path / "source")
    return ["--edit", str(edit), "--source", str(source), "--out", str(tmp_path / "out"), "--target", "tiny"]


@needs_cmake
def test_it_builds_both_and_writes_what_differs(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build", *words]) == 0
    said = capsys.readouterr().out
    assert "3 objects, 1 compiled again, 1 differ" in said
    assert f"arriero lab ab --a-library {tmp_path}/out/baseline --b-library {tmp_path}/out/variant" in said
    result = read_variant(tmp_path / "out" / "variant.json")
    assert result.edit.name == "four-times"
    assert str(tmp_path) not in "".join(result.run.command)
    assert (tmp_path / "out" / "README.md").read_text().startswith("# Variant: four-times")
    with pytest.raises(ConfigError, match="exists already"):
        main(["build", *words])
    # another edit, in the same folder, that reaches no code: status 1
    write_edit(tmp_path / "edit.toml", EDIT.replace("sum *= 2;", "/* a remark */"))
    assert main(["build", *words, "--force"]) == 1
    assert "the edit reaches no machine code" in capsys.readouterr().out


def test_an_edit_can_be_checked_without_building(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *words]) == 0
    assert capsys.readouterr().out == "four-times: tiny.c: 1 places, +1 -0 lines\nfour-times fits source\n"
    assert not (tmp_path / "out").exists()
    write_edit(tmp_path / "edit.toml", EDIT.replace("^sum", "^nothing"))
    with pytest.raises(DataError, match=r"0 places in tiny\.c"):
        main(["check", *words])


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["build"], "--edit: missing"),
        (["bild"], "invalid choice"),
        (["build", "--isa", "sse"], "invalid choice"),
    ],
)
def test_flags_that_cannot_work_are_one_line(words: list[str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        main(words)


def test_a_wrong_number_of_jobs_is_one_line(words: list[str]) -> None:
    with pytest.raises(ConfigError, match="--jobs 0: too low"):
        main(["build", *words, "--jobs", "0"])
