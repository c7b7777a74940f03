"""A recommendation for the real model: measured, kept, and taken by a start."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from arriero.cli.advice import take_advice
from arriero.cli.advice_llama import LlamaPlace
from arriero.cli.loading import load_model
from arriero.cli.machine import available_cores
from arriero.cli.main import main
from arriero.cli.recommendations import keep
from arriero.core.config import FlashAttention, ServeConfig
from arriero.core.option_kinds import Threads
from arriero.record.cpu_lab.recommendation import CandidateFile, Counts, FileChoice
from tests.unit.record.cpu_lab.recommendations import judgement, run

pytestmark = pytest.mark.model

SMALL = ServeConfig(ctx_size=1024, sequences=1, retained=0, flash_attn=FlashAttention.OFF)


@pytest.fixture
def advised(short_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServeConfig:
    """A configuration of a model for which one decode thread and two others are recommended."""
    place = LlamaPlace()
    file = CandidateFile(
        name=short_path.name, path=str(short_path), num_bytes=1, sha256="0" * 64, digest=place.digest_of(short_path),
        weights="Q4_1", is_present=True, quality=None, refused=None,
    )  # fmt: skip
    choice = FileChoice(file=file.name, counts=Counts(decode=1, prefill=2), judged=judgement())
    keep(tmp_path, run(machine=dict(place.machine()), files=(file,), choices=(choice,), best=file.name, judged=None))
    monkeypatch.setenv("ARRIERO_RECOMMENDATIONS", str(tmp_path))
    return replace(SMALL, model=str(short_path))


@pytest.mark.parametrize(("given", "used"), [(None, Threads(1, 2)), (Threads(2, 2), Threads(2, 2))])
def test_a_start_takes_recommended_counts_unless_a_flag_says_otherwise(
    advised: ServeConfig, tmp_path: Path, given: Threads | None, used: Threads
) -> None:
    advice = take_advice(replace(advised, threads=given), {"ARRIERO_RECOMMENDATIONS": str(tmp_path)})
    loaded = load_model(advice.config, advice.threads)
    try:
        assert loaded.threads == used
    finally:
        loaded.close()


def test_a_recommendation_is_measured_from_end_to_end(
    short_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ["lab", "recommend", "--model", str(short_path), "--quick", "--mix", "16:4", "--busy-ok"]
    cores = str(available_cores())  # nothing to compare, so one run; what follows from several is in the unit tests
    assert main([*words, "--threads", cores, "--out", str(out)]) == 0
    assert "recommended here for 16 prompt tokens and 4 generated ones" in capsys.readouterr().out
    found = json.loads((out / "recommendation.json").read_text())
    assert all(each["prefill"]["mean"] > 0 and each["decode"]["mean"] > 0 for each in found["screened"])
    assert found["failures"] == 0
    assert {"README.md", "index.html", "run.jsonl", "manifest.json"} <= {path.name for path in out.iterdir()}
