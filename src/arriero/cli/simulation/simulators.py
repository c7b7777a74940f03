"""The functions that simulate, as the verbs call them; imported when a run begins."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Final, Protocol, cast

from arriero.core.errors import ConfigError
from arriero.record.lab_config import LabConfig
from arriero.record.lab_rows import LabRow
from arriero.record.sim_rows import SimRequestRow, SimTotals, StepRow
from arriero.record.simulation_config import SimulationConfig
from arriero.workload.records import WorkloadRecord

_RUNS: Final = "arriero.sim.runs"


class LabSimulator(Protocol):
    """The preset `serving-lab`."""

    def __call__(
        self, config: LabConfig, records: Sequence[WorkloadRecord], *, with_iterations: bool = True
    ) -> Iterator[LabRow]:
        """Rows in the order of the file."""
        ...


class OwnSimulator(Protocol):
    """Arriero's own mode."""

    def __call__(
        self, config: SimulationConfig, records: Sequence[WorkloadRecord]
    ) -> Iterator[StepRow | SimRequestRow | SimTotals]:
        """Rows in the order of the file, then the totals."""
        ...


def lab_simulator() -> LabSimulator:
    """The preset `serving-lab`."""
    from arriero.sim.runs import run_serving_lab

    return run_serving_lab


def own_simulator() -> OwnSimulator:
    """Arriero's own mode.

    Raises:
        ConfigError: this version has none.
    """
    found: object = getattr(import_module(_RUNS), "run_simulation", None)
    if found is None:
        raise ConfigError("this version runs presets only; use --preset serving-lab")
    return cast("OwnSimulator", found)
