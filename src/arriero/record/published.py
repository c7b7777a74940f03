"""Our names and the published ones (those of the published control plane), in one place.

Published records have no empty numbers: -1 stands for a moment that never came and a slot that was never held.
Words that do not apply are null.
"""

from types import MappingProxyType
from typing import Final

from arriero.core.ids import Time
from arriero.core.request import CancelReason, FinishReason

DOES_NOT_APPLY: Final = -1

STATUSES: Final = MappingProxyType({
    FinishReason.STOP: "completed",
    FinishReason.LENGTH: "completed",
    FinishReason.CANCELLED: "cancelled",
    FinishReason.ABORTED: "failed_reserved",
    FinishReason.FAILED: "failed",
})
"""The published word for an end; a cancel for a stop string is a completion, see `published_status`."""

STREAM_ENDS: Final = MappingProxyType({
    "completed": "completed",
    "cancelled": "cancelled",
    "failed_reserved": "error",
    "failed": "error",
})
"""Status → why the request's token stream was closed."""

TOTALS: Final = MappingProxyType({
    "steps": "update_iterations",
    "decode_calls": "decode_calls",
    "submitted": "submitted_count",
    "admitted": "admitted_count",
    "resolved": "promises_fulfilled",
    "completed": "completed_count",
    "cancelled": "cancelled_count",
    "queued_cancelled": "queued_cancelled",
    "aborted": "failed_reserved_count",
    "failed": "failed_count",
    "emitted_tokens": "tokens_emitted",
    "prefill_rows": "prefill_rows",
    "repeated_rows": "repeated_rows",
    "preemptions": "preemptions",
    "idle_waits": "engine_idle_waits",
    "decode_failures": "decode_failures",
    "prefix_hits": "prefix_hits",
    "cached_tokens": "reused_tokens",
    "moves": "sequence_moves",
    "interrupted_calls": "interrupted_calls",
    "overdue_calls": "overdue_calls",
    "thread_shifts": "thread_shifts",
    "recalibrations": "cost_recalibrations",
})
"""Totals of the engine → fields of `EngineSummaryRow`."""

CANCEL_COUNTS: Final = MappingProxyType({
    "calls": "cancel_request_calls",
    "duplicates": "cancel_request_duplicates",
    "stale_epoch": "cancel_stale_epoch",
    "active_observed": "cancel_active_observed",
    "unknown": "cancel_unknown_request_id",
})
"""Counts of cancels → fields of `EngineSummaryRow`; `queued` is in the totals already."""

STREAM_COUNTS: Final = MappingProxyType({
    "opened": "streams_opened",
    "completed": "streams_closed_completed",
    "cancelled": "streams_closed_cancelled",
    "error": "streams_closed_error",
    "tokens": "stream_tokens_emitted_total",
})
"""Counts of streams → fields of `EngineSummaryRow`."""


def published_status(reason: FinishReason, cancel_reason: CancelReason | None) -> str:
    """The published word for an end; to its caller an answer that a stop string ended is whole."""
    return "completed" if cancel_reason is CancelReason.STOP else STATUSES[reason]


def number(value: Time | None) -> int:
    """A whole number, or -1 where there is none."""
    return DOES_NOT_APPLY if value is None else int(value)


def renamed(values: object, names: MappingProxyType[str, str]) -> dict[str, object]:
    """Attributes of a value under their published names."""
    return {published: getattr(values, ours) for ours, published in names.items()}
