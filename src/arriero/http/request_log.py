"""RequestRow and RequestLog: one row for every request that came in, rejected ones included.

Field names are those of the published per-request record (`server_request`), section 13.3 of the control plane. Times
are whole microseconds on the engine's clock; a moment that never came is None.
"""

from dataclasses import dataclass, replace
from typing import Literal, Protocol

from arriero.core.ids import Time
from arriero.core.request import CancelReason, FinishReason
from arriero.engine.handle import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRow:
    """One sequence that was asked for; a request with several prompts has a row for each.

    Attributes:
        request_id: the engine's number; None if the request never reached it.
        answer_id: the opaque id that the client saw.
        outcome: `rejected` before it reached the engine, else `answered`.
        http_status: of the response; None if the client was gone before there was one.
        error_code: of the error body, or None.
        final_status: `completed`, `cancelled`, `failed_reserved` or `failed`; None for a rejected one.
        stream_channel_get_count: pieces taken from the token stream.
        sse_write_count, sse_write_bytes: of the whole response, headers excluded.
        n_decoded: tokens that the engine emitted.
        completion_tokens: tokens up to the end of the answer: fewer, if a stop string was found in them.
        reused_tokens: prompt tokens that were not computed again.
        matched_tokens: prompt tokens that some run of its cache scope held when it started, reused or not.
        prefix_source: where the reused ones came from: `session`, `tree`, `running`, `host`, `disk`; None: nowhere.
        reuse: the verdict: `reused`, or why not; None if it never started.
    """

    request_id: int | None
    answer_id: str
    path: str
    stream: bool
    outcome: Literal["answered", "rejected"]
    http_status: int | None
    error_code: str | None
    final_status: str | None = None
    submit_us: Time | None = None
    first_token_us: Time | None = None
    completion_us: Time | None = None
    stream_channel_get_count: int = 0
    sse_write_count: int = 0
    sse_write_bytes: int = 0
    disconnect_observed: bool = False
    cancel_issued: bool = False
    n_decoded: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reused_tokens: int = 0
    matched_tokens: int = 0
    prefix_source: str | None = None
    reuse: str | None = None
    t_entry_us: Time | None = None
    t_parse_done_us: Time | None = None
    t_tokenize_done_us: Time | None = None
    t_admitted_us: Time | None = None
    t_complete_us: Time | None = None
    t_result_available_us: Time | None = None
    t_response_ready_us: Time | None = None
    t_exit_us: Time | None = None

    def with_result(self, result: Result) -> "RequestRow":
        """The row with what the engine knows."""
        return replace(
            self,
            final_status=status_of(result),
            first_token_us=result.first_token_at,
            completion_us=result.finished_at,
            n_decoded=result.num_decoded,
            prompt_tokens=result.prompt_tokens,
            reused_tokens=result.cached_tokens,
            matched_tokens=result.matched_tokens,
            prefix_source=None if result.prefix is None else result.prefix.value,
            reuse=None if result.admitted_at is None else result.verdict.value,
            t_admitted_us=result.admitted_at,
            t_complete_us=result.finished_at,
        )


class RequestLog(Protocol):
    """Told every row, on the event loop; must be quick and must not wait."""

    def on_request(self, row: RequestRow) -> None:
        """A request is over."""
        ...


def status_of(result: Result) -> str:
    """The published word for an end."""
    match result.reason:
        case FinishReason.STOP | FinishReason.LENGTH:
            return "completed"
        case FinishReason.CANCELLED:
            return "completed" if result.cancel_reason is CancelReason.STOP else "cancelled"
        case FinishReason.ABORTED:
            return "failed_reserved"
        case FinishReason.FAILED:
            return "failed"
