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
from arriero.costmodel.calibrated import CalibratedCost, HostCosts, StepKind, ValidRange
from arriero.costmodel.passes import PassRules
from arriero.costmodel.terms import PassCosts
from arriero.record.machine import MachineFacts
from arriero.record.machine_load import LoadFacts
from arriero.record.strict import Count, Name, Positive, convert, read_table

SCHEMA: Final = "arriero-cost-profile-v1"

Microseconds = Annotated[float, Meta(ge=0, le=1e12)]
Share = Annotated[float, Meta(ge=0, le=1)]


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


class Rules(_Part, frozen=True, kw_only=True):
    """As `PassRules`."""

    micro_batch: Positive
    unified: bool
    stream_cells: Positive
    tile_rows: Positive
    cell_pad: Positive


class UsedThreads(_Part, frozen=True, kw_only=True):
    """For passes of one row, and for all others."""

    decode: Positive
    prefill: Positive


class ThreadCosts(_Part, frozen=True, kw_only=True):
    """Costs of a pass at one number of threads; a term that is missing costs nothing."""

    threads: Positive
    terms_us: dict[Name, Microseconds]


class Host(_Part, frozen=True, kw_only=True):
    """As `HostCosts`."""

    step_us: Microseconds = 0.0
    entry_us: Microseconds = 0.0
    token_us: Microseconds = 0.0
    delivery_us: Microseconds = 0.0


class Valid(_Part, frozen=True, kw_only=True):
    """As `ValidRange`."""

    rows: Positive
    sequences: Positive
    context: Positive
    pool: Count


class Residuals(_Part, frozen=True, kw_only=True):
    """How far predictions are from measurements, for one number of threads and one kind of step.

    Errors are (median of a shape's times - prediction) / prediction.

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
    """The cost model.

    Args:
        profile: where the costs come from.
        threads: that compute; None: as in the profile.
        rules: of the context that computes, which may cut otherwise than the calibrated one; None: as there.

    Raises:
        ConfigError: nothing was measured at these threads.
        DataError: a term is unknown.
    """
    cuts, valid, host = profile.rules, profile.valid, profile.host
    calibrated = PassRules(
        micro_batch=cuts.micro_batch,
        unified=cuts.unified,
        stream_cells=cuts.stream_cells,
        tile_rows=cuts.tile_rows,
        cell_pad=cuts.cell_pad,
    )
    return CalibratedCost(
        rules=rules or calibrated,
        passes={each.threads: PassCosts.of(each.terms_us) for each in profile.passes},
        threads=threads or Threads(profile.threads.decode, profile.threads.prefill),
        host=HostCosts(step=host.step_us, entry=host.entry_us, token=host.token_us, delivery=host.delivery_us),
        valid=ValidRange(rows=valid.rows, sequences=valid.sequences, context=valid.context, pool=valid.pool),
    )


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
    rules, valid, host = cost.rules, cost.valid, cost.host
    return CostProfile(
        name=name,
        fingerprint=fingerprint,
        rules=Rules(
            micro_batch=rules.micro_batch,
            unified=rules.unified,
            stream_cells=rules.stream_cells,
            tile_rows=rules.tile_rows,
            cell_pad=rules.cell_pad,
        ),
        threads=UsedThreads(decode=cost.threads.decode, prefill=cost.threads.prefill),
        passes=tuple(
            ThreadCosts(threads=number, terms_us=_digits(each.named)) for number, each in sorted(cost.passes.items())
        ),
        host=Host(step_us=host.step, entry_us=host.entry, token_us=host.token, delivery_us=host.delivery),
        valid=Valid(rows=valid.rows, sequences=valid.sequences, context=valid.context, pool=valid.pool),
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
