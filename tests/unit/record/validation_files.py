"""A small validation and a small plan, for tests of their files and reports."""

from datetime import UTC, datetime
from typing import Any

from arriero.core.ids import RequestId
from arriero.costmodel.calibrated import StepKind
from arriero.metrics.validity import judge_validity
from arriero.record.bench_parts import Evidence, TargetFacts
from arriero.record.bench_result_run import run_facts
from arriero.record.machine import machine_facts
from arriero.record.profile_facts import ProfileFacts
from arriero.record.validation import (
    Decisions,
    LoadLevel,
    Sensitivity,
    StepErrors,
    ValidatedLoad,
    Validation,
    compared,
    levelled,
)

VALID = judge_validity([])
PROFILE = ProfileFacts(file="cost.json", sha256="b" * 64, model="small", threads="2", busy=None)


def load(level: LoadLevel = LoadLevel.AT, **more: Any) -> ValidatedLoad:  # noqa: ANN401 - its fields
    values: dict[str, Any] = {
        "workload": "chat",
        "level": level,
        "rate_per_s": 3.5,
        "saturation": 1.0,
        "requests": int(RequestId(40)),
        "prompt_tokens": 900,
        "output_tokens": 400,
        "schedule_sha256": "a" * 64,
        "validity": (VALID, VALID),
        "compared": (
            compared("ttft", "p50", "ms", measured=[100.0, 120.0], simulated=121.0),
            compared("ttft", "p99", "ms", measured=[None, None], simulated=300.0),
            compared("output_tokens_per_s", "rate", "per_s", measured=[50.0, 50.0], simulated=45.0),
        ),
        "slowness": (1.1, 0.9),
        "levelled": (
            levelled("ttft", "p50", "ms", measured=[100.0, 120.0], simulated=[110.0, 108.0]),
            levelled("output_tokens_per_s", "rate", "per_s", measured=[50.0, 50.0], simulated=[49.0, 50.0]),
        ),
        "steps": (
            StepErrors(
                kind=StepKind.DECODE,
                num_steps=9,
                bias=0.01,
                typical=0.02,
                p90=0.04,
                total=-0.01,
                noise=0.03,
                outside=0.0,
            ),
        ),
        "decisions": (Decisions(steps=31, requests=40, difference=None),) * 2,
        "outside": {},
    }
    return ValidatedLoad(**{**values, **more})


def validation(**more: Any) -> Validation:  # noqa: ANN401 - its fields
    values: dict[str, Any] = {
        "validity": VALID,
        "evidence": Evidence.MEASURED,
        "run": run_facts(["arriero", "sim", "validate"], started_at=datetime(2026, 1, 2, tzinfo=UTC), seconds=3.0),
        "machine": machine_facts(),
        "target": TargetFacts(name="in-process", kind="in-process", model="small"),
        "profile": PROFILE,
        "differences": (),
        "loads": tuple(map(load, LoadLevel)),
        "capacities": {"chat": compared("output_tokens_per_s", "rate", "per_s", measured=[50.0, 52.0], simulated=45.9)},
        "sensitivities": (Sensitivity(coefficient="pass", effects={"ttft.p50": 0.05, "itl.p99": None}),),
        "sensitivity_load": "chat, at saturation",
        "change": 0.1,
    }
    return Validation(**{**values, **more})
