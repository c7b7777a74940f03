"""A cost profile made for one server: with which flags, and what is told if it cannot be made."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from arriero.bench.cost_profiles import CalibrationPlan, calibrated, profile_facts
from arriero.core.errors import ConfigError

PLAN = CalibrationPlan(
    model="none", backend="synthetic", flash_attention="auto", slots=2, slot_tokens=256, batch_rows=64, micro_batch=32,
    threads=0, seconds=0.1,
)  # fmt: skip


def test_it_is_made_with_the_flags_of_the_server() -> None:
    words = PLAN.words(Path("out.json"))
    pairs = dict(pairwise(words))
    assert (pairs["--sequences"], pairs["--ctx-size"], pairs["--batch"], pairs["--micro-batch"]) == (
        "2", "512", "64", "32",
    )  # fmt: skip
    assert "--threads" not in words


@pytest.mark.parametrize(("threads", "expected"), [(1, "1"), (4, "1,4")])
def test_fewer_threads_are_measured_too(threads: int, expected: str) -> None:
    words = replace(PLAN, threads=threads).words(Path("out.json"))
    assert words[words.index("--threads") + 1] == expected


def test_a_target_of_the_server_decides_about_attention() -> None:
    assert "--itl-target" not in PLAN.words(Path("out.json"))
    words = replace(PLAN, itl_target_ms=100).words(Path("out.json"))
    assert words[words.index("--itl-target") + 1] == "100"


@pytest.mark.slow
async def test_a_profile_is_read_back_with_how_far_it_is_to_be_trusted(tmp_path: Path) -> None:
    profile = await calibrated(PLAN, tmp_path / "profile.json")
    facts = profile_facts(profile)
    assert facts["name"] == "synthetic"
    assert facts["samples"] > 0
    assert facts["context"] == profile.fingerprint.context, "which attention its costs are of, above all"
    assert (tmp_path / "profile.json").exists()


@pytest.mark.slow
async def test_one_that_cannot_be_made_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no cost profile: .*flash-attn"):
        await calibrated(replace(PLAN, flash_attention="sideways"), tmp_path / "profile.json")
