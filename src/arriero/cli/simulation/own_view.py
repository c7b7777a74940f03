"""Summaries of arriero's own mode in a terminal."""

from collections.abc import Mapping
from typing import Any, Final, cast

_LATENCIES: Final = ("queue_us", "ttft_us", "tpot_us", "e2e_us", "itl_max_us")
_COLUMNS: Final = ("n", "censored", "p50", "p90", "p95", "p99", "mean", "max")


def show(name: str, summary: Mapping[str, Any]) -> None:
    """Print one run, or what several seeds say together."""
    if "over_seeds" in summary:
        _show_seeds(name, summary)
        return
    counts, whole = summary["counts"], summary["whole_run"]
    print(f"{name}: {counts['finished']} of {counts['submitted']} requests finished")
    for mark in summary["marks"]:
        print(f"  {mark}")
    for field in ("requests_per_s", "output_tokens_per_s", "good_requests_per_s", "good_of_submitted"):
        print(f"  {field:<24} {_cell(whole[field])}")
    for field in ("batch_utilization", "kv_utilization", "idle_fraction", "mean_sequences"):
        print(f"  {field:<24} {_cell(summary['steps'][field])}")
    print(f"  {'token hit rate':<24} {_cell(summary['prefix_cache']['token_hit_rate'])}")
    print(f"  {'preemptions':<24} {summary['preemption']['preemptions']}")
    for who in ("finished", "all"):
        print(f"latency of {who} requests" + " ".join(f"{column:>10}" for column in _COLUMNS))
        for field in _LATENCIES:
            figures = summary["latency"][who][field]
            print(f"  {field:<24}" + " ".join(f"{_cell(figures[column]):>10}" for column in _COLUMNS))


def _show_seeds(name: str, summary: Mapping[str, Any]) -> None:
    share = f"{summary['confidence']:.0%}"
    print(f"{name}: {len(summary['seeds'])} seeds, mean and half the width of the {share} interval")
    for field, each in summary["over_seeds"].items():
        half = each["half_width"]
        print(f"  {field:<48} {each['mean']:14.4f}  +- {0.0 if half is None else half:12.4f}  n {each['num_runs']}")


def _cell(value: object) -> str:
    if isinstance(value, Mapping):  # undefined; the file says why
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(cast("int", value))
