"""A built wheel is taken again only where everything that shaped it is the same."""

import io
import shutil
from pathlib import Path

import pytest

from tools import build_binding

COMPILER = shutil.which("true") or "true"


def test_the_key_repeats_and_changes_with_the_options() -> None:
    key = build_binding.build_key("-DGGML_NATIVE=ON", COMPILER)
    assert key == build_binding.build_key("-DGGML_NATIVE=ON", COMPILER)
    assert key != build_binding.build_key("-DGGML_NATIVE=OFF", COMPILER)
    assert len(key) == 16


def test_the_key_changes_with_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    key = build_binding.build_key("", COMPILER)
    monkeypatch.setattr(build_binding, "cpu_flags", lambda: "another cpu")
    assert key != build_binding.build_key("", COMPILER)


def test_the_key_changes_with_the_pins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    key = build_binding.build_key("", COMPILER)
    pins = tmp_path / "binding.txt"
    pins.write_text("llama-cpp-python==0.0.0\n")
    monkeypatch.setattr(build_binding, "PINS", pins)
    assert key != build_binding.build_key("", COMPILER)


def test_our_options_come_first_and_the_users_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CMAKE_ARGS", "-DGGML_NATIVE=OFF")
    monkeypatch.setenv("CFLAGS", "-O2")
    options = build_binding.build_options(COMPILER)
    assert options["CMAKE_ARGS"].startswith("-DGGML_NATIVE=ON ")
    assert options["CMAKE_ARGS"].endswith(" -DGGML_NATIVE=OFF")
    assert options["CFLAGS"] == " ".join((*build_binding.WITHOUT_AMX, "-O2"))


def test_flags_that_a_compiler_refuses_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXXFLAGS", raising=False)
    assert build_binding.build_options(shutil.which("false") or "false")["CXXFLAGS"] == ""


def test_wheels_are_kept_in_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert build_binding.wheel_shelf() == tmp_path / "arriero" / "wheels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert build_binding.wheel_shelf() == Path.home() / ".cache" / "arriero" / "wheels"


def test_progress_tells_how_many_files_are_compiled_and_keeps_the_log() -> None:
    progress = build_binding.Progress()
    log = io.StringIO()
    progress.follow(io.StringIO("Configuring\n  [7/140] /usr/bin/c++ a.cpp\n[wrong]\n"), log)
    assert progress.said == "7 of 140 files compiled"
    assert log.getvalue().count("\n") == 3


def test_a_machine_without_a_compiler_is_told_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert build_binding.main() == 1
    assert "apt-get install g++" in capsys.readouterr().err
