"""`arriero lab kernels`, quick."""

import json
from pathlib import Path

import pytest

from arriero.cli.lab.kernels import main
from arriero.core.errors import ConfigError, DataError
from arriero.lab.compile import find_compilers
from arriero.record.cpu_lab.kernels_file import read_kernels
from tests.unit.lab.kernels.built_kernels import needs_kernels

COMPILER = next(iter(find_compilers()), "gcc")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("kernels") / "out"
    assert main(["--quick", "--busy-ok", "--compiler", COMPILER, "--out", str(out)]) == 0
    return out


@needs_kernels
def test_it_writes_a_file_and_a_report(folder: Path) -> None:
    result = read_kernels(folder / "kernels.json")
    assert [each.experiment for each in result.candidates] == ["q8-tile", "q6-dot"]
    assert result.is_quick
    for each in result.candidates:
        assert each.compiler_name == COMPILER
        assert each.failed is None or each.failed.name == "time"
    assert result.run.command[:3] == ("arriero", "lab", "kernels")
    assert "MICROBENCHMARK" in (folder / "README.md").read_text()
    assert (folder / "kernel-ratios.svg").exists()


@needs_kernels
def test_a_report_is_made_again_from_the_file_alone(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--from", str(folder / "kernels.json"), "--out", str(tmp_path / "again"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((folder / "kernels.json").read_text())
    assert (tmp_path / "again" / "README.md").read_text() == (folder / "README.md").read_text()
    assert not (tmp_path / "again" / "kernels.json").exists()


@needs_kernels
def test_results_are_not_replaced_unasked(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"README\.md: exists already"):
        main(["--quick", "--out", str(folder)])


@pytest.mark.parametrize("words", [["--kernel", "q9"], ["--compiler", "icc"], ["--what"]])
def test_unknown_words_are_one_line(words: list[str]) -> None:
    with pytest.raises(ConfigError, match="see arriero lab kernels --help"):
        main(words)


def test_a_damaged_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "kernels.json").write_text("{}")
    with pytest.raises(DataError, match="schema_version"):
        main(["--from", str(tmp_path / "kernels.json"), "--out", str(tmp_path / "out")])
