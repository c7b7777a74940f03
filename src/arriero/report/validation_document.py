"""Sections of a validation: first how far off a simulation is, then everything that this rests on."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from arriero.core.version import VERSION
from arriero.record.validation import Compared, ValidatedLoad, Validation, goal_of, is_met
from arriero.report.bench_document import LEVELS, validity_alerts
from arriero.report.bench_facts import machine_rows, run_rows, target_rows
from arriero.report.document import (
    Alert,
    Badge,
    Column,
    Document,
    Facts,
    Level,
    Part,
    Section,
    Table,
    Text,
    present,
)
from arriero.report.written import UNDEFINED, Unit, written

MADE_BY: Final = f"Made by arriero {VERSION}."
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
_HOW: Final = (
    (
        "Every load was simulated from its schedule alone: no time that was measured goes into a prediction. An error "
        "is simulated / mean of the measured runs - 1; what stands behind it is the noise, (largest - smallest run) / "
        "mean. An error within the noise cannot be told from none."
    ),
    (
        "At saturation and above it a queue grows, and a small difference in capacity becomes a large one in TTFT: "
        "there the error of the capacity says more than that of a percentile."
    ),
)


def validation_document(name: str, validation: Validation) -> Document:
    """The whole report; `name` is that of the file."""
    validity = validation.validity
    return Document(
        title=f"Simulated against measured: {validation.target.model or validation.target.name}",
        badges=(
            Badge(LEVELS[validity.flag], validity.flag.value),
            Badge(Level.NOTE, validation.evidence.value),
            Badge(Level.NOTE, "SIMULATED"),
        ),
        lead=(*validity_alerts([(name, validity)]), *_cautions(validation)),
        sections=(_errors(validation), _behind(validation), _sensitivity(validation), _facts(validation)),
        made_by=MADE_BY,
    )


def _cautions(validation: Validation) -> list[Part]:
    found: list[Part] = []
    if validation.differences:
        words = "; ".join(validation.differences)
        found.append(Alert(Level.BAD, f"The cost profile belongs to another machine, model or context: {words}."))
    if validation.profile.busy is not None:
        found.append(Alert(Level.WARNING, f"The cost profile is doubtful: {validation.profile.busy}."))
    differing = [
        f"{_name(load)}: {each.difference}"
        for load in validation.loads
        for each in load.decisions
        if each.difference is not None
    ]
    if differing:
        found.append(Alert(Level.BAD, f"A fresh scheduler decides otherwise: {'; '.join(differing)}."))
    else:
        runs = [each for load in validation.loads for each in load.decisions]
        steps = sum(each.steps for each in runs)
        found.append(Alert(
            Level.GOOD,
            f"Fed the messages and the measured times of {len(runs)} runs, a fresh scheduler took the same decisions "
            f"in all of their {steps:,} steps.",
        ))  # fmt: skip
    found.append(_goals(validation))
    outside = [_name(load) for load in validation.loads if load.outside]
    if outside:
        words = ", ".join(outside)
        found.append(Alert(Level.WARNING, f"Steps lay outside the calibrated range, so they are guesses: {words}."))
    return found


def _goals(validation: Validation) -> Alert:
    """How many errors keep their goals, and which do not."""
    verdicts = {
        f"{_name(load)}: {_figure_label(f'{each.metric}.{each.figure}')} {_signed(each.error)}": is_met(each)
        for load in validation.loads
        for each in load.compared
    }
    missed = [name for name, verdict in verdicts.items() if verdict is False]
    judged = sum(verdict is not None for verdict in verdicts.values())
    words = f"{judged - len(missed)} of {judged} errors keep their goals"
    return Alert(Level.BAD, f"{words}; missed: {'; '.join(missed)}.") if missed else Alert(Level.GOOD, f"{words}.")


def _errors(validation: Validation) -> Section:
    return Section(
        key="errors",
        heading="Errors",
        parts=(_first_table(validation.loads), _capacity_table(validation), *map(Text, _HOW)),
    )


def _behind(validation: Validation) -> Section:
    has_peer = validation.peer is not None
    return Section(
        key="figures",
        heading="Figures",
        parts=present([
            *(_figure_table(load, has_peer=has_peer) for load in validation.loads),
            _step_table(validation.loads),
            _load_table(validation.loads),
            _outside_table(validation.loads),
        ]),
    )


def _sensitivity(validation: Validation) -> Section:
    names = list(validation.sensitivities[0].effects) if validation.sensitivities else []
    columns = (Column("coefficient", is_number=False), *(Column(_figure_label(name)) for name in names))
    rows = tuple(
        (f"`{each.coefficient}`", *(_signed(each.effects.get(name)) for name in names))
        for each in validation.sensitivities
    )
    caption = f"{validation.sensitivity_load}; each coefficient larger by {validation.change:.0%}"
    return Section(key="sensitivity", heading="What the coefficients move", parts=(Table(columns, rows, caption),))


def _facts(validation: Validation) -> Section:
    profile = validation.profile
    rows = (
        ("file", profile.file), ("sha256", profile.sha256), ("model", profile.model), ("threads", profile.threads),
    )  # fmt: skip
    return Section(
        key="facts",
        heading="Where this comes from",
        parts=present([
            Facts("Validation and code", run_rows(validation.run)),
            Facts("Cost profile", rows),
            Facts("Engine", target_rows(validation.target)),
            None if validation.peer is None else Facts("Peer", target_rows(validation.peer)),
            Facts("Machine", machine_rows(validation.machine)),
        ]),
    )


def _first_table(loads: Sequence[ValidatedLoad]) -> Table:
    columns = (
        Column("load", is_number=False),
        Column("requests/s"),
        *(Column(_figure_label(f"{metric}.{figure}")) for metric, figure in _FIRST),
    )
    rows = tuple(
        (
            _name(load),
            written(load.rate_per_s, Unit.RATE),
            *(_with_noise(_found(load, metric, figure)) for metric, figure in _FIRST),
        )
        for load in loads
    )
    return Table(columns, rows, "Error of the simulation (noise of the engine)")


def _capacity_table(validation: Validation) -> Table:
    columns = (
        Column("workload", is_number=False), Column("measured"), Column("simulated"), Column("error"),
        Column("noise"),
    )  # fmt: skip
    rows = tuple(
        (
            name,
            _values(each.measured, Unit.RATE),
            written(each.simulated, Unit.RATE),
            _signed(each.error),
            written(each.noise, Unit.SHARE),
        )
        for name, each in validation.capacities.items()
    )
    return Table(columns, rows, "Capacity: output tokens/s while more was offered than could be served")


def _figure_table(load: ValidatedLoad, *, has_peer: bool) -> Table:
    columns = (
        Column("figure", is_number=False), Column("measured"), Column("simulated"), Column("error"),
        Column("noise"), Column("goal"), Column("", is_number=False), *((Column("peer"),) if has_peer else ()),
    )  # fmt: skip
    rows: list[tuple[str, ...]] = []
    for each in load.compared:
        unit = Unit.TIME if each.unit == "ms" else Unit.RATE
        label = _figure_label(f"{each.metric}.{each.figure}")
        cells = (
            f"{label} (ms)" if each.unit == "ms" else label,
            _values(each.measured, unit),
            _value(each.simulated, unit),
            _signed(each.error),
            written(each.noise, Unit.SHARE),
            "" if (goal := goal_of(each)) is None else written(goal, Unit.SHARE),
            _MET[is_met(each)],
        )
        rows.append((*cells, _value(each.peer, unit)) if has_peer else cells)
    return Table(columns, tuple(rows), f"{_name(load)}, {load.rate_per_s:.2f} requests/s")


def _step_table(loads: Sequence[ValidatedLoad]) -> Table:
    columns = (
        Column("load", is_number=False), Column("steps", is_number=False), Column("n"), Column("bias"),
        Column("typical"), Column("p90"), Column("all together"), Column("noise"), Column("outside"),
    )  # fmt: skip
    rows = tuple(
        (
            _name(load),
            each.kind.value,
            written(each.num_steps, Unit.COUNT),
            _signed(each.bias),
            written(each.typical, Unit.SHARE),
            written(each.p90, Unit.SHARE),
            _signed(each.total),
            written(each.noise, Unit.SHARE),
            written(each.outside, Unit.SHARE),
        )
        for load in loads
        for each in load.steps
    )
    caption = "Single steps: measured / predicted - 1; all together: predicted / measured - 1"
    return Table(columns, rows, caption)


def _load_table(loads: Sequence[ValidatedLoad]) -> Table:
    columns = (
        Column("load", is_number=False), Column("requests"), Column("prompt tokens"), Column("output tokens"),
        Column("runs", is_number=False),
    )  # fmt: skip
    rows = tuple(
        (
            _name(load),
            written(load.requests, Unit.COUNT),
            written(load.prompt_tokens, Unit.COUNT),
            written(load.output_tokens, Unit.COUNT),
            ", ".join(each.flag.value for each in load.validity),
        )
        for load in loads
    )
    return Table(columns, rows, "What was asked, and whether the generator kept its schedule")


def _outside_table(loads: Sequence[ValidatedLoad]) -> Table | None:
    rows = tuple(
        (_name(load), name, written(share, Unit.SHARE)) for load in loads for name, share in load.outside.items()
    )
    columns = (Column("load", is_number=False), Column("beyond what was calibrated", is_number=False), Column("steps"))
    return Table(columns, rows, "Simulated steps outside the calibrated range") if rows else None


def _name(load: ValidatedLoad) -> str:
    return f"{load.workload}, {load.level} saturation"


def _found(load: ValidatedLoad, metric: str, figure: str) -> Compared | None:
    return next((each for each in load.compared if (each.metric, each.figure) == (metric, figure)), None)


def _with_noise(each: Compared | None) -> str:
    if each is None or each.error is None:
        return UNDEFINED
    return f"{_signed(each.error)} ({written(each.noise, Unit.SHARE)})"


def _figure_label(name: str) -> str:
    metric, _, figure = name.partition(".")
    label = _LABELS.get(metric, metric)
    return label if figure in {"", "rate"} else f"{label} {figure}"


def _values(values: Sequence[float | None], unit: Unit) -> str:
    return ", ".join(_value(each, unit) for each in values)


def _value(value: float | None, unit: Unit) -> str:
    """Latencies are kept in milliseconds here; the writer takes microseconds."""
    return written(value * 1e3 if value is not None and unit is Unit.TIME else value, unit)


def _signed(value: float | None) -> str:
    return UNDEFINED if value is None else f"{100 * value:+.1f} %"
