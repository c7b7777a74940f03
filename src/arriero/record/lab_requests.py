"""Rules that one request row keeps by itself, and the row of a request made from its moments."""

from collections.abc import Sequence
from operator import sub
from typing import Any

from arriero.metrics.latency import e2e, queue_time, tpot, ttft
from arriero.record.lab_place import Place
from arriero.record.lab_rows import RequestRow, State, exact


def request_row(  # noqa: PLR0913 - every primary field of the row, by name
    *,
    internal_id: int,
    request_id: str,
    workload_class: str,
    arrival_time_us: int,
    prompt_tokens: list[int] | None,
    prompt_tokens_original: int,
    max_new_tokens: int,
    prefix_group: str | None,
    deadline_us: int | None,
    metadata: dict[str, Any] | None,
    final_state: State,
    admitted_time_us: int | None,
    finish_time_us: int | None,
    decode_token_times_us: list[int],
    prompt_tokens_matched: int,
) -> RequestRow:
    """The row with every derived field filled in."""
    first = decode_token_times_us[0] if decode_token_times_us else None
    mean_gap = tpot(first, finish_time_us, len(decode_token_times_us))
    is_admitted = admitted_time_us is not None
    return RequestRow(
        internal_id=internal_id,
        request_id=request_id,
        workload_class=workload_class,
        arrival_time_us=arrival_time_us,
        prompt_tokens=prompt_tokens,
        prompt_tokens_original=prompt_tokens_original,
        prompt_tokens_matched=prompt_tokens_matched,
        prompt_tokens_scheduled=prompt_tokens_original - prompt_tokens_matched if is_admitted else 0,
        max_new_tokens=max_new_tokens,
        prefix_group=prefix_group,
        deadline_us=deadline_us,
        metadata=metadata or {},
        final_state=final_state,
        admitted_time_us=admitted_time_us,
        first_token_time_us=first,
        finish_time_us=finish_time_us,
        queue_delay_us=_whole(queue_time(arrival_time_us, admitted_time_us)),
        ttft_us=_whole(ttft(arrival_time_us, first)),
        end_to_end_latency_us=_whole(e2e(arrival_time_us, finish_time_us)),
        tpot_us=None if mean_gap is None else exact(mean_gap),
        generated_tokens=len(decode_token_times_us),
        decode_token_times_us=decode_token_times_us,
        inter_token_latencies_us=_gaps(decode_token_times_us),
    )


def check_request(row: RequestRow, place: Place) -> None:
    """Every rule that needs nothing but the row.

    Raises:
        DataError: names line and field.
    """
    times = row.decode_token_times_us
    first = times[0] if times else None
    mean_gap = tpot(first, row.finish_time_us, len(times))
    place.require(
        row,
        {
            "generated_tokens": len(times),
            "first_token_time_us": first,
            "inter_token_latencies_us": _gaps(times),
            "queue_delay_us": queue_time(row.arrival_time_us, row.admitted_time_us),
            "ttft_us": ttft(row.arrival_time_us, first),
            "end_to_end_latency_us": e2e(row.arrival_time_us, row.finish_time_us),
            "tpot_us": None if mean_gap is None else exact(mean_gap),
        },
    )
    _check_state(row, place)
    _check_order(row, place)
    _check_prompt(row, place)


def _check_state(row: RequestRow, place: Place) -> None:
    match row.final_state:
        case "Waiting":
            place.require(row, {"admitted_time_us": None, "finish_time_us": None, "generated_tokens": 0})
        case "Decoding":
            place.require(row, {"finish_time_us": None})
            if row.generated_tokens >= row.max_new_tokens:
                raise place.broken("generated_tokens", "all are generated, so final_state must be Finished; run again")
        case "Finished":
            place.require(row, {"generated_tokens": row.max_new_tokens})
            if row.finish_time_us is None:
                raise place.broken("finish_time_us", "is null in a finished request; run again")
            if row.decode_token_times_us:
                place.require(row, {"finish_time_us": row.decode_token_times_us[-1]})
    if row.final_state != "Waiting" and row.admitted_time_us is None:
        raise place.broken("admitted_time_us", f"is null in a request that is {row.final_state}; run again")


def _check_order(row: RequestRow, place: Place) -> None:
    moments: tuple[tuple[str, int | None], ...] = (
        ("arrival_time_us", row.arrival_time_us),
        ("admitted_time_us", row.admitted_time_us),
        ("first_token_time_us", row.first_token_time_us),
        ("finish_time_us", row.finish_time_us),
    )
    before = 0
    for field, at in moments:
        if at is not None and at < before:
            raise place.broken(field, f"{at} lies before {before}, the moment before it; run again")
        before = before if at is None else at
    if min(row.inter_token_latencies_us, default=0) < 0:
        raise place.broken("decode_token_times_us", "go back in time; run again")


def _check_prompt(row: RequestRow, place: Place) -> None:
    if row.prompt_tokens is not None and len(row.prompt_tokens) != row.prompt_tokens_original:
        raise place.broken("prompt_tokens", f"has {len(row.prompt_tokens)} of {row.prompt_tokens_original} tokens")
    if row.admitted_time_us is None:
        place.require(row, {"prompt_tokens_matched": 0, "prompt_tokens_scheduled": 0})
    elif row.prompt_tokens_matched > row.prompt_tokens_original:
        raise place.broken("prompt_tokens_matched", "more than the prompt holds; run again")
    else:
        place.require(row, {"prompt_tokens_scheduled": row.prompt_tokens_original - row.prompt_tokens_matched})


def _gaps(times: Sequence[int]) -> list[int]:
    return list(map(sub, times[1:], times))


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
