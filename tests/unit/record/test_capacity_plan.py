from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from arriero.core.errors import DataError
from arriero.metrics.client_figures import ClientSlos
from arriero.record.capacity_plan import (
    Candidate,
    CapacityPlan,
    PlanSettings,
    PlanWorkload,
    Prospect,
    Tried,
    best_of,
    encode_plan,
    plan_run,
    read_plan,
)
from tests.unit.record.validation_files import PROFILE


def candidate(rate: float, *, sequences: int = 2, attainment: float = 0.97) -> Candidate:
    return Candidate(
        settings=PlanSettings(
            policy="fcfs", sequences=sequences, ctx_size=512, prefill_rows_per_step=None, itl_target=None
        ),
        rate_per_s=rate,
        attainment=attainment if rate else None,
        saturation_per_s=4.0,
        is_saturated=False,
        tried=(
            Tried(rate_per_s=rate or 1.0, attainment=attainment if rate else 0.2),
            Tried(rate_per_s=4.0, attainment=0.1),
        ),
    )


def plan(*candidates: Candidate) -> CapacityPlan:
    best = best_of(candidates)
    return CapacityPlan(
        run=plan_run(("arriero", "plan", "40x8")),
        model="small",
        workload=PlanWorkload(
            name="40x8", sha256="c" * 64, requests=30, left_out=0, prompt_tokens=1200, output_tokens=240, longest=48,
            own_rate_per_s=None, arrivals="poisson", seed=0,
        ),
        profile=PROFILE,
        slos=ClientSlos(ttft_ns=10**9),
        share=0.95,
        candidates=candidates,
        best=best,
        prospect=None if best is None else Prospect(figures={"requests/s": 2.0, "TTFT p99 ms": None}, outside={}),
        error_bars=None,
    )  # fmt: skip


def test_a_plan_comes_back_as_it_was_written(tmp_path: Path) -> None:
    made = plan(candidate(2.0), candidate(3.0, sequences=4), candidate(0.0))
    path = tmp_path / "plan.json"
    path.write_bytes(encode_plan(made))
    assert read_plan(path) == made
    assert encode_plan(read_plan(path)) == path.read_bytes()


def test_the_best_is_the_highest_rate_and_of_equals_the_first() -> None:
    assert best_of((candidate(2.0), candidate(3.0), candidate(3.0))) == 1
    assert best_of((candidate(0.0), candidate(0.0))) is None
    assert best_of(()) is None


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (replace(plan(candidate(2.0)), candidates=()), "candidates: a plan has at least one"),
        (replace(plan(candidate(2.0), candidate(3.0)), best=0), "best: 0 is not the candidate"),
        (replace(plan(candidate(2.0)), prospect=None), "prospect: goes with the best"),
        (plan(replace(candidate(2.0), rate_per_s=2.5)), r"candidates\[0\].rate_per_s: was not tried"),
        (plan(candidate(2.0, attainment=0.5)), r"candidates\[0\].rate_per_s: does not reach the share"),
    ],
    ids=["none", "other-best", "no-prospect", "not-tried", "below-the-share"],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, made: CapacityPlan, says: str) -> None:
    with pytest.raises(DataError, match=says):
        encode_plan(made)
    path = tmp_path / "plan.json"
    path.write_bytes(msgspec.json.encode(made))
    with pytest.raises(DataError, match=says):
        read_plan(path)
