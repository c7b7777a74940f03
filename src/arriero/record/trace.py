"""Lines of the lifecycle trace: `event=<name> key=value ...`, one for each event.

Names and keys of the published events are those of the published control plane; `docs/diagnostics.md`
says when each is written. A line never holds text of a prompt or an answer.
"""

import json
import re
from types import MappingProxyType
from typing import Final

TRACE_EVENTS: Final = MappingProxyType({
    # run
    "engine_start": ("n_seqs", "prompt_tokens", "max_budget"),
    "engine_task_placement": ("pool",),
    "engine_stop": ("decode_calls", "update_iterations", "wall_ms"),
    "engine_crashed": ("error",),
    "trace_gap": ("dropped",),
    # requests that start with step 0, and what all requests share
    "request_admitted": ("seq", "budget"),
    "seq_prefilled": ("seq", "first_token"),
    "decode_row": ("iter", "seq", "pos"),
    "seq_complete": ("seq", "budget", "done_iter", "hash"),
    "kv_cleared": ("seq", "pos_max_at_clear", "cross_talk_ok"),
    "promise_fulfilled": ("seq", "ttc_us"),
    # requests that wait first
    "request_submitted_external": ("request", "epoch", "budget", "submit_us"),
    "arrival_drained": ("request", "epoch", "iter"),
    "request_queued": ("request", "budget", "queue_pos"),
    "request_admitted_live": ("request", "reused_seq_id", "iter", "seq_id", "source"),
    "seq_reused": ("seq_id", "previous_owner", "new_owner", "iter"),
    "admitted_prefilled": ("request", "seq_id", "iter"),
    "admitted_decode_row": ("request", "seq_id", "iter", "pos"),
    "admitted_complete": ("request", "seq_id", "budget", "done_iter", "hash"),
    # requests that lose their slot, fail or are turned away
    "request_preempted": ("request", "seq_id", "iter", "cause", "n_computed"),
    "request_resumed": ("request", "seq_id", "iter"),
    "request_moved": ("request", "seq_id", "to_seq_id", "iter"),
    "request_failed": ("request", "seq_id", "iter", "code"),
    "request_rejected": ("request", "error"),
    # what stays in KV after its request
    "prefix_reused": ("request", "seq_id", "n_tokens", "source"),
    "resident_slot_created": ("seq_id", "n_tokens"),
    "resident_slot_evicted": ("seq_id", "iter"),
    "resident_slot_cleared_teardown": ("seq_id",),
    # cancels of running requests
    "cancel_requested": ("seq", "budget", "cancel_after"),
    "cancel_observed": ("seq", "iter", "n_decoded"),
    "cancel_kv_cleared": ("seq", "pos_max_at_clear", "cross_talk_ok"),
    "cancel_future_fulfilled": ("seq", "status", "ttc_us"),
    # cancels as they come out of the inbox
    "cancel_drained": ("request",),
    "cancel_drained_token": ("request", "epoch"),
    "cancel_active_observed": ("request",),
    "cancel_active_observed_token": ("request", "epoch"),
    "cancel_request_duplicate": ("request",),
    "cancel_request_duplicate_token": ("request", "epoch"),
    "cancel_stale_epoch": ("request", "epoch"),
    "cancel_unknown_request_id": ("request",),
    "cancel_unknown_request_id_token": ("request", "epoch"),
    "queued_cancelled": ("request", "reason"),
    "queued_shutdown_aborted": ("request",),
    # streams
    "token_stream_opened": ("request", "seq_id"),
    "token_stream_token": ("request", "seq_id", "pos", "token"),
    "token_stream_closed": ("request", "seq_id", "n_tokens", "reason"),
})
"""Event → its keys, in order."""

_PLAIN: Final = re.compile(r"[^\s=\"]+")


def trace_line(event: str, *values: str | float) -> bytes:
    """One line, without its end; the values in the order of the event's keys."""
    pairs = zip(TRACE_EVENTS[event], values, strict=True)
    return " ".join((f"event={event}", *(f"{key}={_text(value)}" for key, value in pairs))).encode()


def trace_gap_line(dropped: int) -> bytes:
    """The line of a `LineWriter` of a trace that says how many steps are missing."""
    return trace_line("trace_gap", dropped)


def _text(value: str | float) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str() if not _PLAIN.fullmatch(value):
            return json.dumps(value)
        case _:
            return str(value)
