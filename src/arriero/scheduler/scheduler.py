"""Scheduler: verbs between whose calls nothing happens; values in, values out, the time as an argument.

    ((submit | cancel | tend | recalibrate)* plan [commit])* close

A plan with rows is committed before any other verb; a plan without rows needs no commit; `now` never goes back.
The live engine and the simulator are two short loops over one object of this class.
"""

from typing import NamedTuple, assert_never

from arriero.core.errors import CallerError, CallOrderError, ConfigError, InvalidRequest, StepFailed
from arriero.core.events import (
    CancelTarget,
    Event,
    PreemptionCause,
    Rejected,
    RetainedAction,
    harmed_sequence,
)
from arriero.core.ids import SequenceId, StepNumber, Time, TokenId
from arriero.core.plan import (
    BatchPlan,
    Counted,
    Deferral,
    Failed,
    Interrupted,
    NoRoom,
    Row,
    Sampled,
    SequenceFailure,
    SimulatedOutcome,
)
from arriero.core.request import FinishReason, Request
from arriero.costmodel.change import CostChange
from arriero.kv.protocol import KvManager
from arriero.kv.reuse import CachePicture, EvictionCause
from arriero.scheduler.draft import UNMETERED, StepDraft
from arriero.scheduler.lives import Lives
from arriero.scheduler.planners import Planner
from arriero.scheduler.policies import Policy
from arriero.scheduler.progress import Progress
from arriero.scheduler.rules import LIVE_RULES, SchedulerLimits, SchedulerRules
from arriero.scheduler.slots import Slots
from arriero.scheduler.tending import Tended, tend_retained
from arriero.scheduler.views import SchedulerSnapshot, SchedulerView


class _Offered(NamedTuple):
    """How the waiting were offered in a plan.

    Attributes:
        num_followers: those who waited for a prefix that another prompt was computing.
        is_reordered: whether by a policy whose order may be another one in the next step.
    """

    num_followers: int = 0
    is_reordered: bool = False


