"""CalibratedCost: what a step takes on the machine and the model that were measured.

    step = host + the sum over its passes (passes.py) of their terms (terms.py), at the threads that compute them

llama.cpp computes a pass of one row with one number of threads and all others with another, so there is a set of
coefficients for each number, not for each pair. Nothing here measures or fits: coefficients come from a profile.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple

from arriero.core.errors import ConfigError
from arriero.core.option_kinds import Threads
from arriero.core.plan import BatchPlan, StepShape
from arriero.costmodel.change import CostChange
from arriero.costmodel.models import TIME_MAX, checked
from arriero.costmodel.passes import AnyRow, Pass, PassRules, split, stand_in
from arriero.costmodel.terms import PassCosts


class StepKind(StrEnum):
    """What a step is made of."""

    DECODE = "decode"
    PREFILL = "prefill"
    MIXED = "mixed"


class Outside(StrEnum):
    """In what a step lies beyond everything that was measured, so that its prediction is a guess."""

    ROWS = "rows"  # of one pass
    SEQUENCES = "sequences"
    CONTEXT = "context"  # positions of one sequence
    POOL = "pool"  # cells in use by all


class Prediction(NamedTuple):
    """What a step will take.

    Attributes:
        time: microseconds.
        outside: in what it lies outside the calibrated range; empty inside it.
    """

    time: int
    outside: tuple[Outside, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidRange:
    """The largest of everything that was measured.

    Attributes:
        rows: of one pass.
        sequences: with rows in one step.
        context: positions of one sequence after the step.
        pool: cells in use by all after the step; counts in the unified layout only.
    """

    rows: int
    sequences: int
    context: int
    pool: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCosts:
    """Microseconds of a step outside the decode call.

    Attributes:
        step: planning, committing, publishing.
        entry: each sequence with rows.
        token: choosing a token, greedily; each row of logits.
        delivery: handing a token to its reader; each row of logits.
    """

    step: float = 0.0
    entry: float = 0.0
    token: float = 0.0
    delivery: float = 0.0

    def time(self, num_entries: int, num_tokens: int) -> float:
        """Microseconds of one step."""
        return self.step + self.entry * num_entries + (self.token + self.delivery) * num_tokens

    def scaled(self, factor: float) -> "HostCosts":
        """Every cost times a factor."""
        return HostCosts(
            step=self.step * factor,
            entry=self.entry * factor,
            token=self.token * factor,
            delivery=self.delivery * factor,
        )


NO_HOST: Final = HostCosts()


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedCost:
    """A `CostModel` in whole microseconds.

    Attributes:
        rules: how the context cuts steps into passes.
        passes: costs of a pass by the number of threads that compute it.
        threads: which of these numbers is used; both are among them.
        host: what a step takes outside the decode call.
        valid: what was measured.
        spread: by which part of its prediction a step may come later, for whoever has to keep a promise; no prediction
            has it in it.
        origin: the costs as they were calibrated, where a `CostChange` has made these of them; None: these are they.
    """

    rules: PassRules
    passes: Mapping[int, PassCosts]
    threads: Threads
    host: HostCosts = NO_HOST
    valid: ValidRange
    spread: float = 0.0
    origin: "CalibratedCost | None" = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse threads that were not measured.

        Raises:
            ConfigError: names those that were.
        """
        for number in (self.threads.decode, self.threads.prefill):
            if number not in self.passes:
                known = ", ".join(map(str, sorted(self.passes)))
                raise ConfigError(
                    f"--threads {self.threads}: calibrated for {known} only; take these, or calibrate again"
                )

    def step_time(self, shape: StepShape) -> int:
        """From counts alone: as if ids were consecutive, and chunks and contexts equal; `plan_time` knows better."""
        if shape.calls:
            host = self.host.time(len(shape.calls), sum(call.decode_rows for call in shape.calls))
            return _whole(host + sum(self.decode_time(stand_in(call)) for call in shape.calls))
        return self.time(stand_in(shape))

    @property
    def is_level(self) -> bool:
        """Whether equal rows at later positions take as long: nobody promises that."""
        return False

    def plan_time(self, plan: BatchPlan, *, pool: int | None = None) -> int:
        """From the rows themselves.

        Args:
            plan: a step.
            pool: cells in use before it, instead of those that the plan names.
        """
        if plan.shape.calls:
            return self.step_time(plan.shape)
        return self.time(plan.rows, pool=plan.pool_cells if pool is None else pool)

    def time(self, rows: Sequence[AnyRow], *, pool: int = 0) -> int:
        """Microseconds of a step with these rows, ascending by sequence id.

        Args:
            rows: of a plan, or stretches.
            pool: cells in use before the step; counts in the unified layout only, see `split`.

        Raises:
            TimeOverflow: it does not fit in 64 bits.
        """
        tokens = [row.wants_logits for row in rows]
        return _whole(self.host.time(len(rows), sum(tokens)) + self.decode_time(rows, pool=pool))

    def predict(self, rows: Sequence[AnyRow], *, pool: int = 0) -> Prediction:
        """As `time`, with what lies outside the calibrated range."""
        return Prediction(self.time(rows, pool=pool), tuple(self._outside(rows, pool)))

    def decode_time(self, rows: Sequence[AnyRow], *, pool: int = 0) -> float:
        """Microseconds inside the decode call."""
        return sum(self.costs(one).time(one) for one in split(rows, self.rules, pool=pool))

    def costs(self, one: Pass) -> PassCosts:
        """The coefficients for a pass, by the threads that compute it."""
        return self.passes[self.threads.decode if one.rows == 1 else self.threads.prefill]

    def best_threads(self, rows: Sequence[AnyRow], *, pool: int = 0) -> Threads:
        """The numbers of threads at which these rows take least; those in use where nothing is gained."""
        times = {number: [0.0, 0.0] for number in sorted(self.passes)}
        for one in split(rows, self.rules, pool=pool):
            for number, spent in times.items():
                spent[one.rows > 1] += self.passes[number].time(one)
        now = self.threads
        return Threads(
            min(times, key=lambda number: (times[number][0], number != now.decode)),
            min(times, key=lambda number: (times[number][1], number != now.prefill)),
        )

    def with_threads(self, threads: Threads) -> "CalibratedCost":
        """The same machine with other numbers of threads.

        Raises:
            ConfigError: they were not measured.
        """
        return replace(self, threads=threads)

    def changed(self, change: CostChange) -> "CalibratedCost":
        """The same machine as a change says that it is now; of earlier changes nothing stays.

        Raises:
            ConfigError: it names threads that were not measured.
        """
        origin = self.origin or self
        factors = {each.threads: each.by_group for each in change.factors}
        unknown = [number for number in factors if number not in origin.passes]
        if unknown:
            known = ", ".join(map(str, sorted(origin.passes)))
            raise ConfigError(f"a change of costs at {unknown[0]} threads: calibrated for {known} only; leave it out")
        return replace(
            origin,
            passes={
                number: each.scaled(factors[number]) if number in factors else each
                for number, each in origin.passes.items()
            },
            threads=change.threads,
            host=origin.host.scaled(change.host),
            spread=change.spread,
            origin=origin,
        )

    def _outside(self, rows: Sequence[AnyRow], pool: int) -> Iterator[Outside]:
        valid, num_rows = self.valid, sum(row.num_rows for row in rows)
        if min(num_rows, self.rules.micro_batch) > valid.rows:
            yield Outside.ROWS
        if len(rows) > valid.sequences:
            yield Outside.SEQUENCES
        if any(row.start + row.num_rows > valid.context for row in rows):
            yield Outside.CONTEXT
        if self.rules.unified and max(pool, sum(row.start for row in rows)) + num_rows > valid.pool:
            yield Outside.POOL


def kind_of(rows: Sequence[AnyRow]) -> StepKind:
    """What a step is made of; a single row that gives logits is a decode row."""
    has_decode = any(row.num_rows == 1 and row.wants_logits for row in rows)
    has_prefill = any(row.num_rows != 1 or not row.wants_logits for row in rows)
    if has_decode and has_prefill:
        return StepKind.MIXED
    return StepKind.PREFILL if has_prefill else StepKind.DECODE


def _whole(time: float) -> int:
    """Rounded once; refuses what does not fit in 64 bits."""
    rounded = round(time)
    return rounded if rounded <= TIME_MAX else int(checked(rounded))
