"""A whole calibration: measure, fit, judge."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import NamedTuple

from arriero.backend.protocol import Backend
from arriero.core.option_kinds import Threads
from arriero.costmodel.calibrated import CalibratedCost
from arriero.costmodel.passes import PassRules
from arriero.engine.pass_rules import rules_of
from arriero.lab.fit import fit_passes, residuals, valid_range
from arriero.lab.host_terms import host_costs
from arriero.lab.rounds import Measured, Tell, measure_rounds
from arriero.lab.shapes import Design
from arriero.lab.stand import Nanoseconds, Stand
from arriero.record.cost_profile import Residuals


class Calibration(NamedTuple):
    """What came out.

    Attributes:
        cost: the model.
        residuals: its errors, of fit and of prediction.
        num_rounds: how often every shape was measured.
        num_samples: measured steps.
        seconds: that the rounds took.
        late: by which part the machine was slower than usual for one second in twenty, whatever was computed.
    """

    cost: CalibratedCost
    residuals: tuple[Residuals, ...]
    num_rounds: int
    num_samples: int
    seconds: float
    late: float


def calibrate(
    backends: Mapping[int, Backend],
    threads: Threads,
    *,
    seconds: float,
    tell: Tell | None = None,
    clock: Nanoseconds = time.perf_counter_ns,
) -> Calibration:
    """Measure backends that differ in their number of threads only; they stay their owner's, and are empty afterwards.

    Not on an event loop.

    Args:
        backends: empty, by number of threads.
        threads: those in use; both numbers are among the backends'.
        seconds: for the rounds; preparing them and the host's share come on top, some seconds.
        tell: progress, with what is being done.
        clock: nanoseconds.

    Raises:
        ConfigError: the context is too small, or its memory cannot be emptied.
    """
    limits = next(iter(backends.values())).limits
    design, rules = Design(limits), rules_of(limits)
    probes = design.probes()
    with ExitStack() as stack:
        stands = {number: Stand(backend, design.depth, clock) for number, backend in backends.items()}
        for stand in stands.values():
            stack.callback(stand.close)
            stand.prepare()
        measured = measure_rounds(stands, probes, seconds=seconds, clock=clock, tell=tell)
    return _fitted(measured, rules, threads, backends[threads.decode])


def _fitted(measured: Measured, rules: PassRules, threads: Threads, backend: Backend) -> Calibration:
    passes = {number: fit_passes(samples, rules, number) for number, samples in measured.samples.items()}
    everything = [sample for samples in measured.samples.values() for sample in samples]
    cost = CalibratedCost(
        rules=rules,
        passes={number: each.costs for number, each in passes.items()},
        threads=threads,
        host=host_costs(backend, everything),
        valid=valid_range(everything, rules),
    )
    return Calibration(
        cost=cost,
        residuals=residuals(measured.samples, rules, passes),
        num_rounds=measured.num_rounds,
        num_samples=len(everything),
        seconds=measured.seconds,
        late=max(each.late for each in passes.values()),
    )
