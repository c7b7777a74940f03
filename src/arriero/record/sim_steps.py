"""Rules of step rows, and what they say together: sums, maxima, and in which steps a request was computed."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Final

from msgspec import UNSET

from arriero.core.plan import Deferral
from arriero.metrics.rates import share
from arriero.metrics.steps import StepFigures
from arriero.record.lab_place import Place
from arriero.record.sim_rows import SimRequestRow, StepRow
from arriero.record.simulation_config import Blocks, Cells, SimulationConfig

_REASONS: Final = frozenset(reason.value for reason in Deferral)


@dataclass(slots=True)
class Computed:
    """In which steps each request was computed, by internal id; only a full trace says it."""

    began: dict[int, int] = field(default_factory=dict[int, int])  # the first step with rows for it
    prefills: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))  # ends
    decodes: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))  # ends

    def add(self, row: StepRow, place: Place) -> None:
        """Note one row.

        Raises:
            DataError: somebody decodes who was never prefilled.
        """
        for each in row.prefill_ids or ():
            self.began.setdefault(each, row.began_at_us)
            self.prefills[each].append(row.ended_at_us)
        for each in row.decode_ids or ():
            if each not in self.began:
                raise place.broken("decode_ids", f"request {each} was not prefilled before; run again")
            self.decodes[each].append(row.ended_at_us)

    def check(self, row: SimRequestRow, place: Place) -> None:
        """Compare a request's own moments with its steps, and forget them: each decode row gives one token.

        Raises:
            DataError: names the field that differs.
        """
        place.require(row, {"started_at_us": self.began.pop(row.internal_id, None)})
        times = Counter(row.token_at_us)
        decodes = Counter(self.decodes.pop(row.internal_id, []))
        others = times - decodes  # come with the end of a prompt, or of a prompt that is computed again
        prefills = Counter(self.prefills.pop(row.internal_id, []))
        if not (decodes <= times and others <= prefills):
            raise place.broken("token_at_us", "are not the ends of the steps that computed it; run again")

    def check_all_known(self, place: Place) -> None:
        """Whether every request that was computed has had its row.

        Raises:
            DataError: not so.
        """
        for each in self.began:
            raise place.broken("prefill_ids", f"request {each} has no row; run again")


@dataclass(slots=True)
class StepSums:
    """Totals of the rows so far, and the last one."""

    config: SimulationConfig
    last: StepRow | None = None
    num_steps: int = 0
    preempted: int = 0
    decode_rows: int = 0
    prefill_rows: int = 0
    _rows: int = 0
    _row_us: int = 0
    _busy_us: int = 0
    _sequences: int = 0
    _waiting_peak: int = 0
    _held_peak: int = 0

    def add(self, row: StepRow, place: Place) -> None:
        """Check one row against the configuration and the row before, and count it.

        Raises:
            DataError: names the field.
        """
        self._check_trace(row, place)
        self._check_limits(row, place)
        self._check_sequel(row, place)
        num_rows, duration = row.decode_rows + row.prefill_rows, row.ended_at_us - row.began_at_us
        self.num_steps += 1
        self.preempted += row.preempted
        self.decode_rows += row.decode_rows
        self.prefill_rows += row.prefill_rows
        self._rows += num_rows
        self._row_us += num_rows * duration
        self._busy_us += duration
        self._sequences += row.decode_rows + len(row.prefill_ids or ())
        self._waiting_peak = max(self._waiting_peak, row.num_waiting)
        self._held_peak = max(self._held_peak, row.kv_held)
        self.last = row

    def check_figures(self, figures: StepFigures, place: Place) -> None:
        """Compare the summary's figures with what the rows add up to.

        Raises:
            DataError: names the figure that differs.
        """
        limit = self.config.limits.rows
        expected: dict[str, float | None] = {
            "num_steps": self.num_steps,
            "busy_us": self._busy_us,
            "mean_rows": share(self._rows, self.num_steps),
            "batch_utilization": share(self._row_us, limit * self._busy_us),
        }
        if self.config.trace == "full":
            expected["mean_sequences"] = share(self._sequences, self.num_steps)
        for name, value in expected.items():
            if getattr(figures, name) != value:
                what = f"is {getattr(figures, name)}, but the rows give {value}; run again"
                raise place.broken(f"steps.{name}", what)
        for name, least in (("num_waiting_peak", self._waiting_peak), ("kv_peak", self._held_peak)):
            if getattr(figures, name) < least:
                raise place.broken(f"steps.{name}", f"is below the {least} of a step; run again")

    def _check_trace(self, row: StepRow, place: Place) -> None:
        trace = self.config.trace
        if trace == "off":
            raise place.broken("record_type", "no step row belongs here, as trace is off; take it out")
        lists = {"decode_ids": row.decode_ids, "deferred_ids": row.deferred_ids, "prefill_ids": row.prefill_ids}
        for name, ids in lists.items():
            if (ids is not UNSET) != (trace == "full"):
                what = "is missing" if trace == "full" else "is there"
                raise place.broken(name, f"{what}, but the configuration says trace = {trace}; run again")
        if row.decode_ids is UNSET or row.prefill_ids is UNSET or row.deferred_ids is UNSET:
            return
        place.require(row, {"decode_rows": len(row.decode_ids)})
        ids = [*row.decode_ids, *row.prefill_ids]
        if len(set(ids)) != len(ids):
            raise place.broken("prefill_ids", "and decode_ids hold a request twice; run again")
        if len(row.prefill_ids) > row.prefill_rows:
            raise place.broken("prefill_rows", f"is below the {len(row.prefill_ids)} of prefill_ids; run again")
        place.require(row, {"deferred": dict(Counter(each.reason for each in row.deferred_ids))})

    def _check_limits(self, row: StepRow, place: Place) -> None:
        limits, kv = self.config.limits, self.config.kv
        pool = kv.num_cells if isinstance(kv, Cells) else kv.total_blocks if isinstance(kv, Blocks) else 0
        num_rows = row.decode_rows + row.prefill_rows
        bounds = (
            ("prefill_rows", num_rows, limits.rows),
            ("prefill_rows", row.prefill_rows, limits.prefill_rows_per_step or limits.rows),
            ("num_running", row.num_running, limits.sequences),
            ("decode_rows", row.decode_rows, row.num_running),
            ("kv_held", row.kv_held, pool),
        )
        for name, value, limit in bounds:
            if value > limit:
                raise place.broken(name, f"{value} is above {limit}; run again")
        if not num_rows:
            raise place.broken("prefill_rows", "a step without rows is none; run again")
        for reason, number in row.deferred.items():
            if reason not in _REASONS or not number:
                raise place.broken("deferred", f"{reason!a}: {number} is no count of a known reason; run again")

    def _check_sequel(self, row: StepRow, place: Place) -> None:
        last = self.last
        if row.ended_at_us < row.began_at_us:
            raise place.broken("ended_at_us", f"lies before began_at_us, {row.began_at_us}; run again")
        if last is not None and row.step <= last.step:
            raise place.broken("step", f"is not above {last.step}, the one before; run again")
        if last is not None and row.began_at_us < last.ended_at_us:
            raise place.broken("began_at_us", f"lies before {last.ended_at_us}, the end of the one before; run again")
