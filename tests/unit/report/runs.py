"""Runs that never ran: requests and steps from seeded formulas."""

import random
from collections.abc import Mapping

import numpy as np

from arriero.metrics.latency import Life
from arriero.metrics.served import Outcome
from arriero.metrics.steps import StepTally
from arriero.report.columns import Asked, RequestTable, StepTable
from arriero.report.run_view import (
    COSTS,
    LIMITS,
    MEMORY,
    OBJECTIVES,
    PLANNER,
    SEED,
    WORKLOAD,
    Fact,
    RunLimits,
    RunView,
)

TRAITS: Mapping[str, str | None] = {
    WORKLOAD: "a" * 64, SEED: "1", COSTS: "base_us: 100.0", OBJECTIVES: "ttft_us: 900", LIMITS: "rows: 64",
    MEMORY: "num_cells: 512", PLANNER: "decode-first",
}  # fmt: skip


def asked(draw: random.Random, arrival: int) -> Asked:
    """One request; one in twelve is rejected, one in twelve never starts."""
    fate = draw.randrange(12)
    prompt = draw.randint(1, 40)
    if fate == 0:
        return Asked(
            life=Life(arrival, None, None, None, 0), outcome=Outcome.REJECTED.value, token_at=[], prompt_tokens=prompt,
            ended_at=arrival,
        )  # fmt: skip
    if fate == 1:
        return Asked(
            life=Life(arrival, None, None, None, 0), outcome=Outcome.UNFINISHED.value, token_at=[], prompt_tokens=prompt
        )
    started = arrival + draw.randint(0, 600)
    times = [started + draw.randint(50, 200)]
    for _ in range(draw.randint(0, 9)):
        times.append(times[-1] + draw.choice((10, 12, 15, 90)))
    return Asked(
        life=Life(arrival, started, times[0], times[-1], len(times)),
        outcome=Outcome.FINISHED.value,
        token_at=times,
        prompt_tokens=prompt,
        cached_tokens=draw.randint(0, prompt),
        preemptions=int(fate == 2),
        recomputed_tokens=7 * int(fate == 2),
        looked_up=True,
    )


def made(num: int, seed: int = 1) -> list[Asked]:
    draw = random.Random(seed)
    arrival = 0
    found: list[Asked] = []
    for _ in range(num):
        arrival += draw.randint(1, 120)
        found.append(asked(draw, arrival))
    return found


def run_view(
    name: str = "made",
    num: int = 24,
    *,
    seed: int = 1,
    num_steps: int = 40,
    traits: Mapping[str, str | None] = TRAITS,
    evidence: str = "SIMULATED",
) -> RunView:
    """A run with its steps; without any if `num_steps` is 0."""
    draw = random.Random(seed)
    table, steps, tally = RequestTable(), StepTable(), StepTally(64, 512)
    for each in made(num, seed):
        table.add(each)
    requests = table.columns()
    at = 0
    for _ in range(num_steps):
        gap, duration = draw.choice((0, 0, 25)), draw.randint(1, 120)
        if gap:
            tally.idle(gap)
        began, at = at + gap, at + gap + duration
        values = {
            "prefill_rows": draw.randint(0, 30), "decode_rows": draw.randint(0, 8), "num_running": draw.randint(1, 8),
            "num_waiting": draw.randint(0, 5), "kv_held": draw.randint(0, 500),
        }  # fmt: skip
        steps.add(began, at, values)
        tally.step(
            duration, rows=values["prefill_rows"] + values["decode_rows"], sequences=values["num_running"],
            waiting=values["num_waiting"], kv_held=values["kv_held"], kv_tokens=values["kv_held"],
        )  # fmt: skip
    ended = requests.moments["ended"]
    last = float(ended[~np.isnan(ended)].max(initial=0.0))
    return RunView(
        name=name,
        evidence=evidence,
        facts=(Fact("result file", f"{name}.jsonl"), Fact("workload sha256", str(traits[WORKLOAD]))),
        traits=traits,
        limits=RunLimits(64, 8, 512, "cells"),
        objectives={"ttft": 900.0},
        steps=steps.columns(),
        requests=requests,
        ended_at=max(last, float(at)),
        step_figures=tally.figures(),
        evictions=3,
        notes=() if num_steps else ("no steps; `--trace counts` records them.",),
    )
