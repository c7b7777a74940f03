import csv
import json
import shutil
from pathlib import Path

import pytest

from arriero.cli.main import main
from arriero.cli.simulation.verify import FOLDER, definitions
from tests.unit.record.lab_files import NAMES, published


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_the_preset_writes_the_published_rows_byte_for_byte(shared_data: Path, name: str) -> None:
    known = published(shared_data, name)
    words = ["--config", str(known.config_path), "--workload", str(known.workload_path), "--out", "f.jsonl"]
    assert main(["sim", "run", "--preset", "serving-lab", *words]) == 0
    assert Path("f.jsonl").read_bytes().split(b"\n", 1)[1] == known.path.read_bytes().split(b"\n", 1)[1]


def test_without_iteration_rows_all_others_are_the_same(shared_data: Path) -> None:
    known = published(shared_data, "mixed_overload")
    words = ["--config", str(known.config_path), "--workload", str(known.workload_path), "--out", "f.jsonl"]
    assert main(["sim", "run", "--preset", "serving-lab", *words, "--trace", "off"]) == 0
    rows = known.path.read_bytes().splitlines()[1:]
    assert Path("f.jsonl").read_bytes().splitlines()[1:] == [row for row in rows if b'"iteration"' not in row]


def test_the_whole_matrix_runs_and_says_what_it_compares(shared_data: Path) -> None:
    root = shared_data / "serving-lab"
    words = [str(root / "configs" / "matrix_extended.json"), "--root", str(root), "--max-runs", "24", "--out", "out"]
    assert main(["sim", "matrix", *words]) == 0
    assert len(list(Path("out/raw").iterdir())) == 24
    manifest = json.loads(Path("out/command_manifest.json").read_text())
    assert len(manifest["runs"]) == 24
    assert manifest["runs"][0]["result"] == f"raw/{Path(manifest['runs'][0]['config']).stem}.jsonl"
    report = Path("out/report.md").read_text()
    assert "## load_sweep" in report
    assert "These runs have different workloads" in report
    assert main(["sim", "matrix", *words]) == 2
    assert main(["sim", "matrix", *words, "--force"]) == 0


@pytest.mark.parametrize(
    ("name", "num_runs"),
    [("published small", 8), ("published extended", 24), ("own small", 8), ("own extended", 24)],
)
def test_a_matrix_runs_with_its_comparisons(
    shared_data: Path, root: Path, capsys: pytest.CaptureFixture[str], name: str, num_runs: int
) -> None:
    whose, size = name.split()
    folder = root / FOLDER if whose == "own" else shared_data / "serving-lab"
    path = folder / ("" if whose == "own" else "configs") / f"matrix_{size}.json"
    assert main(["sim", "matrix", str(path), "--root", str(folder), "--max-runs", str(num_runs), "--out", "out"]) == 0
    matrix = json.loads(path.read_text())
    manifest = json.loads(Path("out/command_manifest.json").read_text())
    assert [each["config"] for each in manifest["runs"]] == matrix["configs"]
    results = [f"out/{each['result']}" for each in manifest["runs"]]
    assert len(results) == num_runs
    capsys.readouterr()
    assert main(["sim", "summary", *results, "--format", "csv"]) == 0
    table = capsys.readouterr().out
    assert table == Path("out/summary.csv").read_text()
    # each comparison has a row for each of its configurations, with the figures of the summary
    completed = {Path(each["result"]).stem: row for each, row in zip(manifest["runs"], csv_rows(table), strict=True)}
    sections = Path("out/report.md").read_text().split("\n## ")[1:]
    assert [section.splitlines()[0] for section in sections] == list(matrix["comparisons"])
    for section, comparison in zip(sections, matrix["comparisons"].values(), strict=True):
        rows = [line.strip("| ").split(" | ") for line in section.splitlines()[4:] if line.startswith("|")]
        assert [row[0] for row in rows] == comparison["configs"]
        for row in rows:
            known = completed[row[0]]
            assert row[1] == f"{known['completed']}/{known['submitted']}"


def csv_rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def test_our_own_definitions_are_as_referenced(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(definitions(root / FOLDER)) == 24
    assert main(["sim", "verify", "--folder", str(root / FOLDER)]) == 0
    assert "24 of 24 as referenced" in capsys.readouterr().out


def test_a_changed_definition_is_told_and_changes_no_reference(
    root: Path, working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = working_folder / "copy"
    shutil.copytree(root / FOLDER, folder)
    config = folder / "configs" / "volley_decode_first.json"
    config.write_text(config.read_text().replace('"batch_base_us": 70', '"batch_base_us": 71'))
    reference = (folder / "references" / "volley_decode_first.json").read_bytes()
    assert main(["sim", "verify", "--folder", str(folder)]) == 1
    assert "FAIL volley_decode_first: config_sha256 differs" in capsys.readouterr().out
    assert (folder / "references" / "volley_decode_first.json").read_bytes() == reference
    assert main(["sim", "verify", "--folder", str(folder), "--update-reference"]) == 0
    assert (folder / "references" / "volley_decode_first.json").read_bytes() != reference


def test_mixed_decode_writes_the_same_bytes_twice(working_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sim", "mixed-decode", "--workload", "M", "--cap", "50"]
    assert main([*words, "--out", "a"]) == 0
    assert main([*words, "--out", "b"]) == 0
    first, second = (working_folder / each / "a2fa5ef0ddcd" for each in ("a", "b"))
    names = sorted(path.name for path in first.iterdir())
    assert len(names) == 7
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in names)
    with (first / "summary.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [f"{float(row['makespan_ms']):.3f}" for row in rows] == ["1496.400", "1120.400", "953.775"]
    assert main([*words, "--out", "a"]) == 2
    assert "exists already" in capsys.readouterr().err


@pytest.mark.slow
def test_mixed_decode_prints_the_table_and_its_sweeps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "mixed-decode"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    for expected in (
        "staggered_identical_short continuous 657.700 96.400 164.910 169.200 76.000 144.580 150.476 5.974 232 232 1386",
        "mixed_decode_only -30.03% -36.43% -55.47% +124.57%",
        "long continuous 4599.000 8071.400 3835.600 7380.840",
        "8 slots, n_batch 32 580.7 / 554.7 74.8 / 58.4 40.4 / 24.6 155 / 129",
        "16 slots, n_batch 32 2660.0 / 1014.0 / 979.0 18.182 / 23.529",
    ):
        assert expected in lines


def test_the_demo_shows_what_batching_and_caching_change(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "demo"]) == 0
    rates = {line[:36].strip(): float(line[36:52]) for line in capsys.readouterr().out.splitlines()[2:5]}
    assert rates["continuous batching"] > 2 * rates["one request at a time"]


def test_a_refused_run_leaves_nothing(
    shared_data: Path, working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = published(shared_data, "mixed_overload")
    config = json.loads(known.config_path.read_text())
    config["max_batched_tokens"] = 20
    Path("c.json").write_text(json.dumps(config))
    words = ["--config", "c.json", "--workload", str(known.workload_path), "--out", "new/f.jsonl"]
    assert main(["sim", "run", "--preset", "serving-lab", *words]) == 2
    assert "chunked prefill is not implemented" in capsys.readouterr().err
    assert not list(working_folder.glob("**/*.jsonl"))
