"""Rows of a server's diagnostics, as they would be written."""

from arriero.record.diagnostics import IterRow, ServerRequestRow


def step(
    *,
    rows: int = 1,
    prefill: int = 0,
    active: int = 1,
    waiting: int = 0,
    completed: int = 0,
    wall_us: int = 1_000,
    idle_us: int = 0,
    emitted: int | None = None,
    at_us: int = 0,
) -> IterRow:
    """One pass; `rows` are all of them, `prefill` those of prompts."""
    return IterRow(
        iter=1,
        t_us_from_engine_start=at_us,
        decoded=rows > 0,
        outcome="sampled" if rows else None,
        batch_n_tokens=rows,
        prefill_rows_in_iter=prefill,
        decode_rows_in_iter=rows - prefill,
        active_seq_count=active,
        admitted_in_iter=0,
        completed_in_iter=completed,
        cancelled_in_iter=0,
        queued_cancelled_in_iter=0,
        failed_in_iter=0,
        failed_reserved_in_iter=0,
        preempted_in_iter=0,
        tokens_emitted_in_iter=rows - prefill if emitted is None else emitted,
        waiting_queue_depth_after_admission=waiting,
        resident_count=0,
        evicted_in_iter=0,
        prefill_requests_advanced=int(prefill > 0),
        prefill_caps_hit=(),
        decode_calls_in_iter=int(rows > 0),
        llama_decode_wall_us=wall_us,
        iter_wall_us=wall_us,
        idle_wait_us=idle_us,
    )


def request_row(request_id: str, *, submit_us: int = 0, done_us: int = 1_000, n_decoded: int = 8) -> ServerRequestRow:
    """One request that was answered."""
    return ServerRequestRow(
        request_id=1,
        answer_id=request_id,
        path="/v1/completions",
        stream=False,
        outcome="answered",
        http_status=200,
        error_code=None,
        final_status="completed",
        n_decoded=n_decoded,
        prompt_tokens=5,
        completion_tokens=n_decoded,
        reused_tokens=0,
        submit_us=submit_us,
        first_token_us=submit_us,
        completion_us=done_us,
        stream_channel_get_count=0,
        sse_write_count=1,
        sse_write_bytes=1,
        disconnect_observed=False,
        cancel_issued=False,
        t_entry_us=submit_us,
        t_parse_done_us=submit_us,
        t_tokenize_done_us=submit_us,
        t_admitted_us=submit_us,
        t_complete_us=done_us,
        t_result_available_us=done_us,
        t_response_ready_us=done_us,
        t_exit_us=done_us,
    )
