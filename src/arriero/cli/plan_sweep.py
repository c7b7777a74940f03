"""A sweep of simulations over processes: the same results in the same order, whatever their number."""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from typing import NamedTuple, TypeAlias

from arriero.costmodel.models import CostModel
from arriero.record.journal_setup import Setup
from arriero.scheduler.backlog import BacklogLimits
from arriero.sim.capacity import Demand, Sustained, sustainable

Tell: TypeAlias = Callable[[float, str], None]
"""Hears which part is done, and what."""


class Task(NamedTuple):
    """One configuration.

    Attributes:
        label: for progress.
        setup: of its scheduler.
        cost: of its steps.
        door: who may wait there; None for everybody.
    """

    label: str
    setup: Setup
    cost: CostModel
    door: BacklogLimits | None = None


def sweep(tasks: Sequence[Task], demand: Demand, *, jobs: int, tell: Tell) -> list[Sustained]:
    """What each of them sustains, in their order.

    Args:
        tasks: simulated independently of one another.
        demand: the same for all.
        jobs: processes; 1 simulates in this one.
        tell: progress.
    """
    found: dict[int, Sustained] = {}

    def done(number: int, sustained: Sustained) -> None:
        found[number] = sustained
        tell(len(found) / len(tasks), tasks[number].label)

    if jobs == 1 or len(tasks) == 1:
        for number, task in enumerate(tasks):
            done(number, judge(demand, task))
    else:
        _in_processes(tasks, demand, min(jobs, len(tasks)), done)
    return [found[number] for number in range(len(tasks))]


def judge(demand: Demand, task: Task) -> Sustained:
    """One task, in whichever process."""
    return sustainable(task.setup, task.cost, demand, task.door)


def _in_processes(tasks: Sequence[Task], demand: Demand, jobs: int, done: Callable[[int, Sustained], None]) -> None:
    # Spawned: a fork would copy the threads that show progress in whatever state they are.
    with ProcessPoolExecutor(max_workers=jobs, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(partial(judge, demand), task): number for number, task in enumerate(tasks)}
        try:
            for future in as_completed(futures):
                done(futures[future], future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
