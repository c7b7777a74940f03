"""Sections of a validation: first how far off a simulation is, then everything that this rests on."""

from typing import Final

from arriero.core.version import VERSION
from arriero.record.validation import Validation, is_met
from arriero.report.bench_document import LEVELS, validity_alerts
from arriero.report.bench_facts import machine_rows, run_rows, target_rows
from arriero.report.document import Alert, Badge, Document, Facts, Level, Part, Section, Text, present
from arriero.report.validation_tables import (
    capacity_table,
    error_table,
    figure_label,
    figure_table,
    levelled_table,
    load_name,
    load_table,
    outside_table,
    sensitivity_table,
    signed,
    step_table,
)

MADE_BY: Final = f"Made by arriero {VERSION}."
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
    (
        "A machine that changes its speed from minute to minute cannot be predicted better than it repeats itself. So "
        "each run is also simulated with all costs times one number, what its own steps took / what was predicted of "
        "them: what is left is the error of the cost model and of the simulator on a machine whose speed is known."
    ),
    (
        "A dash is undefined or infinite, and never 0: there is no p99 of fewer than 100 samples, and a percentile "
        "that falls among failures has no value. Figures without a goal are for information."
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
        f"{load_name(load)}: {each.difference}"
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
    outside = [load_name(load) for load in validation.loads if load.outside]
    if outside:
        words = ", ".join(outside)
        found.append(Alert(Level.WARNING, f"Steps lay outside the calibrated range, so they are guesses: {words}."))
    return found


def _goals(validation: Validation) -> Alert:
    """How many errors keep their goals, and which do not."""
    verdicts = {
        f"{load_name(load)}: {figure_label(f'{each.metric}.{each.figure}')} {signed(each.error)}": is_met(each)
        for load in validation.loads
        for each in load.compared
    }
    missed = [name for name, verdict in verdicts.items() if verdict is False]
    judged = sum(verdict is not None for verdict in verdicts.values())
    words = f"{judged - len(missed)} of {judged} errors keep their goals, {_levelled_words(validation)}"
    return Alert(Level.BAD, f"{words}; missed: {'; '.join(missed)}.") if missed else Alert(Level.GOOD, f"{words}.")


def _levelled_words(validation: Validation) -> str:
    """The same count at the machine's own speed."""
    found = [is_met(each) for load in validation.loads for each in load.levelled]
    judged = [each for each in found if each is not None]
    return f"{sum(judged)} of {len(judged)} at the speed that the machine had in each run"


def _errors(validation: Validation) -> Section:
    tables = (error_table(validation), levelled_table(validation), capacity_table(validation))
    return Section(key="errors", heading="Errors", parts=(*tables, *map(Text, _HOW)))


def _behind(validation: Validation) -> Section:
    return Section(
        key="figures",
        heading="Figures",
        parts=present([
            *(figure_table(load, validation) for load in validation.loads),
            step_table(validation),
            load_table(validation),
            outside_table(validation.loads),
        ]),
    )


def _sensitivity(validation: Validation) -> Section:
    return Section(key="sensitivity", heading="What the coefficients move", parts=(sensitivity_table(validation),))


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
