import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from arriero.cli.main import main
from arriero.cli.simulation.lab import Files, load, run_lab
from arriero.cli.simulation.output import write_texts
from arriero.core.errors import ConfigError, DataError
from arriero.record.lab_config import LabConfig, read_lab_config
from arriero.record.lab_file import decode_row, read_lab_result
from arriero.record.lab_place import Place
from arriero.record.lab_rows import IterationRow, LabRow
from arriero.workload.records import WorkloadRecord
from tests.unit.record.lab_files import NAMES, published


class Recorded:
    """A simulator that knows one run by heart."""

    def __init__(self, path: Path) -> None:
        self._lines = path.read_bytes().splitlines()[1:]

    def __call__(
        self, config: LabConfig, records: Sequence[WorkloadRecord], *, with_iterations: bool = True
    ) -> Iterator[LabRow]:
        del config, records
        for number, line in enumerate(self._lines, start=2):
            row = decode_row(line, Place("recorded", number))
            if with_iterations or not isinstance(row, IterationRow):
                yield row


def inputs_of(shared_data: Path, name: str) -> tuple[LabConfig, Files]:
    config_path = published(shared_data, name).config_path
    return read_lab_config(config_path), Files(config_path, None, None, shared_data / "serving-lab")


# ── runs ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_is_what_was_simulated_below_our_run_row(shared_data: Path, tmp_path: Path, name: str) -> None:
    known = published(shared_data, name)
    config, files = inputs_of(shared_data, name)
    out = tmp_path / "new" / f"{name}.jsonl"
    result = run_lab(load(config, files), out, Recorded(known.path), ["arriero"], force=False, with_iterations=True)
    assert out.read_bytes().split(b"\n", 1)[1] == known.path.read_bytes().split(b"\n", 1)[1]
    assert read_lab_result(out, known.records).metrics() == result.metrics()
    assert result.run.benchmark_runner.path == "arriero"


def test_without_iteration_rows_the_rest_is_still_checked(shared_data: Path, tmp_path: Path) -> None:
    known = published(shared_data, "mixed_overload")
    config, files = inputs_of(shared_data, "mixed_overload")
    out = tmp_path / "x.jsonl"
    run_lab(load(config, files), out, Recorded(known.path), ["arriero"], force=False, with_iterations=False)
    assert len(out.read_bytes().splitlines()) == 1 + 12 + 1


def test_rows_that_do_not_fit_leave_no_file(shared_data: Path, tmp_path: Path) -> None:
    other = published(shared_data, "mixed_medium_load")
    config, files = inputs_of(shared_data, "mixed_overload")
    out = tmp_path / "x.jsonl"
    with pytest.raises(DataError):
        run_lab(load(config, files), out, Recorded(other.path), ["arriero"], force=False, with_iterations=True)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_result_is_kept_unless_forced(shared_data: Path, tmp_path: Path) -> None:
    known = published(shared_data, "kv_small")
    config, files = inputs_of(shared_data, "kv_small")
    out = tmp_path / "x.jsonl"
    out.write_text("mine")
    inputs = load(config, files)
    with pytest.raises(ConfigError, match="exists already"):
        run_lab(inputs, out, Recorded(known.path), ["arriero"], force=False, with_iterations=True)
    assert out.read_text() == "mine"
    run_lab(inputs, out, Recorded(known.path), ["arriero"], force=True, with_iterations=True)
    assert out.stat().st_size > 1000


@pytest.mark.parametrize("which", ["folder", "file"])
def test_links_as_outputs_are_refused(shared_data: Path, tmp_path: Path, which: str) -> None:
    known = published(shared_data, "kv_small")
    config, files = inputs_of(shared_data, "kv_small")
    (tmp_path / "real").mkdir()
    if which == "folder":
        (tmp_path / "link").symlink_to(tmp_path / "real")
        out = tmp_path / "link" / "x.jsonl"
    else:
        out = tmp_path / "x.jsonl"
        out.symlink_to(tmp_path / "real" / "x.jsonl")
    with pytest.raises(ConfigError, match="symbolic link"):
        run_lab(load(config, files), out, Recorded(known.path), ["arriero"], force=True, with_iterations=True)
    assert list((tmp_path / "real").iterdir()) == []


def test_a_named_workload_without_a_manifest_gets_its_arrivals_as_they_stand(shared_data: Path, tmp_path: Path) -> None:
    known = published(shared_data, "kv_small")
    config, files = inputs_of(shared_data, "kv_small")
    workload = tmp_path / "w.jsonl"
    shutil.copy(known.workload_path, workload)
    inputs = load(config, files._replace(workload=workload))
    assert inputs.manifest.generator == "unknown"
    assert inputs.manifest.seed == config.run_seed
    assert inputs.manifest.workload_class == "mixed"
    shutil.copy(known.workload_path.with_suffix("").with_suffix(".manifest.json"), tmp_path / "w.manifest.json")
    assert load(config, files._replace(workload=workload)).manifest.generator != "unknown"


def test_a_manifest_of_another_workload_is_refused(shared_data: Path) -> None:
    config, files = inputs_of(shared_data, "kv_small")
    wrong = shared_data / "serving-lab" / "workloads" / "chat.manifest.json"
    with pytest.raises(DataError):
        load(config, files._replace(manifest=wrong))


# ── the command line ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_summary_prints_the_published_table(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(published(shared_data, name).path) for name in NAMES]
    assert main(["sim", "summary", *paths, "--format", "csv"]) == 0
    assert capsys.readouterr().out == (shared_data / "serving-lab" / "results" / "expected.csv").read_text()


