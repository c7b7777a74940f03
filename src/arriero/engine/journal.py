"""Journal: an observer that writes every step, arrival and cancel, without any token.

On the engine's thread a record is only put into the queue; what costs time, comparing prompts above all, is done by
the writer's thread. If the writer cannot keep up, records are dropped, the journal says so at their place, and it
cannot be replayed any more; the engine is never slowed down.
"""

from dataclasses import asdict
from functools import partial

from arriero.backend.protocol import BackendLimits
from arriero.core.events import Finished
from arriero.core.ids import Time
from arriero.core.request import FinishReason
from arriero.engine.handle import Result
from arriero.engine.observer import Arrival, EngineSummary, StepRecord
from arriero.engine.options import EngineOptions, closes_holes, num_running, step_budget
from arriero.record.cost_parts import cost_setup
from arriero.record.journal import JournalEnd, JournalLines, JournalStep
from arriero.record.journal_schema import TimeLine
from arriero.record.journal_setup import (
    CellsSetup,
    DecodeFirstSetup,
    FollowingSetup,
    HolesSetup,
    InOrderSetup,
    LimitsSetup,
    LowestFirstSetup,
    PhasesApartSetup,
    PlannerSetup,
    PooledSetup,
    ReuseFirstSetup,
    ReuseSetup,
    RulesSetup,
    Setup,
    StartsSetup,
    SwapSetup,
    TargetSetup,
    policy_setup,
)
from arriero.record.lines import LineSink
from arriero.scheduler.holes import Closed
from arriero.scheduler.starts import MAX_FOLLOWERS, MAX_OVERTAKES, MIN_ROWS


def describe(limits: BackendLimits, options: EngineOptions, num_preloaded: int) -> Setup:
    """What `Engine` builds its scheduler from.

    Args:
        limits: of its backend.
        options: of the engine.
        num_preloaded: requests preloaded before the start, at most as many as run at once.
    """
    pools = options.published_pools
    return Setup(
        kv=CellsSetup(
            num_cells=limits.num_cells,
            num_sequences=limits.num_sequences,
            sequence_limit=limits.sequence_limit,
            unified=limits.unified,
            reuse=None if options.reuse is None else ReuseSetup(**asdict(options.reuse)),
            swap_tokens=options.swap_tokens,
        ),
        ids=LowestFirstSetup() if pools is None else PooledSetup(num_preloaded=num_preloaded, reuse_completed=pools),
        planner=_planner(limits, options),
        policy=policy_setup(options.policy.described()),
        limits=_limits(limits, options),
        rules=RulesSetup(
            most_running=num_running(limits, options) if options.retained else None,
            holes=HolesSetup(**asdict(Closed())) if closes_holes(limits, options) else None,
            swap=None if options.swap is None else SwapSetup(**asdict(options.swap)),
            displaces=options.displaces,
        ),
    )


def _limits(limits: BackendLimits, options: EngineOptions) -> LimitsSetup:
    budget = step_budget(options)
    within = budget.within
    cost = options.cost if within is None else within.cost
    return LimitsSetup(
        num_rows=limits.num_rows,
        prefill_rows_per_seq=budget.per_sequence,
        prefill_rows_per_step=budget.per_step,
        headroom_per_sequence=options.headroom_per_sequence,
        cost=None if cost is None else cost_setup(cost),
        target=None if within is None else TargetSetup(limit=within.limit, least_rows=within.least_rows),
    )


def _planner(limits: BackendLimits, options: EngineOptions) -> PlannerSetup:
    starts = _starts(options)
    return (
        PhasesApartSetup(max_chunk=limits.micro_batch, starts=starts)
        if options.exact
        else DecodeFirstSetup(starts=starts)
    )


def _starts(options: EngineOptions) -> StartsSetup:
    if options.reuse is None:
        return InOrderSetup()
    if options.reuse.per_session:
        return ReuseFirstSetup(max_overtakes=MAX_OVERTAKES)
    follows = options.reuse.follows
    return FollowingSetup(min_rows=MIN_ROWS, max_followers=MAX_FOLLOWERS) if follows else InOrderSetup()


class Journal:
    """An observer that writes the journal of one engine."""

    def __init__(self, sink: LineSink, lines: JournalLines, limits: BackendLimits, options: EngineOptions) -> None:
        """The sink stays its owner's, who closes it after the engine has ended.

        Args:
            sink: where the lines go; its gap line is that of `lines`.
            lines: fresh, and used by nobody else.
            limits: of the engine's backend.
            options: of the engine.
        """
        self._sink = sink
        self._lines = lines
        self._limits = limits
        self._options = options
        self._has_started = False
        self._num_failed = 0  # steps in a row whose lines could not be made; on the writer's thread

    def on_start(self, at: Time) -> None:
        """Nothing: the first step knows what was preloaded, which the start record needs."""

    def on_step(self, record: StepRecord) -> None:
        """Write the line of a step, the first time after that of the start."""
        if not self._has_started:
            self._has_started = True
            self._sink.put(partial(self._start_lines, record), keep=True)
        self._sink.put(partial(self._step_lines, record))

    def on_end(self, result: Result) -> None:
        """Nothing: ends are among the events of their step."""

    def on_close(self, summary: EngineSummary) -> None:
        """Write the line of the end; an engine that crashed in its first step has no journal."""
        if self._has_started:
            self._sink.put(partial(self._end_lines, summary), keep=True)

    # ── on the writer's thread ──────────────────────────────────────────────────────────────────────────────────────

    def _start_lines(self, first: StepRecord) -> tuple[bytes]:
        num_preloaded = min(_num_preloaded(first), num_running(self._limits, self._options))
        setup = describe(self._limits, self._options, num_preloaded)
        return (self._lines.start(setup, TimeLine.MICROSECONDS, first.adopted),)

    def _step_lines(self, record: StepRecord) -> list[bytes]:
        missing = self._num_failed
        self._num_failed += 1  # until it is made: whatever the reason, a hole must not go unnoticed
        lines = self._lines.step(
            JournalStep(
                messages=tuple(each.request if isinstance(each, Arrival) else each for each in record.messages),
                plan=record.plan,
                outcome=record.outcome,
                events=record.events,
                began_at=record.began_at,
                committed_at=record.committed_at,
                ended_at=record.ended_at,
                decode_time=record.decode_us,
            ),
            missing=missing,
        )
        self._num_failed = 0
        return lines

    def _end_lines(self, summary: EngineSummary) -> list[bytes]:
        return self._lines.end(
            JournalEnd(
                ended_at=summary.ended_at,
                given_up_at=_given_up_at(summary),
                crashed=None if summary.crashed is None else summary.crashed.partition(":")[0],
                events=summary.events,
            ),
            missing=self._num_failed,
        )


def _num_preloaded(first: StepRecord) -> int:
    return sum(isinstance(each, Arrival) and each.request.preloaded for each in first.messages)


def _given_up_at(summary: EngineSummary) -> Time | None:
    """When a loop that came to its own end gave up who waited and what was retained; without events it did not."""
    if summary.crashed is not None or not summary.events:
        return None
    ends = (event.at for event in summary.events if isinstance(event, Finished))
    assert all(event.reason is FinishReason.ABORTED for event in summary.events if isinstance(event, Finished))
    return next(ends, summary.ended_at)
