"""Columns: the steps and requests of one run as arrays, and the tables that collect them row by row.

Moments are whole microseconds kept as float64, exact up to 2^53; NaN is a moment that never came.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, repeat
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from arriero.metrics.latency import Life
from arriero.metrics.served import GapTally, Outcome

Floats: TypeAlias = npt.NDArray[np.float64]
Whole: TypeAlias = npt.NDArray[np.int64]

NEVER: Final = float("nan")
FAILED: Final = "failed"
"""An end that only the live engine knows; the others are those of `metrics.served.Outcome`."""

STEP_FIELDS: Final = ("prefill_rows", "decode_rows", "num_running", "num_waiting", "kv_held")
LATENCIES: Final = ("queue", "ttft", "tpot", "e2e", "itl_max")
MOMENTS: Final = ("arrival", "started", "first", "ended", "stall_from", "stall_until")
AMOUNTS: Final = ("prompt_tokens", "cached_tokens", "generated_tokens", "preemptions", "recomputed_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepColumns:
    """Steps with rows, in their order.

    Attributes:
        began_at, ended_at: float64[num_steps], microseconds, ascending and without overlap.
        values: name of `STEP_FIELDS` → int64[num_steps]; a name that the format does not record is missing.
    """

    began_at: Floats
    ended_at: Floats
    values: Mapping[str, Whole]

    @property
    def num_steps(self) -> int:
        """How many there are."""
        return len(self.began_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestColumns:
    """Requests in the order of their rows, which is that of their arrival.

    Attributes:
        moments: name of `MOMENTS` → float64[num_requests]; `ended` is the end of any kind, `stall_from` and
            `stall_until` are the two tokens with the largest gap between them.
        latencies: name of `LATENCIES` → float64[num_requests], microseconds; NaN where it is undefined.
        amounts: name of `AMOUNTS` → int64[num_requests].
        outcomes: how each of them ended.
        looked_up: bool[num_requests], whether a prefix cache was asked.
        gaps: of all tokens.
    """

    moments: Mapping[str, Floats]
    latencies: Mapping[str, Floats]
    amounts: Mapping[str, Whole]
    outcomes: Sequence[str]
    looked_up: npt.NDArray[np.bool_]
    gaps: GapTally

    @property
    def num_requests(self) -> int:
        """How many there are."""
        return len(self.outcomes)

    def keeping(self, objectives: Mapping[str, float]) -> npt.NDArray[np.bool_]:
        """bool[num_requests]: finished within every objective; an undefined latency does not count against one.

        Args:
            objectives: name of `LATENCIES` → upper bound, microseconds; the bound itself is allowed.
        """
        good = self.ended_as(Outcome.FINISHED)
        for name, bound in objectives.items():
            good &= ~(self.latencies[name] > bound)
        return good

    def ended_as(self, *outcomes: str) -> npt.NDArray[np.bool_]:
        """bool[num_requests]: whether each ended in one of these ways."""
        return np.fromiter((each in outcomes for each in self.outcomes), dtype=np.bool_, count=self.num_requests)


class StepTable:
    """Collects steps; about 60 bytes each."""

    def __init__(self, fields: Sequence[str] = STEP_FIELDS) -> None:
        """`fields` are those that the format records."""
        self._began_at = array("d")
        self._ended_at = array("d")
        self._values = {name: array("q") for name in fields}

    def add(self, began_at: float, ended_at: float, values: Mapping[str, int]) -> None:
        """Take one step; `values` has every field."""
        self._began_at.append(began_at)
        self._ended_at.append(ended_at)
        for name, column in self._values.items():
            column.append(values[name])

    def add_equal(
        self, began_at: float, ends: Sequence[float], values: Mapping[str, int], moving: Mapping[str, Sequence[int]]
    ) -> None:
        """Take steps that follow each other at once.

        Args:
            began_at: of the first one.
            ends: of each.
            values: that they share.
            moving: those that they do not, one for each step; both together have every field.
        """
        self._began_at.extend((began_at, *ends[:-1]))
        self._ended_at.extend(map(float, ends))  # also of an array of another kind
        for name, column in self._values.items():
            column.extend(iter(moving[name]) if name in moving else repeat(values[name], len(ends)))

    def columns(self) -> StepColumns | None:
        """All of them; None without any."""
        if not self._began_at:
            return None
        return StepColumns(
            began_at=_floats(self._began_at),
            ended_at=_floats(self._ended_at),
            values=MappingProxyType({name: _whole(column) for name, column in self._values.items()}),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request, as any format says it.

    Attributes:
        life: its moments; `finished_at` is a normal end.
        outcome: how it ended.
        token_at: when each token came, ascending.
        ended_at: an end of another kind, if that is known.
    """

    life: Life
    outcome: str
    token_at: Sequence[int]
    prompt_tokens: int
    cached_tokens: int = 0
    preemptions: int = 0
    recomputed_tokens: int = 0
    looked_up: bool = False
    ended_at: float | None = None


@dataclass(slots=True)
class RequestTable:
    """Collects requests; about 150 bytes each, however many tokens they have."""

    _numbers: dict[str, "array[float]"] = field(
        default_factory=lambda: {name: array("d") for name in (*MOMENTS, *LATENCIES)}
    )
    _amounts: dict[str, "array[int]"] = field(default_factory=lambda: {name: array("q") for name in AMOUNTS})
    _outcomes: list[str] = field(default_factory=list[str])
    _looked_up: bytearray = field(default_factory=bytearray)
    _gaps: GapTally = field(default_factory=GapTally)

    def add(self, asked: Asked) -> None:
        """Take one request."""
        life = asked.life
        largest = self._gaps.add(asked.token_at)
        stall = _largest_gap(asked.token_at) if largest is not None else (None, None)
        ended_at = life.finished_at if life.finished_at is not None else asked.ended_at
        numbers = (life.arrival_at, life.started_at, life.first_at, ended_at, *stall)
        latencies = (life.queue_time, life.ttft, life.tpot, life.e2e, largest)
        for name, value in zip((*MOMENTS, *LATENCIES), (*numbers, *latencies), strict=True):
            self._numbers[name].append(NEVER if value is None else value)
        amounts = (
            asked.prompt_tokens, asked.cached_tokens, life.num_tokens, asked.preemptions, asked.recomputed_tokens,
        )  # fmt: skip
        for name, amount in zip(AMOUNTS, amounts, strict=True):
            self._amounts[name].append(amount)
        self._outcomes.append(asked.outcome)
        self._looked_up.append(asked.looked_up)

    def columns(self) -> RequestColumns:
        """All of them."""
        return RequestColumns(
            moments=MappingProxyType({name: _floats(self._numbers[name]) for name in MOMENTS}),
            latencies=MappingProxyType({name: _floats(self._numbers[name]) for name in LATENCIES}),
            amounts=MappingProxyType({name: _whole(self._amounts[name]) for name in AMOUNTS}),
            outcomes=tuple(self._outcomes),
            looked_up=np.frombuffer(bytes(self._looked_up), dtype=np.bool_),
            gaps=self._gaps,
        )


def _largest_gap(token_at: Sequence[int]) -> tuple[float, float]:
    """The first of the largest gaps between two of at least two tokens."""
    return max(pairwise(token_at), key=lambda pair: pair[1] - pair[0])


def _floats(values: "array[float]") -> Floats:
    return np.array(values, dtype=np.float64)


def _whole(values: "array[int]") -> Whole:
    return np.array(values, dtype=np.int64)
