import json
from pathlib import Path

import pytest

from arriero.cli.main import main
from arriero.lab.machine.library_files import library_facts
from arriero.record.cpu_lab.build_pin import read_pin

VERB = ("lab", "verify-build")


def test_a_build_fits_its_own_pin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pin = tmp_path / "pin.json"
    assert main([*VERB, "--pin", str(pin), "--note", "today"]) in {0, 1}  # 1 where the build leaves instructions unused
    assert read_pin(pin).note == "today"
    assert read_pin(pin).files == library_facts().hashes
    capsys.readouterr()
    assert main([*VERB, str(pin)]) == 0
    out = capsys.readouterr().out
    assert out.endswith("as pinned\n")
    for each in library_facts().files:
        assert each.sha256 in out


def test_differences_are_lines_and_the_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pin = tmp_path / "pin.toml"
    pin.write_text('schema = "arriero-lab-build-v1"\nggml = "9.9.9"\nfeatures = ["NONE_SUCH"]\n')
    assert main([*VERB, str(pin)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("different  ggml: ") and line.endswith("9.9.9 pinned") for line in lines)
    assert "different  features: NONE_SUCH is not compiled in here, and pinned" in lines
    assert main([*VERB, str(pin), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["against"] == "pin.toml"
    assert told["library"]["binding"] == library_facts().binding
    assert len(told["differences"]) >= 2


def test_a_pin_that_exists_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pin = tmp_path / "pin.json"
    pin.write_text("mine")
    assert main([*VERB, "--pin", str(pin)]) == 2
    assert "--force" in capsys.readouterr().err
    assert pin.read_text() == "mine"
    assert main([*VERB, str(pin)]) == 2
    assert "malformed JSON" in capsys.readouterr().err
