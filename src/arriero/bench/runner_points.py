"""Points: one schedule that was run, and what it is worth: validity, summary, raw log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from arriero.bench.loops import LoopRun
from arriero.bench.schedule import Schedule
from arriero.metrics.client_figures import ClientSlos
from arriero.metrics.client_life import ClientLife
from arriero.metrics.client_summary import loop_of, summarise
from arriero.metrics.client_window import ClientWindow, client_window, counted_from
from arriero.metrics.validity import BusyProcess, ValidityLimits, judge_validity
from arriero.record.bench_parts import Point, ScheduleFacts
from arriero.record.machine_load import LoadFacts

TargetKind: TypeAlias = Literal["http", "in-process", "simulated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRun:
    """A schedule and what came of it.

    Attributes:
        schedule: as it was planned.
        came: lives and ends, on the run's own clock.
        longest_block_ns: of the generator's event loop; None where there is none.
        load_before: of the machine, while nothing was asked; None where nobody looked.
        load_during: same, from the first send to the end.
    """

    schedule: Schedule
    came: LoopRun
    longest_block_ns: int | None = None
    load_before: LoadFacts | None = None
    load_during: LoadFacts | None = None

    @property
    def lives(self) -> tuple[ClientLife, ...]:
        """Counted from the start of the run."""
        return tuple(counted_from(life, self.came.began_at) for life in self.came.lives)

    @property
    def window(self) -> ClientWindow:
        """What is measured of it, counted from the start of the run."""
        return self.window_of(self.lives)

    def window_of(self, lives: Sequence[ClientLife]) -> ClientWindow:
        """The same for lives that were counted from the start already."""
        limits = self.schedule.limits
        begins_with_the_run = limits.warm_up_ns > 0 or not any(item.is_warm_up for item in self.schedule.planned)
        return client_window(
            lives,
            starts_at=0 if begins_with_the_run else None,
            stops_at=self.came.stopped_at - self.came.began_at,
            warm_up_ns=limits.warm_up_ns,
            cool_down_ns=limits.cool_down_ns,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How points are judged.

    Attributes:
        slos: objectives; None for no goodput.
        limits: of validity.
        keep_raw: whether the raw log stays in the result.
    """

    slos: ClientSlos | None = None
    limits: ValidityLimits = field(default_factory=ValidityLimits)
    keep_raw: bool = True


def measure(run: PointRun, rules: Rules, *, setting: Mapping[str, Any] | None = None) -> Point:
    """Figures, validity and raw log of a run.

    Args:
        run: that was made.
        rules: to judge by.
        setting: what is different from the other points of a sweep.
    """
    lives = run.lives
    window = run.window_of(lives)
    return Point(
        validity=judge_validity(
            lives,
            window=window,
            longest_block_ns=run.longest_block_ns,
            neighbours=_neighbours(run),
            was_interrupted=run.came.interrupted,
            limits=rules.limits,
        ),
        setting=dict(setting or {}),
        schedule=schedule_facts(run),
        summary=summarise(lives, window=window, slos=rules.slos),
        load_before=run.load_before,
        load_during=run.load_during,
        keeps_lives=rules.keep_raw,
        lives=lives if rules.keep_raw else (),
    )


def schedule_facts(run: PointRun) -> ScheduleFacts:
    """The schedule as the result file tells it."""
    schedule = run.schedule
    num_warm_up = sum(life.is_warm_up for life in run.came.lives)
    seed = schedule.settings.get("seed")
    settings = dict(schedule.settings)
    if schedule.is_supply:
        settings["num_left"] = run.came.num_left
    return ScheduleFacts(
        sha256=schedule.sha256,
        loop=loop_of([life for life in run.came.lives if not life.is_warm_up]),
        seed=seed if isinstance(seed, int) else None,
        num_requests=len(schedule.planned) - num_warm_up,
        num_warm_up=num_warm_up,
        settings=settings,
    )


def _neighbours(run: PointRun) -> tuple[BusyProcess, ...]:
    """The busier of the two looks at the machine."""
    looks = [load.others for load in (run.load_before, run.load_during) if load is not None]
    return max(looks, key=lambda others: sum(each.cores for each in others), default=())
