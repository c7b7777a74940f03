"""A run of the profiler from its folder's point of view: begun, gone on with, and ended."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from arriero.lab.machine.load_samples import sample_conditions
from arriero.lab.perf.plan import PerfPlan
from arriero.lab.perf.profiler import Profiler
from arriero.lab.perf.runner import PerfRunner
from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.cpu_lab.perf import PerfRecord, PerfSummary
from arriero.record.cpu_lab.run_log import RunLog


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """How a folder is treated.

    Attributes:
        resume: go on with the run that it holds.
        retry_failures: and run what has no success again.
        repair: and set a last line aside that was cut off.
        force: and do so although the settings differ.
    """

    resume: bool = False
    retry_failures: bool = False
    repair: bool = False
    force: bool = False


def run_session(
    plan: PerfPlan,
    profiler: Profiler,
    folder: Path,
    options: SessionOptions,
    *,
    tell: Callable[[str], None],
    conditions: Callable[[], ConditionSample] = sample_conditions,
    interrupt: threading.Event | None = None,
) -> PerfSummary:
    """Do all of a plan that has no record yet.

    Raises:
        DataError: the folder holds a run already, or none to go on with, or one of something else.
        KeyboardInterrupt: somebody pressed Ctrl-C; what was finished is on disk.
    """
    with _log(plan, folder, options) as log:
        runner = PerfRunner(
            plan=plan,
            profiler=profiler,
            log=log,
            folder=folder,
            conditions=conditions,
            tell=tell,
            interrupt=interrupt or threading.Event(),
            retry_failures=options.retry_failures,
        )
        return runner.run()


def _log(plan: PerfPlan, folder: Path, options: SessionOptions) -> RunLog[PerfRecord]:
    if options.resume:
        return RunLog[PerfRecord].resume(
            folder, PerfRecord, plan.manifest(), force=options.force, repair=options.repair
        )
    return RunLog[PerfRecord].create(folder, PerfRecord, plan.manifest())
