from pathlib import Path

import msgspec
import pytest

from arriero.cli.lab.machine_view import cache_words, library_words, machine_lines
from arriero.cli.main import main
from arriero.record.cpu_lab.machine_details import CacheFacts
from arriero.record.cpu_lab.machine_result import MachineResult, encode_machine, read_machine
from tests.unit.lab.machine.machines import LIBRARY, RESULT

replace = msgspec.structs.replace


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("arriero.lab.machine.load_samples.time.sleep", lambda _seconds: None)


def test_facts_are_written_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "machine", "--facts"]) == 0
    out = capsys.readouterr().out
    result = read_machine(tmp_path / ".artifacts/lab/machine.json")
    assert result.environment.fingerprint in out
    assert "no ceilings were measured; ceilings: not asked for" in out
    assert main(["lab", "machine", "--facts", "--json"]) == 0  # the default place is replaced
    assert msgspec.json.decode(capsys.readouterr().out, type=MachineResult).ceilings == ()


def test_a_named_file_is_replaced_only_by_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.json"
    path.write_text("mine")
    assert main(["lab", "machine", "--facts", "--out", str(path)]) == 2
    assert "--force" in capsys.readouterr().err
    assert path.read_text() == "mine"
    assert main(["lab", "machine", "--facts", "--out", str(path), "--force", "--report", str(tmp_path / "report")]) == 0
    assert read_machine(path).ceilings == ()
    assert (tmp_path / "report/README.md").read_text().startswith("# Machine: ")
    assert (tmp_path / "report/index.html").exists()


def test_a_report_is_made_again_from_the_file_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.json").write_bytes(encode_machine(RESULT))
    words = ["lab", "machine", "--from", "m.json", "--report", "report"]
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines() == list(machine_lines(RESULT))
    assert "MICROBENCHMARK" in (tmp_path / "report/README.md").read_text()
    assert not (tmp_path / ".artifacts").exists(), "nothing was measured"
    assert main(words) == 2
    assert "report/README.md: exists already" in capsys.readouterr().err
    assert main([*words, "--force", "--out", "other.json"]) == 2
    assert "--out: nothing is measured with --from" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "says"), [(["--threads", "0"], "--threads 0"), (["--bogus"], "unrecognized")])
def test_wrong_words_are_one_line(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "machine", *words]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1


def test_a_busy_machine_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("arriero.record.machine_load.busy_now", lambda: "the machine is busy: others use 1.9 cores")
    assert main(["lab", "machine", "--quick"]) == 2
    assert "--busy-ok" in capsys.readouterr().err


def test_a_quick_run_measures_all_kinds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "machine", "--quick", "--busy-ok", "--threads", "1", "--out", "m.json"]) == 0
    result = read_machine(tmp_path / "m.json")
    assert result.quick
    assert len({each.kind for each in result.ceilings}) >= 4
    assert all(each.threads in {1, None} for each in result.ceilings)
    out = capsys.readouterr().out
    assert "MICROBENCHMARK: " in out
    assert "memory-read" in out


def test_warnings_come_before_ceilings() -> None:
    lines = list(machine_lines(replace(RESULT, busy="others work")))
    warning = next(number for number, line in enumerate(lines) if line.startswith("warning"))
    ceiling = next(number for number, line in enumerate(lines) if line.startswith("memory-read"))
    assert warning < ceiling
    assert any(line.startswith("doubtful: others work") for line in lines)
    assert lines[ceiling].split() == ["memory-read", "stream", "1", "11.0", "GB/s", "12.0", "GB/s", "18.2%", "3"]
    assert "fp32-fma       numpy                - " in "\n".join(lines)
    assert "gcc 9 cannot build it" in lines[-1]
    assert all(len(line) <= 120 for line in lines)


def test_a_build_and_a_cache_in_words() -> None:
    assert library_words(None) == ""
    assert library_words(LIBRARY) == ("binding 0.3.36, ggml 0.25.3, commit 0c1e570, AVX2 FMA, by GCC: (Debian) 12.2.0")
    bare = replace(LIBRARY, ggml=None, commit=None, compilers=())
    assert library_words(bare) == "binding 0.3.36, ggml unknown, AVX2 FMA, by an unknown compiler"
    assert cache_words(CacheFacts(level=1, kind="Data", bytes=49152, cpus=1, instances=2)) == "2 x L1 data 48 KiB"
    shared = CacheFacts(level=3, kind="Unified", bytes=2**25, cpus=8, instances=1)
    assert cache_words(shared) == "1 x L3 unified 32 MiB shared by 8"
