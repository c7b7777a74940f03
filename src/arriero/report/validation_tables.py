"""Tables of a validation: errors beside the noise they are judged by; each caption says what its figures are."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from arriero.record.validation import Compared, ValidatedLoad, Validation, goal_of, is_met
from arriero.report.document import Column, Table
from arriero.report.written import UNDEFINED, Unit, written

_LABELS: Final[Mapping[str, str]] = MappingProxyType({
    "ttft": "TTFT",
    "itl": "ITL",
    "e2e": "E2E",
    "step": "step",
    "output_tokens_per_s": "output tokens/s",
    "requests_per_s": "requests/s",
})
_FIRST: Final = (
    ("ttft", "p50"), ("ttft", "p90"), ("itl", "p50"), ("itl", "p99"), ("e2e", "p50"), ("e2e", "p90"),
    ("output_tokens_per_s", "rate"),
)  # fmt: skip
"""Figures of the table that is read first."""
_MET: Final[Mapping[bool | None, str]] = MappingProxyType({True: "met", False: "missed", None: ""})


def error_table(validation: Validation) -> Table:
    """The figures that are read first, one row a load."""
    columns = (
        Column("load", is_number=False),
        Column("requests/s"),
        *(Column(figure_label(f"{metric}.{figure}")) for metric, figure in _FIRST),
    )
    rows = tuple(
        (
            load_name(load),
            written(load.rate_per_s, Unit.RATE),
            *(_with_noise(_found(load, metric, figure)) for metric, figure in _FIRST),
        )
        for load in validation.loads
    )
    caption = f"Error of the simulation, in brackets the noise of the engine ({_kinds(validation)})"
    return Table(columns, rows, caption)


def levelled_table(validation: Validation) -> Table:
    """The same at the speed that the machine had in each run, which is in the second column."""
    figures = (("step", "mean"), *_FIRST)
    columns = (
        Column("load", is_number=False),
        Column("steps took / predicted, each run"),
        *(Column(figure_label(f"{metric}.{figure}")) for metric, figure in figures),
    )
    rows = tuple(
        (
            load_name(load),
            ", ".join(f"{each:.3f}" for each in load.slowness),
            *(signed(_levelled(load, metric, figure)) for metric, figure in figures),
        )
        for load in validation.loads
    )
    caption = "Error at the speed that the machine had in each run, mean of the runs"
    return Table(columns, rows, f"{caption} ({_kinds(validation)})")


def capacity_table(validation: Validation) -> Table:
    """How much was served of too much."""
    columns = (
        Column("workload", is_number=False), Column("measured, each run"), Column("simulated"), Column("error"),
        Column("noise"),
    )  # fmt: skip
    rows = tuple(
        (
            name,
            _values(each.measured, Unit.RATE),
            written(each.simulated, Unit.RATE),
            signed(each.error),
            written(each.noise, Unit.SHARE),
        )
        for name, each in validation.capacities.items()
    )
    caption = f"Capacity: output tokens/s while more was offered than could be served ({_kinds(validation)})"
    return Table(columns, rows, caption)


def figure_table(load: ValidatedLoad, validation: Validation) -> Table:
    """Every figure of one load."""
    has_peer = validation.peer is not None
    columns = (
        Column("figure", is_number=False), Column("measured, each run"), Column("simulated"), Column("error"),
        Column("noise"), Column("goal"), Column("error and goal", is_number=False),
        *((Column("peer, measured"),) if has_peer else ()),
    )  # fmt: skip
    rows: list[tuple[str, ...]] = []
    for each in load.compared:
        unit = Unit.TIME if each.unit == "ms" else Unit.RATE
        label = figure_label(f"{each.metric}.{each.figure}")
        cells = (
            f"{label} (ms)" if each.unit == "ms" else label,
            _values(each.measured, unit),
            _value(each.simulated, unit),
            signed(each.error),
            written(each.noise, Unit.SHARE),
            "" if (goal := goal_of(each)) is None else written(goal, Unit.SHARE),
            _MET[is_met(each)],
        )
        rows.append((*cells, _value(each.peer, unit)) if has_peer else cells)
    caption = f"{load_name(load)}, {load.rate_per_s:.2f} requests/s ({_kinds(validation)})"
    return Table(columns, tuple(rows), caption)


def step_table(validation: Validation) -> Table:
    """How far predictions of single steps are off."""
    columns = (
        Column("load", is_number=False), Column("steps", is_number=False), Column("n"), Column("median error"),
        Column("median size of errors"), Column("p90 of sizes"), Column("all together"), Column("noise"),
        Column("outside the calibrated range"),
    )  # fmt: skip
    rows = tuple(
        (
            load_name(load),
            each.kind.value,
            written(each.num_steps, Unit.COUNT),
            signed(each.bias),
            written(each.typical, Unit.SHARE),
            written(each.p90, Unit.SHARE),
            signed(each.total),
            written(each.noise, Unit.SHARE),
            written(each.outside, Unit.SHARE),
        )
        for load in validation.loads
        for each in load.steps
    )
    errors = "measured / predicted - 1; all together: predicted / measured - 1"
    return Table(columns, rows, f"Single steps ({_kinds(validation)}): {errors}")


def load_table(validation: Validation) -> Table:
    """What was asked of the engine and of the simulator alike."""
    columns = (
        Column("load", is_number=False), Column("requests"), Column("prompt tokens"), Column("output tokens"),
        Column("validity of each run", is_number=False),
    )  # fmt: skip
    rows = tuple(
        (
            load_name(load),
            written(load.requests, Unit.COUNT),
            written(load.prompt_tokens, Unit.COUNT),
            written(load.output_tokens, Unit.COUNT),
            ", ".join(each.flag.value for each in load.validity),
        )
        for load in validation.loads
    )
    caption = f"What was asked, and whether the generator kept its schedule ({validation.evidence.value})"
    return Table(columns, rows, caption)


def outside_table(loads: Sequence[ValidatedLoad]) -> Table | None:
    """Simulated steps that the costs are guesses for; None without any."""
    rows = tuple(
        (load_name(load), name, written(share, Unit.SHARE)) for load in loads for name, share in load.outside.items()
    )
    columns = (
        Column("load", is_number=False), Column("beyond what was calibrated", is_number=False),
        Column("share of the steps"),
    )  # fmt: skip
    return Table(columns, rows, "Simulated steps outside the calibrated range (SIMULATED)") if rows else None


def sensitivity_table(validation: Validation) -> Table:
    """What each coefficient moves."""
    names = list(validation.sensitivities[0].effects) if validation.sensitivities else []
    columns = (Column("coefficient", is_number=False), *(Column(figure_label(name)) for name in names))
    rows = tuple(
        (f"`{each.coefficient}`", *(signed(each.effects.get(name)) for name in names))
        for each in validation.sensitivities
    )
    larger = f"each coefficient larger by {100 * validation.change:.0f} %"
    return Table(columns, rows, f"Changes of figures of {validation.sensitivity_load}, {larger} (SIMULATED)")


def load_name(load: ValidatedLoad) -> str:
    """Workload and level in words."""
    return f"{load.workload}, {load.level} saturation"


def figure_label(name: str) -> str:
    """A metric and which figure of it, in words; a rate needs no figure."""
    metric, _, figure = name.partition(".")
    label = _LABELS.get(metric, metric)
    return label if figure in {"", "rate"} else f"{label} {figure}"


def signed(value: float | None) -> str:
    """An error or a change with its sign."""
    return UNDEFINED if value is None else f"{100 * value:+.1f} %"


def _kinds(validation: Validation) -> str:
    return f"SIMULATED against {validation.evidence.value}"


def _found(load: ValidatedLoad, metric: str, figure: str) -> Compared | None:
    return next((each for each in load.compared if (each.metric, each.figure) == (metric, figure)), None)


def _levelled(load: ValidatedLoad, metric: str, figure: str) -> float | None:
    return next((each.error for each in load.levelled if (each.metric, each.figure) == (metric, figure)), None)


def _with_noise(each: Compared | None) -> str:
    if each is None or each.error is None:
        return UNDEFINED
    return f"{signed(each.error)} ({written(each.noise, Unit.SHARE)})"


def _values(values: Sequence[float | None], unit: Unit) -> str:
    return ", ".join(_value(each, unit) for each in values)


def _value(value: float | None, unit: Unit) -> str:
    """Latencies are kept in milliseconds here; the writer takes microseconds."""
    return written(value * 1e3 if value is not None and unit is Unit.TIME else value, unit)
