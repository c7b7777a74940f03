"""Rows of a simulation in arriero's own mode, schema `arriero-simulator-v1`.

    run row, then: step rows (as the trace level says), request rows by internal id, one summary row

Keys ascend and there are no spaces, so the same run gives the same bytes. Times are whole microseconds. The schema id
is never that of the published simulator, so the two cannot be taken for each other.
"""

import json
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from arriero.core.events import PrefixSource
from arriero.metrics.latency import Life
from arriero.metrics.served import Outcome, Served
from arriero.metrics.steps import StepFigures
from arriero.record.sim_reuse import ReuseTotals
from arriero.record.strict import Count, Name, Positive

SCHEMA: Final = "arriero-simulator-v1"


class _Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line."""


class Deferred(_Row, frozen=True, kw_only=True):
    """A candidate that did not fit into a step."""

    reason: Name
    request_id: Positive


class StepRow(_Row, frozen=True, kw_only=True):
    """One step; ids only in a full trace.

    Attributes:
        deferred: reason → how many candidates did not fit for it.
        kv_held: cells or blocks held after the step.
    """

    began_at_us: Count
    decode_ids: list[Positive] | UnsetType = UNSET
    decode_rows: Count
    deferred: dict[str, Count]
    deferred_ids: list[Deferred] | UnsetType = UNSET
    ended_at_us: Count
    kv_held: Count
    num_running: Count
    num_waiting: Count
    preempted: Count = 0
    prefill_ids: list[Positive] | UnsetType = UNSET
    prefill_rows: Count
    record_type: Literal["step"] = "step"
    schema_version: Literal["arriero-simulator-v1"] = SCHEMA
    step: Count


class SimRequestRow(_Row, frozen=True, kw_only=True):
    """What became of one request.

    Attributes:
        cached_tokens: of the prompt, taken over at the first start.
        looked_up: whether a prefix cache was asked.
        prefix: where the cached tokens came from; null without any.
        reason: why it was rejected or cancelled; null otherwise.
    """

    arrival_at_us: Count
    cached_tokens: Count
    finished_at_us: Count | None
    first_token_at_us: Count | None
    generated_tokens: Count
    internal_id: Positive
    looked_up: bool
    max_new_tokens: Count
    outcome: Outcome
    preemptions: Count
    prefix: PrefixSource | None = None
    prefix_group: str | None
    prompt_tokens: Count
    reason: Name | None
    recomputed_tokens: Count
    record_type: Literal["request"] = "request"
    request_id: Name
    schema_version: Literal["arriero-simulator-v1"] = SCHEMA
    started_at_us: Count | None
    token_at_us: list[Count]
    workload_class: Name

    @property
    def served(self) -> Served:
        """What metrics need; the largest gap is left to the tally."""
        life = Life(
            self.arrival_at_us, self.started_at_us, self.first_token_at_us, self.finished_at_us, self.generated_tokens
        )
        return Served(
            life=life,
            outcome=self.outcome,
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            was_looked_up=self.looked_up,
            largest_gap=None,
            num_preemptions=self.preemptions,
            recomputed_tokens=self.recomputed_tokens,
        )


class SimTotals(NamedTuple):
    """What a run knows at its end beside its rows."""

    ended_at_us: int  # the clock
    steps: StepFigures
    evictions: int = 0  # cached blocks or runs that had to go
    reuse: ReuseTotals | None = None  # of cells with reuse


SimRow: TypeAlias = StepRow | SimRequestRow

_ENCODER: Final = msgspec.json.Encoder()


def encode_sim_row(row: SimRow) -> bytes:
    """One line without its end. Rows hold no floats, so one encoder suffices."""
    return _ENCODER.encode(row)


def encode_table(values: dict[str, Any]) -> bytes:
    """A run or summary row: a line without its end."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
