"""CapacityPlan: what a plan found, schema `arriero-plan-v1`, one JSON file.

Everything in it is simulated. It holds no time of day and no absolute path, so the same plan gives the same bytes, but
for the revision's state.
"""

from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta

from arriero.core.version import VERSION
from arriero.metrics.client_figures import ClientSlos
from arriero.record import bench_result_text as layout
from arriero.record.bench_parts import BenchPart
from arriero.record.bench_result import broken
from arriero.record.machine import python_version
from arriero.record.profile_facts import ProfileFacts
from arriero.record.provenance import code_sha256, portable_command, revision
from arriero.record.strict import Count, Name, Positive, Sha256

SCHEMA: Final = "arriero-plan-v1"

Rate = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Arrivals: TypeAlias = Literal["own", "poisson"]
"""As the requests have them, stretched to a rate, or by chance."""


class PlanRun(BenchPart, frozen=True, kw_only=True):
    """How the plan came about: what decides its figures.

    Attributes:
        command: the words that started it, without absolute paths.
        version, code_sha256: of arriero.
        revision: of its checkout; null for an installed package.
        is_dirty: the checkout differs from its revision, or it cannot be told.
    """

    command: tuple[str, ...]
    version: Name
    code_sha256: Sha256
    revision: str | None
    is_dirty: bool
    python: Name


class PlanWorkload(BenchPart, frozen=True, kw_only=True):
    """What is asked.

    Attributes:
        name: of the file, the trace or the generator.
        sha256: of the file's bytes, or of the settings.
        requests: that were simulated.
        left_out: of the file, beyond the number asked for or longer than the context.
        prompt_tokens, output_tokens: of all of them.
        longest: prompt and output of the longest one.
        own_rate_per_s: as their arrivals stand; null where they have none.
        arrivals: their own, stretched, or by chance.
        seed: of chance.
        scale: by which lengths of a trace were divided.
    """

    name: Name
    sha256: Sha256
    requests: Positive
    left_out: Count
    prompt_tokens: Count
    output_tokens: Count
    longest: Count
    own_rate_per_s: float | None
    arrivals: Arrivals
    seed: Count
    scale: Positive = 1


class Tried(BenchPart, frozen=True, kw_only=True):
    """One rate that was simulated."""

    rate_per_s: Rate
    attainment: Share


class PlanSettings(BenchPart, frozen=True, kw_only=True):
    """What is different from candidate to candidate, as `arriero serve` takes it; null: no limit, or no target."""

    policy: Name
    sequences: Positive
    ctx_size: Positive
    prefill_rows_per_step: Positive | None
    itl_target: Positive | None


class Candidate(BenchPart, frozen=True, kw_only=True):
    """One configuration and what it sustains.

    Attributes:
        rate_per_s: the largest rate with enough attainment; 0 if there is none.
        attainment: at that rate; null without one.
        saturation_per_s: requests a second when there is always another one.
        is_saturated: the objectives hold up to saturation.
        tried: every rate that was simulated, ascending.
        refused: why it cannot serve at all; null if it can.
    """

    settings: PlanSettings
    rate_per_s: Rate
    attainment: Share | None
    saturation_per_s: Rate
    is_saturated: bool
    tried: tuple[Tried, ...]
    refused: str | None = None


class Prospect(BenchPart, frozen=True, kw_only=True):
    """What the best one does at its rate.

    Attributes:
        figures: name -> value; latencies in milliseconds, null where undefined or infinite.
        outside: in what steps lay outside the calibrated range -> the share of them.
    """

    figures: dict[str, float | None]
    outside: dict[str, Share]


class ErrorBars(BenchPart, frozen=True, kw_only=True):
    """How far the rate may be wrong.

    Attributes:
        validation: the file that says how far simulated capacities were off, without its folder.
        cost_error: by which every step was taken to be slower and faster.
        low_per_s, high_per_s: the sustainable rates then.
    """

    validation: Name
    sha256: Sha256
    cost_error: Annotated[float, Meta(ge=0)]
    low_per_s: Rate
    high_per_s: Rate


class CapacityPlan(BenchPart, frozen=True, kw_only=True):
    """A whole plan.

    Attributes:
        evidence: what its figures are.
        model: as `arriero serve` takes it.
        slos: objectives of one request.
        share: of the submitted requests that must keep all of them.
        candidates: at least one, in the order of their declaration.
        best: the place of the one with the highest rate among them; null if none sustains anything.
        prospect: of the best one.
        error_bars: null without a validation.
    """

    schema_version: Literal["arriero-plan-v1"] = SCHEMA
    evidence: Literal["SIMULATED"] = "SIMULATED"
    run: PlanRun
    model: Name
    workload: PlanWorkload
    profile: ProfileFacts
    slos: ClientSlos
    share: Share
    candidates: tuple[Candidate, ...]
    best: Count | None
    prospect: Prospect | None
    error_bars: ErrorBars | None


def plan_run(command: tuple[str, ...]) -> PlanRun:
    """The facts of this process."""
    state = revision()
    return PlanRun(
        command=tuple(portable_command(command)),
        version=VERSION,
        code_sha256=code_sha256(),
        revision=state.revision,
        is_dirty=state.is_dirty,
        python=python_version(),
    )


def best_of(candidates: tuple[Candidate, ...]) -> int | None:
    """The place of the highest rate, of equals the first declared; None if nobody sustains anything."""
    rates = [candidate.rate_per_s for candidate in candidates]
    highest = max(rates, default=0.0)
    return rates.index(highest) if highest > 0 else None


def encode_plan(plan: CapacityPlan, *, file: str = "plan") -> bytes:
    """The bytes of the file.

    Raises:
        DataError: it would not be accepted when read.
    """
    _check(plan, file)
    return layout.encode(plan, file=file)


def read_plan(path: Path) -> CapacityPlan:
    """Read and check a file.

    Raises:
        DataError: it cannot be read, a field is missing, unknown or impossible, or figures do not go together.
    """
    plan = layout.decode(layout.read(path), CapacityPlan, SCHEMA, file=str(path))
    _check(plan, str(path))
    return plan


def _check(plan: CapacityPlan, file: str) -> None:
    if not plan.candidates:
        raise broken(file, "candidates", "a plan has at least one; run again")
    if plan.best != best_of(plan.candidates):
        raise broken(file, "best", f"{plan.best} is not the candidate with the highest rate; run again")
    if (plan.prospect is None) != (plan.best is None):
        raise broken(file, "prospect", "goes with the best candidate and with nothing else; run again")
    for index, candidate in enumerate(plan.candidates):
        rates = [each.rate_per_s for each in candidate.tried]
        if candidate.rate_per_s and candidate.rate_per_s not in rates:
            raise broken(file, f"candidates[{index}].rate_per_s", "was not tried; run again")
        kept = [each.rate_per_s for each in candidate.tried if each.attainment >= plan.share]
        if candidate.rate_per_s and candidate.rate_per_s not in kept:
            raise broken(file, f"candidates[{index}].rate_per_s", "does not reach the share; run again")
