"""How a plan is shown, and what it recommends."""

import shlex
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from arriero.cli.plan_config import as_flags, settings_of
from arriero.core.config import ServeConfig
from arriero.core.option import Plain
from arriero.record.capacity_plan import Candidate, CapacityPlan

_ALWAYS: Final = frozenset({"model", "sequences", "ctx_size", "policy", "cost_profile"})
IMPORTED: Final = "planned.jsonl"
"""Where a trace or a journal goes that is asked of a server."""
SERVED: Final = "http://127.0.0.1:8080"
_MOST_ROWS: Final = 24
"""Candidates that are shown, the best first; the file has all."""


def recommended(config: ServeConfig, profile: str) -> dict[str, Plain]:
    """The settings of a server like this; the profile is said, so that it plans with the same costs."""
    return settings_of(_with_profile(config, profile), _ALWAYS)


def serve_line(config: ServeConfig, profile: str) -> str:
    """The command that starts it."""
    served = _with_profile(config, profile)
    return f"arriero serve {as_flags(served, settings_of(served, _ALWAYS))}"


def heading(plan: CapacityPlan) -> tuple[str, ...]:
    """What stands at the top of a configuration that a plan wrote."""
    assert plan.best is not None, "only the best one is written"
    best = plan.candidates[plan.best]
    return (
        f"Planned for {plan.workload.name}: {best.rate_per_s:.3g} requests/s{_bars(plan)}, simulated.",
        f"{plan.share:.0%} of the requests within {_objectives(plan)}.",
        f"Costs of steps: {plan.profile.file}, {plan.profile.threads} threads.",
    )


def plan_lines(plan: CapacityPlan) -> Iterator[str]:
    """The workload, the candidates from the best on, and what the best one does."""
    work = plan.workload
    own = "" if work.own_rate_per_s is None else f", {work.own_rate_per_s:.3g}/s of their own"
    yield (
        f"{work.name}: {work.requests:,} requests ({work.left_out:,} left out), {work.prompt_tokens:,} prompt and "
        f"{work.output_tokens:,} output tokens{own}; arrivals: {work.arrivals}"
    )
    yield f"at least {plan.share:.0%} of the submitted within {_objectives(plan)}; SIMULATED on {plan.profile.file}"
    if plan.profile.busy is not None:
        yield f"doubtful: {plan.profile.busy}"
    yield _row("sequences", "policy", "prompt rows", "target ms", "cells", "saturation/s", "attained", "rate/s")
    order = sorted(range(len(plan.candidates)), key=lambda place: (-plan.candidates[place].rate_per_s, place))
    for place in order[:_MOST_ROWS]:
        yield _candidate_line(plan.candidates[place], is_best=place == plan.best)
    if len(order) > _MOST_ROWS:
        yield f"... and {len(order) - _MOST_ROWS} more in the file"
    yield from _best_lines(plan)


def live_lines(plan: CapacityPlan, flags: Namespace, *, is_journal: bool) -> Iterator[str]:
    """The commands that ask a server for the planned rate, with the same requests.

    Args:
        plan: with a best candidate.
        flags: of the command that made it.
        is_journal: whether its workload is a journal.
    """
    assert plan.best is not None, "only a rate can be asked for"
    work, rate, source = plan.workload, plan.candidates[plan.best].rate_per_s, str(flags.workload)
    if flags.trace is not None or is_journal:
        words = ["arriero", "workload", "import", flags.trace or "journal", source]
        for name in ("scale", "output_scale", "context"):
            if getattr(flags, name) is not None:
                words += [f"--{name.replace('_', '-')}", str(getattr(flags, name))]
        yield shlex.join([*words, "--out", IMPORTED])
        source = IMPORTED
    pace = ["--rate", f"{rate:.4g}", "--seed", str(work.seed)]
    if work.arrivals == "own" and work.own_rate_per_s:
        pace = ["--replay", "--speed", f"{rate / work.own_rate_per_s:.4g}"]
    asked = ["arriero", "bench", "run", source, "--target", SERVED, *pace, "--requests", str(work.requests)]
    whole = [] if is_journal else ["--ignore-eos"]  # a journal's answers end where the model ends them
    yield shlex.join([*asked, *whole, *_slo_flags(plan)])


def _slo_flags(plan: CapacityPlan) -> Iterator[str]:
    slos = plan.slos
    for name, bound in (
        ("ttft", slos.ttft_ns), ("tpot", slos.tpot_ns), ("e2e", slos.e2e_ns), ("gap", slos.largest_gap_ns),
    ):  # fmt: skip
        if bound is not None:
            yield from (f"--slo-{name}", f"{bound / 1e6:g}")


def _best_lines(plan: CapacityPlan) -> Iterator[str]:
    if plan.best is None or plan.prospect is None:
        yield "no candidate keeps the objectives at any rate; loosen them, or shorten the requests"
        return
    best = plan.candidates[plan.best]
    why = "the machine is the limit" if best.is_saturated else "more would break the objectives"
    yield f"sustainable: {best.rate_per_s:.3g} requests/s{_bars(plan)}; {why}"
    for name, value in plan.prospect.figures.items():
        yield f"  {name:<26}{'-' if value is None else f'{value:,.2f}':>12}"
    for name, part in plan.prospect.outside.items():
        yield f"  {part:.1%} of its steps lie beyond what was calibrated in {name}: they are guesses"


def _candidate_line(candidate: Candidate, *, is_best: bool) -> str:
    settings = candidate.settings
    if candidate.refused is not None:
        return f"{settings.sequences:>10}  {settings.policy}: {candidate.refused}"
    line = _row(
        str(settings.sequences),
        settings.policy,
        _or_none(settings.prefill_rows_per_step),
        _or_none(settings.itl_target),
        str(settings.ctx_size),
        f"{candidate.saturation_per_s:.3g}",
        "-" if candidate.attainment is None else f"{candidate.attainment:.1%}",
        f"{candidate.rate_per_s:.3g}",
    )
    return f"{line}{'  <- best' if is_best else ''}{'  (saturated)' if candidate.is_saturated else ''}"


def _row(*cells: str) -> str:
    widths = (10, 18, 13, 11, 9, 14, 10, 9)
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _or_none(value: int | None) -> str:
    return "-" if value is None else str(value)


def _bars(plan: CapacityPlan) -> str:
    bars = plan.error_bars
    if bars is None:
        return ""
    return f" ({bars.low_per_s:.3g} to {bars.high_per_s:.3g}, costs off by {bars.cost_error:.0%})"


def _objectives(plan: CapacityPlan) -> str:
    slos = plan.slos
    named = (
        ("TTFT", slos.ttft_ns), ("TPOT", slos.tpot_ns), ("E2E", slos.e2e_ns), ("largest gap", slos.largest_gap_ns),
    )  # fmt: skip
    return ", ".join(f"{name} {bound / 1e6:g} ms" for name, bound in named if bound is not None)


def _with_profile(config: ServeConfig, profile: str) -> ServeConfig:
    return replace(config, cost_profile=profile)
