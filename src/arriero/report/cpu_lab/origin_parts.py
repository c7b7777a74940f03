"""What every report of the operators' room begins and ends with: doubts, and where the figures come from."""

from collections.abc import Mapping
from typing import Protocol

from arriero.record.bench_parts import Evidence, RunFacts
from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.cpu_lab.environment import LabEnvironment
from arriero.record.cpu_lab.model_facts import ModelFacts
from arriero.record.cpu_lab.operators import ProfileSettings
from arriero.report.bench_facts import machine_rows, run_rows
from arriero.report.document import Alert, Facts, Level, Section
from arriero.report.written import UNDEFINED


class Measured(Protocol):
    """What a result says of its origin."""

    @property
    def schema_version(self) -> str:
        """Of the file."""
        ...

    @property
    def evidence(self) -> Evidence:
        """Of the figures."""
        ...

    @property
    def run(self) -> RunFacts:
        """How it came about."""
        ...

    @property
    def environment(self) -> LabEnvironment:
        """Where."""
        ...

    @property
    def model(self) -> ModelFacts:
        """What was computed."""
        ...

    @property
    def settings(self) -> ProfileSettings:
        """What was asked for."""
        ...

    @property
    def callbacks(self) -> str:
        """What they are made of."""
        ...

    @property
    def before(self) -> ConditionSample:
        """The machine before."""
        ...

    @property
    def after(self) -> ConditionSample:
        """The machine after."""
        ...


def doubts(*, is_quick: bool, busy: str | None, reasons: Mapping[str, str]) -> tuple[Alert, ...]:
    """Why the figures are to be read with care."""
    found = ["A quick run: few repetitions."] if is_quick else []
    if busy is not None:
        found.append(f"Doubtful: {busy}.")
    found.extend(f"{name}: {why}." for name, why in reasons.items())
    return tuple(Alert(Level.WARNING, each) for each in found)


def origin_section(result: Measured) -> Section:
    """The last section."""
    model, settings, library = result.model, result.settings, result.environment.library
    types = ", ".join(f"{each.type} {each.bytes:,} bytes" for each in model.tensor_types)
    files = () if library is None else tuple((file.name, f"sha256 {file.sha256}") for file in library.files)
    return Section(
        key="origin",
        heading="Where this comes from",
        parts=(
            Facts(
                "Run", (("format", result.schema_version), ("evidence", result.evidence.value), *run_rows(result.run))
            ),
            Facts(
                "Settings",
                (
                    ("prompt, generated, depth", f"{settings.prompt}, {settings.generate}, {settings.depth}"),
                    ("threads", str(settings.threads)),
                    ("flash attention", settings.flash_attention),
                    ("KV type", settings.kv_type),
                    ("repetitions, seed", f"{settings.repetitions}, {settings.seed}"),
                    ("callbacks", result.callbacks),
                ),
            ),
            Facts(
                "Model",
                (("file", model.file), ("sha256", model.sha256), ("declared", model.declared_format or UNDEFINED),
                 ("tensors", types)),
            ),
            Facts("Machine", machine_rows(result.environment.machine)),
            Facts("Conditions", (*_condition_rows("before", result.before), *_condition_rows("after", result.after))),
            Facts("llama.cpp in use", files or (("none", result.environment.reasons.get("library", UNDEFINED)),)),
        ),
    )  # fmt: skip


def _condition_rows(word: str, sample: ConditionSample) -> tuple[tuple[str, str], ...]:
    values = (
        ("frequency (MHz)", sample.frequency_mhz), ("temperature (°C)", sample.temperature_c),
        ("stolen", sample.steal_share), ("cores of others", sample.other_cores),
    )  # fmt: skip
    load = UNDEFINED if sample.load_average is None else " ".join(f"{each:.2f}" for each in sample.load_average)
    shown = ((f"{word}: {name}", UNDEFINED if value is None else f"{value:,.2f}") for name, value in values)
    return ((f"{word}: load average", load), *shown)
