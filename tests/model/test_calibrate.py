"""A short calibration of the real model: enough to see that every shape can be set up and a profile comes out."""

import subprocess
import sys
from pathlib import Path

import pytest

from arriero.costmodel.passes import Stretch
from arriero.record.cost_profile import cost_of, read_cost_profile

pytestmark = [pytest.mark.model, pytest.mark.slow]


@pytest.mark.parametrize("layout", ["separate", "unified"])
def test_a_short_calibration_gives_a_profile(layout: str, short_path: Path, tmp_path: Path) -> None:
    out = tmp_path / "profile.json"
    words = [
        "calibrate", "--model", str(short_path), "--threads", "1", "--seconds", "1", "--busy-ok",
        "--out", str(out), "--kv", layout,
        "--sequences", "2", "--ctx-size", "512", "--batch", "96", "--micro-batch", "96", "--flash-attn", "on",
    ]  # fmt: skip
    command = [sys.executable, "-m", "arriero", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stderr
    profile = read_cost_profile(out)
    cost = cost_of(profile)
    assert profile.fingerprint.model["weights"].startswith("Q4_1")
    assert cost.valid.rows == 96
    one = cost.decode_time([Stretch(0, 100, 1, wants_logits=True)])
    two = cost.decode_time([Stretch(0, 100, 1, wants_logits=True), Stretch(1, 100, 1, wants_logits=True)])
    many = cost.decode_time([Stretch(0, 100, 96, wants_logits=False)])
    assert min(one, two) > 100  # beside other tests, one row may seem slower than two
    assert max(one, two) < many < 20_000_000
    assert cost.host.token > 0
