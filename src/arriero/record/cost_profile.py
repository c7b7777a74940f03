"""CostProfile: what a calibration found, schema `arriero-cost-profile-v1`, one JSON file.

A profile belongs to a machine, a model and a context; their facts stand in it as words, so that whoever reads it can
say in what another machine differs. Times are microseconds.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from arriero.core.errors import ConfigError, DataError
from arriero.core.option_kinds import Threads
from arriero.costmodel.calibrated import CalibratedCost, StepKind
from arriero.costmodel.passes import PassRules
from arriero.record.cost_parts import (
    CostSetup,
    Host,
    Rules,
    ThreadCosts,
    UsedThreads,
    Valid,
    cost_from,
    cost_setup,
    rules_part,
)
from arriero.record.machine import MachineFacts
from arriero.record.machine_load import LoadFacts
from arriero.record.strict import Name, Positive, convert, read_table

SCHEMA: Final = "arriero-cost-profile-v1"

Share = Annotated[float, Meta(ge=0, le=1)]
_MOST_SPREAD: Final = 0.5


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file."""


class Fingerprint(_Part, frozen=True, kw_only=True):
    """What has to be equal for the costs to hold, by name, in words.

    Attributes:
        machine: CPU, cores, limits, instruction sets of the build.
        model: what was computed.
        context: layout, attention, KV type, devices.
    """

    machine: dict[Name, str]
    model: dict[Name, str]
    context: dict[Name, str]

    def differences(self, here: "Fingerprint") -> list[str]:
        """One phrase for each fact that is otherwise here: its value in the profile, then ours."""
        found: list[str] = []
        for part in ("machine", "model", "context"):
            ours: dict[str, str] = getattr(here, part)
            theirs: dict[str, str] = getattr(self, part)
            names = [*theirs, *(name for name in ours if name not in theirs)]
            found += [
                f"{name}: {theirs.get(name, 'unknown')} in the profile, {ours.get(name, 'unknown')} here"
                for name in names
                if theirs.get(name) != ours.get(name)
            ]
        return found


class Residuals(_Part, frozen=True, kw_only=True):
    """How far predictions are from measurements, for one number of threads and one kind of step.

    Errors are (median of a shape's times - prediction) / prediction, at the machine's usual speed: what it was slower
    or faster by for a while, whatever was computed, is taken out of the times.

    Attributes:
        threads: that computed.
        kind: of step.
        held_out: whether these shapes were kept out of the fit; then it is an error of prediction, else one of fit.
        num_shapes: different shapes.
        num_samples: measured steps.
        bias: median of the errors.
        typical: median of their sizes.
        p90: of their sizes.
        worst: the largest size.
        noise: median over shapes of the spread of one shape's times: median absolute deviation / median.
        outliers: share of the steps that took 1.5 times their shape's median or more.
    """

    threads: Positive
    kind: StepKind
    held_out: bool
    num_shapes: Positive
    num_samples: Positive
    bias: float
    typical: float
    p90: float
    worst: float
    noise: float
    outliers: Share


class Measuring(_Part, frozen=True, kw_only=True):
    """How it was measured.

    Attributes:
        made_at: date and time, with its zone.
        seconds: from the first step to the last.
        num_rounds: how often every shape came.
        num_samples: measured steps.
        load: what the machine was busy with meanwhile; null where that cannot be read.
        busy: why the figures are doubtful, or null: others used the machine before or meanwhile.
        late: by which part the machine was slower than usual for one second in twenty, whatever was computed.
        version: of arriero.
        library: what computed, with its version.
    """

    made_at: Name
    seconds: Annotated[float, Meta(ge=0)]
    num_rounds: Positive
    num_samples: Positive
    load: LoadFacts | None
    busy: str | None
    version: Name
    library: Name
    late: Annotated[float, Meta(ge=0)] = 0.0


class CostProfile(_Part, frozen=True, kw_only=True):
    """One calibration."""

    schema_version: Literal["arriero-cost-profile-v1"] = "arriero-cost-profile-v1"
    name: Name
    fingerprint: Fingerprint
    rules: Rules
    threads: UsedThreads
    passes: tuple[ThreadCosts, ...]
    host: Host
    valid: Valid
    residuals: tuple[Residuals, ...]
    measuring: Measuring
    machine: MachineFacts


def cost_of(profile: CostProfile, *, threads: Threads | None = None, rules: PassRules | None = None) -> CalibratedCost:
    """The cost model; its spread is the error of prediction that nine of ten new shapes kept within, and `late`.

    Args:
        profile: where the costs come from.
        threads: that compute; None: as in the profile.
        rules: of the context that computes, which may cut otherwise than the calibrated one; None: as there.

    Raises:
        ConfigError: nothing was measured at these threads.
        DataError: a term is unknown.
    """
    used = threads or Threads(profile.threads.decode, profile.threads.prefill)
    setup = CostSetup(
        rules=profile.rules if rules is None else rules_part(rules),
        threads=UsedThreads(decode=used.decode, prefill=used.prefill),
        passes=list(profile.passes),
        host=profile.host,
        valid=profile.valid,
        spread=_spread(profile.residuals, used, profile.measuring.late),
    )
    return cost_from(setup)


def _spread(residuals: Sequence[Residuals], threads: Threads, late: float) -> float:
    """What a promise about steps with prompts has to allow for: how far shapes are mistaken, and a slow machine."""
    found = [
        each.p90
        for each in residuals
        if each.held_out and each.kind is StepKind.MIXED and each.threads == threads.prefill
    ]
    return min(max([0.0, *found]) + late, _MOST_SPREAD)


def profile_of(
    cost: CalibratedCost,
    *,
    name: str,
    fingerprint: Fingerprint,
    residuals: Sequence[Residuals],
    measuring: Measuring,
    machine: MachineFacts,
) -> CostProfile:
    """A profile that says what a cost model says, and where it comes from."""
    setup = cost_setup(cost)
    return CostProfile(
        name=name,
        fingerprint=fingerprint,
        rules=setup.rules,
        threads=setup.threads,
        passes=tuple(ThreadCosts(threads=each.threads, terms_us=_digits(each.terms_us)) for each in setup.passes),
        host=setup.host,
        valid=setup.valid,
        residuals=tuple(residuals),
        measuring=measuring,
        machine=machine,
    )


def read_cost_profile(path: Path) -> CostProfile:
    """Read a profile; nothing in it may be missing, unknown or impossible.

    Raises:
        DataError: names file, field and remedy.
    """
    file = str(path)
    profile = convert(read_table(path), CostProfile, file=file)
    numbers = [each.threads for each in profile.passes]
    if len(set(numbers)) != len(numbers):
        raise DataError("passes: one number of threads stands twice; take one out", file=file, field="passes")
    try:
        cost_of(profile)
    except DataError as error:
        raise DataError(f"passes: {error}", file=file, field="passes") from None
    except ConfigError as error:
        raise DataError(f"threads: {error}", file=file, field="threads") from None
    return profile


def encode_cost_profile(profile: CostProfile) -> bytes:
    """The file's text."""
    return msgspec.json.format(msgspec.json.encode(profile), indent=2) + b"\n"


def _digits(terms: Mapping[str, float]) -> dict[str, float]:
    """Six digits are more than a clock gives."""
    return {name: float(f"{value:.6g}") for name, value in terms.items() if value}
