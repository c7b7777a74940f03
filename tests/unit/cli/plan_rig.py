"""A cost profile in a file, for tests of commands that rest on one."""

from pathlib import Path

from arriero.costmodel.calibrated import CalibratedCost
from arriero.record.cost_profile import Fingerprint, Measuring, encode_cost_profile, profile_of
from arriero.record.machine import machine_facts


def write_profile(path: Path, cost: CalibratedCost, *, busy: str | None = None) -> Path:
    profile = profile_of(
        cost,
        name="small",
        fingerprint=Fingerprint(machine={"cpu": "any"}, model={"kind": "a formula"}, context={"KV layout": "separate"}),
        residuals=(),
        measuring=Measuring(
            made_at="2026-01-02T00:00:00+00:00", seconds=1.0, num_rounds=3, num_samples=9, load=None, busy=busy,
            version="0", library="none",
        ),
        machine=machine_facts(),
    )  # fmt: skip
    path.write_bytes(encode_cost_profile(profile))
    return path
