"""What the verbs need of a function that simulates; `arriero.sim.runs` has the real ones, tests bring their own."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from arriero.record.lab_config import LabConfig
from arriero.record.lab_rows import LabRow
from arriero.record.sim_rows import SimRequestRow, SimTotals, StepRow
from arriero.record.simulation_config import SimulationConfig
from arriero.workload.records import WorkloadRecord


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