class Scheduler:
    """Decides; it never waits, reads a clock, draws a number, opens a file or knows a model."""

    def __init__(
        self,
        *,
        kv: KvManager,
        planner: Planner,
        policy: Policy,
        limits: SchedulerLimits,
        rules: SchedulerRules = LIVE_RULES,
    ) -> None:
        """Start empty; all parts belong to this scheduler from now on.

        Raises:
            ConfigError: a step has fewer rows than requests may run at once.
        """
        usage = kv.usage()
        num_ids = usage.sequences_free + usage.sequences_held + usage.sequences_quarantined
        num_running = min(num_ids, rules.start.most_running)
        if limits.num_rows < num_running:
            message = f"{limits.num_rows} rows a step cannot serve {num_running} sequences; each needs one"
            raise ConfigError(message)
        self._kv = kv
        self._planner = planner
        self._policy = policy
        self._limits = limits
        self._rules = rules
        self._slots = Slots(kv, policy, rules, limits.headroom_per_sequence)
        self._lives = Lives(self._slots)
        self._step: StepNumber | None = None  # None: nothing was planned yet
        self._num_arrivals = 0
        self._offered = _Offered()  # in the last plan
        self._uncommitted: BatchPlan | None = None
        self._now: Time | None = None

    # ── the verbs ───────────────────────────────────────────────────────────────────────────────────────────────────

    def submit(self, request: Request, now: Time) -> tuple[Event, ...]:
        """Take a request.

        It is queued, or rejected because it can never fit or because its id is alive, or, if a cancel came before it,
        queued and finished at once.
        """
        self._enter("submit", now)
        rank = self._policy.rank(request, self._num_arrivals)
        self._num_arrivals += 1
        cancelled = self._lives.cancels.claim(request)
        try:
            self._check(request)
        except CallerError as error:
            if cancelled is not None:
                self._lives.cancels.count(unknown=1)
            return (Rejected(request, error, now),)
        self._lives.begin(self._rules.progress(request, rank), cancelled)
        return self._slots.take_events()

    def cancel(self, target: CancelTarget, now: Time) -> tuple[Event, ...]:
        """Ask for an end.

        A waiting request ends at once; a running one when the next step is planned. A cancel that finds nobody is
        kept for a submission to come.
        """
        self._enter("cancel", now)
        self._lives.cancel(target)
        return self._slots.take_events()

    def plan(self, now: Time) -> BatchPlan:
        """Compose the next step: time-outs, cancels of running requests, a move, then whatever the planner finds."""
        self._enter("plan", now)
        self._step = self._next_step()
        self._slots.begin_step(self._step)
        self._lives.expire(now)
        self._lives.observe_cancels(self._step, now)
        if self._rules.displaces and self._policy.by_rank:
            self._slots.displace()
        if self._rules.holes is not None:
            self._slots.close_hole(self._rules.holes)
        budget, cost = UNMETERED if self._step == 0 else self._limits.budget, self._limits.cost
        draft = StepDraft(
            self._slots,
            num_rows=self._limits.num_rows,
            budget=budget,
            num_sequences=self._limits.num_sequences,
            names_deferred=self._rules.names_deferred,
        )
        queue = self._policy.queue(self._slots.waiting, draft)
        running = self._slots.by_turn() if self._policy.by_rank else self._slots.running
        self._planner.fill(draft, running, queue)
        offered = (draft.deferrals.get(Deferral.PREFIX, 0), queue is not self._slots.waiting)
        if offered != self._offered:
            self._offered = _Offered(*offered)
        rows = draft.rows()
        if not rows and len(self._slots.waiting):
            self._give_up_if_out_of_service()
        plan = BatchPlan(
            step=self._step,
            rows=rows,
            shape=draft.shape(len(self._slots.running)),
            events=self._slots.take_events(),
            caps_hit=draft.caps_hit,
            num_waiting=len(self._slots.waiting),
            wake_at=self._wake_at(now, has_rows=bool(rows)),
            deferrals=draft.deferrals,
            deferred=draft.deferred,
            followers=self._slots.followers if offered[0] else (),
            over_target=draft.over_target,
            pool_cells=draft.pool_cells() if cost is not None and cost.rules.unified else 0,
        )
        self._uncommitted = plan if rows else None
        return plan

    def commit(self, outcome: SimulatedOutcome, now: Time) -> tuple[Event, ...]:
        """Take over what the step did; what was not computed stays where it was."""
        plan = self._uncommitted
        if plan is None:
            message = "commit without a plan that has rows"
            raise CallOrderError(message)
        self._move_clock("commit", now)
        self._uncommitted = None
        match outcome:
            case Counted(times=times):
                self._count_tokens(plan, times)
                return self._slots.take_events()
            case Sampled():
                self._take_tokens(plan, outcome)
            case Failed(failures=failures):
                self._rewind(plan)
                self._lives.fail(failures or self._alone(plan))
                if outcome.refused:
                    self._slots.close()
            case NoRoom():
                self._rewind(plan)
                self._make_room(plan, frozenset(map(harmed_sequence, outcome.refused)))
            case Interrupted():
                self._rewind(plan)
            case _:
                assert_never(outcome)
        for op in outcome.refused:
            self._kv.refuse(op)
            self._move_away(harmed_sequence(op))
        return self._slots.take_events()

    def tend(self, action: RetainedAction, now: Time) -> Tended:
        """Save, restore or erase all retained runs together; who runs goes on."""
        self._enter("tend", now)
        return Tended(tend_retained(self._kv, action), self._slots.take_events())

    def recalibrate(self, change: CostChange, now: Time) -> tuple[Event, ...]:
        """What steps take has changed; those that are planned from now on go by it.

        Raises:
            ConfigError: nobody said what steps take, or the change names threads that were not measured.
        """
        self._enter("recalibrate", now)
        self._limits = self._limits.changed(change)
        return self._slots.take_events()

    def close(self, now: Time) -> tuple[Event, ...]:
        """The end of a run, after its last step: the host store gets what it lacks, then all retained runs go."""
        self._enter("close", now)
        if self._rules.reuse is not None:
            if self._rules.reuse.host_tokens:
                self._kv.save_retained()
            self._kv.clear_retained(EvictionCause.TEARDOWN)
        return self._slots.take_events()

    # ── what others may see ─────────────────────────────────────────────────────────────────────────────────────────

    @property
    def has_work(self) -> bool:
        """Whether any request is alive."""
        return len(self._lives) > 0

    def snapshot(self) -> SchedulerSnapshot:
        """Frozen figures; O(1)."""
        return SchedulerSnapshot(
            step=self._step or 0,
            num_waiting=len(self._slots.waiting),
            num_running=len(self._slots.running),
            kv=self._kv.usage(),
            cancels=self._lives.cancels.counts,
            num_early_cancels=self._lives.cancels.num_early,
            num_deferred_prefix=self._offered.num_followers,
            reuse=self._kv.reuse_figures(),
            reuse_overtakes=self._slots.num_overtakes,
        )

    def picture(self) -> CachePicture | None:
        """All that is retained, for people to look at; None where nothing ever is. O(runs)."""
        return self._kv.picture()

    def steady_steps(self) -> int:
        """How many steps would have the rows of the uncommitted plan, this step included, if no message came.

        1 unless every running request decodes, nobody reaches its end before the last of these steps, and memory can
        take all of them without losing anything. Who waits could not start in this step and cannot in those after it,
        since memory only gets fuller; unless the policy might offer another one, who fits. O(rows).
        """
        plan = self._uncommitted
        is_steady = (
            plan is not None
            and not plan.shape.prefill_chunks
            and len(plan.rows) == len(self._slots.running)
            and not self._slots.has_preempted
            and not self._kv.is_resting
            and not (self._offered.is_reordered and Deferral.KV in plan.deferrals)
            and (self._rules.holes is None or self._rules.holes.mover(self._slots.running) is None)
        )
        if plan is None or not is_steady:
            return 1
        to_go = [progress.num_allowed - progress.num_known for progress in self._slots.running]
        until_end = min(to_go)
        if until_end <= 1:
            return 1
        return min(until_end, 1 + self._kv.steps_ahead([row.sequence_id for row in plan.rows]))

    def inspect(self) -> SchedulerView:
        """The live parts, to be checked between two steps; O(n log n) in the requests alive."""
        return SchedulerView(self._kv, tuple(self._lives), tuple(self._slots.running), tuple(self._slots.waiting))

    # ── helpers of the verbs, in the order of their use ─────────────────────────────────────────────────────────────

    def _enter(self, verb: str, now: Time) -> None:
        if self._uncommitted is not None:
            message = f"{verb} between a plan with rows and its commit"
            raise CallOrderError(message)
        self._move_clock(verb, now)

    def _move_clock(self, verb: str, now: Time) -> None:
        if self._now is not None and now < self._now:
            message = f"{verb} at {now} after a call at {self._now}"
            raise CallOrderError(message)
        self._now = now
        self._slots.at(now)

    def _check(self, request: Request) -> None:
        if request.request_id in self._lives:
            message = f"request id {request.request_id} is alive; use another one"
            raise InvalidRequest(message, field="request_id")
        if request.preloaded and self._step is not None:
            message = "a request cannot be preloaded after the first step"
            raise InvalidRequest(message, field="preloaded")
        self._rules.fits(request, self._kv.sequence_limit)

    def _next_step(self) -> StepNumber:
        """Step 0 exists only where requests were preloaded."""
        if self._step is not None:
            return self._step + 1
        return 0 if any(progress.request.preloaded for progress in self._lives) else 1

    def _give_up_if_out_of_service(self) -> None:
        """Where memory would clear none of its sequences, nobody who waits can ever start: they fail, late is worse."""
        usage = self._kv.usage()
        if usage.sequences_quarantined and not (usage.sequences_held + usage.sequences_free + usage.sequences_retained):
            reason = f"none of the {usage.sequences_quarantined} KV sequences could be cleared; restart the engine"
            for progress in tuple(self._slots.waiting):
                self._lives.finish(progress, FinishReason.FAILED, error=StepFailed(reason, code="out_of_service"))

    def _wake_at(self, now: Time, *, has_rows: bool) -> Time | None:
        """At once if nothing runs but an id that a cancel freed ends its rest with the next step; else the deadline."""
        if not has_rows and len(self._slots.waiting) and self._kv.is_resting:
            return now
        return self._lives.next_deadline()

    def _take_tokens(self, plan: BatchPlan, outcome: Sampled) -> None:
        failed = {failure.sequence_id for failure in outcome.failures}
        refused = {harmed_sequence(op) for op in outcome.refused}
        rows = [row for row in plan.rows if row.sequence_id not in failed and row.sequence_id not in refused]
        self._policy.served(rows, 1)
        if plan.shape.prefill_chunks:
            self._slots.publish(rows)
        for row in rows:
            progress = self._lives.of(row.request)
            reason = progress.advance(row)
            if reason is not None:
                self._lives.finish(progress, reason)
            elif row.wants_logits:
                self._take_token(progress, row, outcome.tokens[row.sequence_id])
        self._lives.fail(outcome.failures)

    def _count_tokens(self, plan: BatchPlan, times: int) -> None:
        self._policy.served(plan.rows, times)
        if plan.shape.prefill_chunks:
            self._slots.publish(plan.rows)
        if times > 1:
            self._step = plan.step + times - 1  # the last of these steps
            self._slots.go_on_to(self._step)
            self._kv.grow_together([row.sequence_id for row in plan.rows], times - 1)
        group = self._lives.of_rows(plan.rows)
        for progress, reason in group[0].count_together(group, plan.rows, times):
            self._lives.finish(progress, reason)

    def _take_token(self, progress: Progress, row: Row, token: TokenId) -> None:
        if progress.ends_with(token):
            self._lives.finish(progress, FinishReason.STOP)
            return
        reason = progress.append(token)
        self._slots.emit_token(progress, row.sequence_id, token)
        if reason is not None:
            self._lives.finish(progress, reason)

    def _alone(self, plan: BatchPlan) -> tuple[SequenceFailure, ...]:
        """A batch of one sequence needs no taking apart: that one has failed alone, even if memory kept its rows."""
        first, *others = plan.rows
        if others:
            return ()
        return (SequenceFailure(first.sequence_id, "decode_failed", "decoding failed for this request alone"),)

    def _rewind(self, plan: BatchPlan) -> None:
        for row in plan.rows:
            self._slots.rewind(self._lives.of(row.request))

    def _make_room(self, plan: BatchPlan, harmed: frozenset[SequenceId | None]) -> None:
        """The memory is fuller than the books say: somebody yields; one who runs alone can never fit."""
        if self._slots.yield_one(harmed) is None:
            row = plan.rows[0]
            reason = f"no KV room for {row.num_rows} more rows, with nobody else running"
            self._lives.fail((SequenceFailure(row.sequence_id, "kv_no_room", reason),))

    def _move_away(self, sequence_id: SequenceId | None) -> None:
        """Whoever holds a sequence that memory would not clear or fill starts again, maybe on another one."""
        progress = None if sequence_id is None else self._lives.holder(sequence_id)
        if progress is not None:
            self._slots.preempt(progress, PreemptionCause.REFUSED)
