"""Workload values that several tests start from."""

from typing import Any

from arriero.workload.records import WorkloadClass, WorkloadRecord
from arriero.workload.tokens import PackedTokens

SCHEMA = "serving-workload-v1"


def record(
    request_id: str = "a", arrival_time_us: int = 0, tokens: list[int] | None = None, **more: object
) -> WorkloadRecord:
    values: dict[str, Any] = {
        "prompt_token_count": 3 if tokens is None else len(tokens),
        "max_new_tokens": 2,
        "workload_class": WorkloadClass.MIXED,
        "prompt_tokens": None if tokens is None else PackedTokens(tokens),
        **more,
    }
    return WorkloadRecord(request_id=request_id, arrival_time_us=arrival_time_us, **values)


def composed(**changes: object) -> dict[str, Any]:
    """Settings of the composed generator, with exact prompts."""
    return {
        "schema_version": SCHEMA,
        "generator": "arriero-composed-v1",
        "workload_class": "mixed",
        "request_count": 200,
        "seed": 5,
        "arrival": {"mode": "poisson", "rate_per_s": 20},
        "prompt_length": {"distribution": "uniform", "low": 4, "high": 12},
        "output_length": {"distribution": "uniform", "low": 1, "high": 8},
        "tokens": {"first_token": 100, "size": 5000},
        **changes,
    }
