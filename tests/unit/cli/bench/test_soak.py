"""`arriero bench soak`: a soak of two seconds that is killed and goes on, and what it refuses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from arriero.bench.soak.state import StateFile, read_state
from arriero.cli.bench.soak import main
from arriero.core.errors import ConfigError, DataError
from tests.unit.bench.soak.soaks import leg, state

Capture = pytest.CaptureFixture[str]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells files and memory of a server")
def test_a_soak_that_is_killed_goes_on_where_it_was_and_its_books_balance(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "soak"
    words = ["--quick", "--seed", "3", "--out", str(folder)]
    command = [sys.executable, "-m", "arriero", "bench", "soak", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("leg 1 of 4: ")
        process.kill()
    before = read_state(folder)
    assert before is not None
    assert 1 <= len(before.legs) < 4

    with pytest.raises(ConfigError, match="--resume"):
        main(words)
    status = main([*words, "--resume"])
    after = read_state(folder)
    assert after is not None
    assert after.legs[: len(before.legs)] == before.legs
    assert (after.is_over, after.num_resumed, after.failures) == (True, 1, ())
    assert [server.how for server in after.servers] == [None, "terminated"]

    verdicts = json.loads((folder / "verdicts.json").read_text())
    short = "growth of resident memory, MiB a minute"  # of so few legs nobody can say
    assert [each["text"] for each in verdicts["statements"] if each["verdict"] != "PASS"] == [short]
    assert status == 1
    out = capsys.readouterr()
    assert out.out.splitlines()[-1] == f"OPEN soak: report in {folder}"
    assert "leg 4 of 4: " in out.err

    assert main(["--out", str(folder), "--resume"]) == 1  # over: it only tells again
    assert read_state(folder) == after


def kept(folder: Path) -> None:
    found = state(leg(0))
    StateFile(folder, found).put(replace(found, settings=replace(found.settings, minutes=1.0, seed=7)))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "holds a soak already"),
        (["--resume", "--quick", "--minutes", "2"], "another minutes"),
        (["--resume", "--quick", "--minutes", "1", "--seed", "8"], "another seed"),
        (["--resume", "--quick", "--minutes", "1", "--seed", "7", "--itl-target", "50"], "another itl_target_ms"),
    ],
)
def test_a_soak_goes_on_with_its_own_settings_only(tmp_path: Path, words: list[str], expected: str) -> None:
    kept(tmp_path)
    with pytest.raises(ConfigError, match=expected):
        main([*words, "--out", str(tmp_path)])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--quick", "--model", "x.gguf"], "the synthetic backend computes without one"),
        (["--config", "none.toml"], "none.toml"),
        (["--minutes", "many"], "many is no number"),
        (["--minutes", "0"], "minutes"),
    ],
)
def test_what_cannot_work_is_told_before_anything_runs(tmp_path: Path, words: list[str], expected: str) -> None:
    with pytest.raises((ConfigError, DataError)) as told:
        main([*words, "--out", str(tmp_path / "soak")])
    assert expected in f"{getattr(told.value, 'file', None)}: {told.value}"
    assert not (tmp_path / "soak").exists()


def test_a_folder_has_to_be_named(capsys: Capture) -> None:
    with pytest.raises(ConfigError, match="--out"):
        main(["--quick"])
    assert capsys.readouterr().out == ""
