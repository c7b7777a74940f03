"""The commands on the real model, and on files that are none."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from arriero.backend.models import embedded_model

pytestmark = pytest.mark.model


def run(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "arriero", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)


def test_generate_answers_with_the_embedded_model() -> None:
    words = [
        "generate",
        "The capital of France is",
        "--raw",
        "--max-tokens",
        "3",
        "--threads",
        "1",
        "--ctx-size",
        "256",
        "--flash-attn",
        "off",
    ]
    done = run(words)
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout


@pytest.mark.parametrize(
    ("kept", "reason"), [(0, "this is no GGUF file"), (4096, "llama.cpp cannot read this file"), (None, "no such file")]
)
def test_a_model_file_that_cannot_be_used_is_one_line(tmp_path: Path, kept: int | None, reason: str) -> None:
    path = tmp_path / "model.gguf"
    if kept is not None:
        path.write_bytes(embedded_model().read_bytes()[:kept])
    done = run(["serve", "--port", "0", "--model", str(path)])
    assert done.returncode == 2
    assert done.stderr.startswith(f"arriero: --model {path}: ")
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


def test_serve_says_what_the_model_is() -> None:
    command = [sys.executable, "-m", "arriero", "serve", "--port", "0", "--log-format", "json", "--ctx-size", "2048"]
    with subprocess.Popen([*command, "--threads", "1"], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines: dict[str, dict[str, object]] = {}
        for text in process.stderr:
            line = json.loads(text)
            lines[line["message"]] = line
            if line["message"] == "ready":
                break
        process.terminate()
        assert process.wait(timeout=60) == 0
    assert lines["model"]["trained for"] == "8,192 tokens of context"
    assert str(lines["sizes"]["each holds"]).startswith("256 tokens")
