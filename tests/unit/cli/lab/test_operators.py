"""`arriero lab profile` and `arriero lab granularity`: flags, and reports of files that are there."""

import json
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from arriero.cli.lab import granularity as granularity_verb
from arriero.cli.lab import profile as profile_verb
from arriero.core.errors import ConfigError, DataError
from arriero.record.cpu_lab.granularity import write_granularity
from arriero.record.cpu_lab.machine_result import encode_machine
from arriero.record.cpu_lab.operators import write_operators
from tests.unit.lab.machine.machines import RESULT
from tests.unit.record.cpu_lab.operator_files import granularity, profile

Main = Callable[[Sequence[str]], int]
BOTH = pytest.mark.parametrize("main", [profile_verb.main, granularity_verb.main], ids=["profile", "granularity"])


def written(folder: Path) -> dict[Main, Path]:
    write_operators(folder / "operators.json", profile())
    write_granularity(folder / "granularity.json", granularity())
    return {
        profile_verb.main: folder / "operators.json",
        granularity_verb.main: folder / "granularity.json",
    }


@BOTH
def test_a_report_is_made_again_from_the_file_alone(
    main: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = written(tmp_path)[main]
    out = tmp_path / "again"
    assert main(["--from", str(source), "--out", str(out)]) == 0
    told = capsys.readouterr().out
    assert told.startswith("PROFILED: small.gguf, 2 threads")
    assert f"report: {out}/README.md" in told
    assert "PROFILED" in (out / "README.md").read_text()
    assert not list(out.glob("*.json"))
    assert list(out.glob("*.svg"))


@BOTH
def test_results_are_replaced_when_asked_and_told_as_json(
    main: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = written(tmp_path)[main]
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "README.md").write_text("mine")
    words = ["--from", str(source), "--out", str(tmp_path / "out"), "--json"]
    with pytest.raises(ConfigError, match=r"README\.md: exists already"):
        main(words)
    assert main([*words, "--force"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(source.read_text())
    assert (tmp_path / "out" / "README.md").read_text() != "mine"


@BOTH
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--prompt", "0"], "--prompt 0: "),
        (["--prompt", "many"], "--prompt many: "),
        (["--prompt", "4096"], "--prompt 4096: .* one graph"),
        (["--generate", "0"], "--generate 0: "),
        (["--depth", "-1"], "--depth -1: "),
        (["--threads", "0"], "--threads 0: "),
        (["--repetitions", "0"], "--repetitions 0: "),
        (["--flash-attn", "maybe"], "see arriero lab"),
        (["--what"], "see arriero lab"),
        (["--model", "no-such-file.gguf"], "no-such-file.gguf: .*"),
    ],
)
def test_what_cannot_work_is_one_line(main: Main, words: list[str], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        main([*words, "--out", str(tmp_path / "out")])
    assert "\n" not in str(caught.value)


def test_sizes_of_packets_are_whole_numbers(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--sizes 1,x: "):
        granularity_verb.main(["--sizes", "1,x", "--out", str(tmp_path / "out")])


@BOTH
def test_a_damaged_file_is_one_line(main: Main, tmp_path: Path) -> None:
    (tmp_path / "damaged.json").write_text('{"schema_version":"something else"}\n')
    with pytest.raises(DataError, match="schema_version: 'something else' is not"):
        main(["--from", str(tmp_path / "damaged.json"), "--out", str(tmp_path / "out")])


def test_ceilings_that_are_missing_are_told_before_anything_is_measured(tmp_path: Path) -> None:
    model, machine = tmp_path / "tiny.gguf", tmp_path / "machine.json"
    model.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 0) + bytes(8))
    machine.write_bytes(encode_machine(RESULT))
    words = ["--model", str(model), "--machine", str(machine), "--threads", "3", "--out", str(tmp_path / "out")]
    with pytest.raises(ConfigError, match=r"no ceiling memory-read was measured .*lab machine --threads 3"):
        profile_verb.main([*words, "--roofline"])
    with pytest.raises(ConfigError, match="--machine: holds ceilings, which --roofline asks for"):
        profile_verb.main(words)
