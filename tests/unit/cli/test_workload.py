"""`arriero workload`: files in, files out, one line and status 2 for whatever cannot work."""

import json
from pathlib import Path

import pytest

from arriero.cli.main import main
from arriero.workload.catalogue import NAMES
from tests.unit.record.test_journal import journal

TOML = """
schema_version = "serving-workload-v1"
generator = "arriero-composed-v1"
workload_class = "mixed"
request_count = 60
seed = 3
arrival = {mode = "gamma", rate_per_s = 40, burstiness = 2.5}
prompt_length = {distribution = "lognormal", mu = 3.0, sigma = 1.0, high = 400}
output_length = {distribution = "uniform", low = 1, high = 9}
tokens = {first_token = 100, size = 900}

[sessions]
pacing = "answer"
turns = {distribution = "constant", value = 2}
think_time_us = {distribution = "exponential", mean = 9e4}
"""


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _run(words: str) -> int:
    return main(["workload", *words.split()])


@pytest.mark.parametrize("name", NAMES)
def test_a_named_workload_is_made_and_agrees_with_its_manifest(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(f"generate {name} --out w.jsonl --count 40") == 0
    assert _run("validate w.jsonl --manifest w.manifest.json") == 0
    assert "every request was made again" in capsys.readouterr().out


def test_settings_in_toml_and_json_make_the_same_workload(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(TOML, encoding="utf-8")
    assert _run("generate c.toml --out a.jsonl --manifest m.json") == 0
    settings = json.loads((tmp_path / "m.json").read_bytes())["generator_config"]
    (tmp_path / "c.json").write_text(json.dumps(settings), encoding="utf-8")
    assert _run("generate c.json --out b.jsonl") == 0
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert (tmp_path / "m.json").read_bytes() == (tmp_path / "b.manifest.json").read_bytes()
    assert _run("validate b.jsonl --manifest m.json") == 0


def test_seed_and_count_on_the_command_line_go_into_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(TOML, encoding="utf-8")
    assert _run("generate c.toml --out a.jsonl --seed 9 --count 5") == 0
    manifest = json.loads((tmp_path / "a.manifest.json").read_bytes())
    assert (manifest["seed"], manifest["request_count"]) == (9, 5)
    assert _run("validate a.jsonl --manifest a.manifest.json") == 0


def test_a_description_shows_figures_and_histograms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.toml").write_text(TOML, encoding="utf-8")
    assert _run("generate c.toml --out a.jsonl") == 0
    capsys.readouterr()
    assert _run("describe a.jsonl") == 0
    shown = capsys.readouterr().out
    for words in ("60 requests", "burstiness", "of their", "closed loop", "prompt tokens", "gaps, us", "█"):
        assert words in shown
    assert _run("describe a.jsonl --json") == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["num_requests"] == 60
    assert 0 < figures["sharing"]["ratio"] < 1


def test_an_empty_workload_can_be_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("generate chat --out w.jsonl --count 0") == 0
    assert _run("describe w.jsonl") == 0
    assert "0 requests" in capsys.readouterr().out


@pytest.mark.parametrize("trace", ["azure", "mooncake"])
def test_an_import_says_what_it_took_and_agrees_with_its_manifest(
    trace: str, shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = {"azure": "azure_llm_2023_conv.csv.xz", "mooncake": "mooncake_synthetic_trace.jsonl.xz"}[trace]
    file = shared_data / "traces" / name
    assert _run(f"import {trace} {file} --out w.jsonl --scale 16 --speed 1.5 --limit 200 --context 2048") == 0
    told = capsys.readouterr().out
    assert "rows read: 200, recorded minutes 0 to" in told
    assert "left out because longer than 2048 tokens" in told
    assert "divided by 16, outputs by 16, arrival times by 1.5" in told
    assert ("an ideal cache reuses" in told) == (trace == "mooncake")
    assert _run("validate w.jsonl --manifest w.manifest.json") == 0
    assert "its arrivals were made again" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("", "no verb given"),
        ("describes", "did you mean describe?"),
        ("frobnicate", "use generate, validate, describe, import"),
        ("generate chat", "the following arguments are required: --out"),
        ("generate caht --out w.jsonl", "caht: no configuration file and no workload of this name; did you mean chat?"),
        ("generate none.json --out w.jsonl", "none.json: no such file or directory"),
        ("generate bad.json --out w.jsonl", "bad.json: malformed JSON (line 1"),
        ("generate bad.toml --out w.jsonl", "bad.toml: malformed TOML"),
        ("generate odd.json --out w.jsonl", "odd.json: object missing required field `schema_version`"),
        ("generate chat --out w.jsonl --seed -1", "-1 is no whole number from 0 on"),
        ("generate chat --out old.jsonl", "old.jsonl: exists already"),
        ("generate chat --out w.jsonl --manifest old.jsonl", "old.jsonl: exists already"),
        ("generate chat --out w.jsonl --manifest w.jsonl", "give workload and manifest a name each"),
        ("generate latin.toml --out w.jsonl", "latin.toml: not UTF-8"),
        ("generate nan.json --out w.jsonl", "nan.json: malformed JSON (NaN is no number)"),
        ("import azure none.csv --out w.jsonl", "none.csv: no such file or directory"),
        ("generate chat --out .", "names no file of its own"),
        ("import azure old.jsonl --out w.jsonl --speed 1e999999999", "1e999999999 is no factor"),
        ("generate chat --out none/w.jsonl", "none/w.jsonl: cannot be written"),
        ("generate chat --out w.jsonl --force --manifest .", "is no regular file"),
        ("validate old.jsonl", "old.jsonl: JSONL line 1: malformed JSON"),
        ("validate none.jsonl", "none.jsonl: no such file or directory"),
        ("describe notes.jsonl", "notes.jsonl: request 'a': metadata.arriero:"),
        ("validate notes.jsonl", "notes.jsonl: request 'a': metadata.arriero:"),
        ("import azure old.jsonl --out w.jsonl", "old.jsonl: not the published trace"),
        ("import azure old.jsonl --out w.jsonl --unverified", "old.jsonl: CSV line 1: the header must be"),
        ("import burro old.jsonl --out w.jsonl", "invalid choice: 'burro'"),
        ("import azure old.jsonl --out w.jsonl --scale 0", "0 is no whole number from 1 on"),
        ("import azure old.jsonl --out w.jsonl --speed nan", "nan is no factor"),
        ("import azure old.jsonl --out w.jsonl --vocab-size 1", "size: expected `int` >= 2"),
        ("import mooncake old.jsonl --out w.jsonl --scale 3", "scale: 3 cuts blocks"),
    ],
)
def test_what_cannot_work_is_one_line_and_leaves_nothing(
    words: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    (tmp_path / "latin.toml").write_bytes(b"name = '\xe9'")
    (tmp_path / "nan.json").write_text('{"seed": NaN}', encoding="utf-8")
    (tmp_path / "bad.toml").write_text("=", encoding="utf-8")
    (tmp_path / "odd.json").write_text("{}", encoding="utf-8")
    (tmp_path / "old.jsonl").write_text("old", encoding="utf-8")
    (tmp_path / "notes.jsonl").write_text(
        '{"arrival_time_us":0,"max_new_tokens":1,"metadata":{"arriero":3},"prompt_token_count":1,"request_id":"a",'
        '"schema_version":"serving-workload-v1","workload_class":"chat"}\n',
        encoding="utf-8",
    )
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert _run(words) == 2
    told = capsys.readouterr()
    assert says in told.err
    assert told.err.startswith("arriero: ")
    assert told.err.count("\n") == 1
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_journal_becomes_a_workload_that_its_manifest_vouches_for(tmp_path: Path) -> None:
    lines = tmp_path / "day.jsonl"
    lines.write_bytes(b"".join(line.rstrip(b"\n") + b"\n" for line in journal()))
    out = tmp_path / "day.workload.jsonl"
    assert main(["workload", "import", "journal", str(lines), "--out", str(out)]) == 0
    assert main(["workload", "validate", str(out), "--manifest", str(next(tmp_path.glob("*manifest*")))]) == 0
    assert out.read_bytes().count(b"\n") >= 1


def test_a_damaged_journal_makes_no_workload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = tmp_path / "day.jsonl"
    lines.write_bytes(b"\n".join(journal()[:-1]) + b"\n{")
    out = tmp_path / "day.workload.jsonl"
    assert main(["workload", "import", "journal", str(lines), "--out", str(out)]) == 2
    assert "line " in capsys.readouterr().err
    assert not out.exists()
