import sys
from pathlib import Path

import pytest

from arriero.cli.main import main
from arriero.record.bench_compare import write_comparison
from arriero.record.bench_result import write_result
from tests.unit.report.bench_results import lives, point, result
from tests.unit.report.comparison_files import comparison
from tests.unit.report.conftest import simulate


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file of each kind."""
    found = tmp_path_factory.mktemp("results")
    simulate(found, "run")
    write_result(found / "load.json", result([point(lives(40, 4.0), {})]))
    write_result(found / "bare.json", result([point(lives(40, 4.0), {}, keeps_lives=False)]))
    write_comparison(found / "peers.json", comparison())
    return found


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("verb", "file"), [("sim", "run.jsonl"), ("bench", "load.json"), ("bench", "peers.json")])
def test_the_ending_decides_the_form(
    folder: Path, tmp_path: Path, verb: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    starts = {"x.html": "<!DOCTYPE html>", "x.md": "# ", "x.csv": "name," if verb == "sim" else "validity,"}
    for name, start in starts.items():
        assert main([verb, "report", str(folder / file), "--out", name]) == 0
        assert (tmp_path / name).read_text().startswith(start)
        assert f"{name}: 1 " in capsys.readouterr().out


def test_a_journal_is_a_result_too(folder: Path, tmp_path: Path) -> None:
    assert main(["sim", "report", str(folder / "run.journal"), "--out", "x.md"]) == 0
    assert "SIMULATED" in (tmp_path / "x.md").read_text()


def test_figures_are_written_apart_where_asked(folder: Path, tmp_path: Path) -> None:
    assert main(["bench", "report", str(folder / "peers.json"), "--out", "x.md", "--plots", "figures"]) == 0
    names = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert names == [
        f"{key}.{ending}"
        for key in ("ratios-comparison-1", "rounds-comparison-1-1", "rounds-comparison-1-2")
        for ending in ("png", "svg")
    ]
    assert (tmp_path / "figures" / names[0]).read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "figures" / names[1]).read_text().startswith("<?xml")


def test_different_workloads_are_told_in_the_terminal_as_well(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = simulate(Path(), "other", seed=10)
    capsys.readouterr()
    assert main(["sim", "report", str(folder / "run.jsonl"), str(other), "--out", "x.md"]) == 0
    assert "their workloads differ" in capsys.readouterr().out


def test_a_file_that_exists_is_kept_unless_forced(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.csv").write_text("mine")
    words = ["sim", "report", str(folder / "run.jsonl"), "--out", "x.csv"]
    assert main(words) == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "x.csv").read_text() == "mine"
    assert main([*words, "--force"]) == 0


def test_without_matplotlib_a_page_has_one_line_of_remedy_and_text_needs_none(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [each for each in sys.modules if each.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for verb, file in (("sim", "run.jsonl"), ("bench", "load.json")):
        assert main([verb, "report", str(folder / file), "--out", "x.html"]) == 2
        told = capsys.readouterr().err
        assert "pip install 'arriero[report]'" in told
        assert told.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
    assert main(["sim", "report", str(folder / "run.jsonl"), "--out", "x.md"]) == 0
    assert main(["bench", "report", str(folder / "load.json"), "--out", "x.csv"]) == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sim", "report"], "required"),
        (["sim", "report", "run.jsonl", "--out", "x.pdf"], "its ending is no form of a report"),
        (["sim", "report", "load.json", "--out", "x.md"], "no result of a simulation"),
        (["sim", "report", "nowhere.jsonl", "--out", "x.md"], "nowhere.jsonl: no such file"),
        (["bench", "report", "run.jsonl", "--out", "x.md"], "no result of a load test"),
        (["bench", "report", "nowhere.json", "--out", "x.md"], "nowhere.json: no such file"),
        (["bench", "report", "load.json", "peers.json", "--out", "x.md"], "do not stand on one page"),
        (["bench", "report", "bare.json", "--definitions", "vllm", "--out", "x.md"], "keeps no raw log"),
        (["bench", "report", "peers.json", "--definitions", "vllm", "--out", "x.md"], "--definitions vllm"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_misuse_ends_with_status_two_and_one_line(
    folder: Path, tmp_path: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    named = [str(folder / word) if "." in word and not word.startswith("x.") else word for word in words]
    assert main(named) == 2
    told = capsys.readouterr().err
    assert says in told
    assert told.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