def test_summary_writes_three_forms(shared_data: Path, tmp_path: Path) -> None:
    paths = [str(published(shared_data, name).path) for name in NAMES]
    outs = {form: tmp_path / f"s.{form}" for form in ("json", "csv", "markdown")}
    flags = [word for form, path in outs.items() for word in (f"--{form}", str(path))]
    assert main(["sim", "summary", *paths, *flags]) == 0
    entries = json.loads(outs["json"].read_text())
    expected = json.loads((shared_data / "serving-lab" / "results" / "expected-summary.json").read_text())
    assert [{**entry, "result_path": None} for entry in entries] == [{**each, "result_path": None} for each in expected]
    assert main(["sim", "summary", *paths, *flags]) == 2


def test_compare_takes_two_files_or_pairs(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    off, on = (str(published(shared_data, f"shared_prefix_cache_{word}").path) for word in ("off", "on"))
    assert main(["sim", "compare", off, on]) == 0
    table = capsys.readouterr().out
    assert "| scheduled_prefill_tokens | 589 | 141 | -448 | -76.06 |" in table
    assert main(["sim", "compare", f"{off}:{on}"]) == 0
    assert capsys.readouterr().out == table


def test_runs_of_different_workloads_are_not_compared(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(published(shared_data, name).path) for name in ("decode_first", "kv_small", "fcfs_chat_small")]
    assert main(["sim", "compare", paths[0], paths[2]]) == 2
    assert "differ in workload" in capsys.readouterr().err


def test_a_dry_matrix_checks_and_writes_nothing(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    root = shared_data / "serving-lab"
    matrix = str(root / "configs" / "matrix_extended.json")
    assert main(["sim", "matrix", matrix, "--root", str(root), "--dry-run", "--max-runs", "24"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 24
    assert main(["sim", "matrix", matrix, "--root", str(root), "--dry-run"]) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no verb given"),
        (["runs"], "did you mean run"),
        (["summary"], "required"),
        (["summary", "nowhere.jsonl"], "nowhere.jsonl: no such file"),
        (["compare", "a.jsonl"], "no pair"),
        (["run"], "--config"),
        (["run", "--config", "nowhere.json"], "nowhere.json: no such file"),
        (["run", "--preset", "serving-lab", "--config", "c.json", "--json"], "--json: goes without --preset"),
        (["run", "--preset", "serving-lab", "--config", "c.json", "--trace", "counts"], "use full or off"),
        (["summary", "/dev/null"], "/dev/null: line 1: schema_version"),
        (["mixed-decode", "--journal", "j.jsonl"], "name one --workload and one --policy"),
        (["mixed-decode", "--workload", "Z"], "no such workload"),
        (["mixed-decode", "--slots", "0"], "no whole number"),
        (["mixed-decode", "--base-ms", "nan"], "no number"),
        (["replay", "nowhere.jsonl"], "nowhere.jsonl"),
        (["verify", "--folder", "nowhere"], "no file matrix_"),
    ],
    ids=lambda value: "-".join(value) or "nothing" if isinstance(value, list) else "",
)
def test_misuse_ends_with_status_two_and_one_line(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["sim", *words]) == 2
    told = capsys.readouterr().err
    assert says in told
    assert told.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_refused_request_is_told_with_its_line(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    known = published(shared_data, "mixed_overload")
    workload = str(known.workload_path)
    for most_tokens, says in ((100, "prompt_token_count exceeds"), (300, None), (257, None)):
        text = known.config_path.read_text().replace(
            '"max_batched_tokens": 512', f'"max_batched_tokens": {most_tokens}'
        )
        Path("c.json").write_text(text)
        words = ["--config", "c.json", "--workload", workload, "--out", f"{most_tokens}.jsonl"]
        assert main(["sim", "run", "--preset", "serving-lab", *words]) == (0 if says is None else 2)
        if says is not None:
            told = capsys.readouterr().err
            assert told.startswith(f"arriero: {workload}: JSONL line 2: request 'mixed-0001': {says}")
    lines = known.workload_path.read_text().splitlines(keepends=True)
    Path("w.jsonl").write_text(lines[2])
    Path("c.json").write_text(known.config_path.read_text().replace("512", "105"))
    assert main(["sim", "run", "--preset", "serving-lab", "--config", "c.json", "--workload", "w.jsonl"]) == 2
    assert "w.jsonl: JSONL line 1: request 'mixed-0002': oversized unmatched prefill" in capsys.readouterr().err
    Path("w.jsonl").write_text(lines[2] + lines[1])
    assert main(["sim", "run", "--preset", "serving-lab", "--config", "c.json", "--workload", "w.jsonl"]) == 2
    assert "w.jsonl: JSONL line 2: arrival_time_us: lies before" in capsys.readouterr().err
    Path("w.jsonl").write_text(lines[1] + lines[2].replace('"mixed"', '"chat"'))
    assert main(["sim", "run", "--preset", "serving-lab", "--config", "c.json", "--workload", "w.jsonl"]) == 2
    assert "w.jsonl: JSONL line 2: workload_class: is chat after mixed" in capsys.readouterr().err


def test_files_of_one_command_appear_together_or_not_at_all(tmp_path: Path) -> None:
    taken = tmp_path / "b.csv"
    taken.mkdir()
    with pytest.raises(ConfigError):
        write_texts({tmp_path / "a.csv": "a", taken: "b"}, force=True)
    assert list(tmp_path.iterdir()) == [taken]
    write_texts({tmp_path / "a.csv": "a", tmp_path / "c.csv": "c"}, force=False)
    assert (tmp_path / "a.csv").read_text() == "a"
