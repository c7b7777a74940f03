"""Rows and counts of a request that is over: what the request log and the metrics are told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from arriero.core.errors import (
    ArrieroError,
    DeadlineHopeless,
    KeyLimit,
    KeyTokenLimit,
    QueueFull,
    QueueTimeout,
    QueueTokensFull,
    Refused,
)
from arriero.core.ids import Time
from arriero.http.answering import Answering
from arriero.http.errors import AnswerCut, Dialect, failure, kind_of
from arriero.http.exchange import Exchange
from arriero.http.request_log import RequestRow
from arriero.http.service import Service

REFUSALS: Final[Mapping[type[Refused], str]] = MappingProxyType({
    QueueTokensFull: "backlog_tokens",
    QueueFull: "backlog",
    KeyTokenLimit: "key_tokens",
    KeyLimit: "key_requests",
    QueueTimeout: "queue_timeout",
    DeadlineHopeless: "deadline",
})
"""Words of `arriero_requests_rejected_total`, by class; a class stands before its base."""


@dataclass(slots=True)
class Stamps:
    """Moments of one request; left at None where no rows are made."""

    parse_done: Time | None = None
    tokenize_done: Time | None = None
    submit: Time | None = None
    response_ready: Time | None = None


@dataclass(slots=True)
class Story:
    """What happened to one request, collected while it happens.

    Attributes:
        endpoint: its name in metrics.
        error: what it was answered with instead of an answer.
        entered_at: when its head had been read.
        arrival_at: when it was complete and found sound.
        cancelled_at: when a cancel was sent to the engine.
    """

    service: Service
    exchange: Exchange
    endpoint: str
    dialect: Dialect
    entered_at: Time
    answer_id: str = ""
    streams: bool = False
    answerings: Sequence[Answering] = ()
    error: ArrieroError | None = None
    arrival_at: Time | None = None
    cancelled_at: Time | None = None
    stamps: Stamps = field(default_factory=Stamps)

    def now(self) -> Time | None:
        """The moment, if somebody wants to know."""
        return None if self.service.request_log is None else self.service.engine.now()

    def tell(self) -> None:
        """Tell the request log and the metrics; once, at the very end."""
        metrics = self.service.metrics
        if metrics is not None:
            if self.error is not None and self._is_rejected:
                metrics.count_rejection(_reason(self.error), self.service.engine.now() - self.entered_at)
            for each in self.answerings:
                if self.cancelled_at is not None and each.result is not None:
                    metrics.observe_cancel(each.result.finished_at - self.cancelled_at)
            for outcome in self._outcomes():
                metrics.count_request(self.endpoint, outcome)
        if self.service.request_log is not None:
            for row in self._rows():
                self.service.request_log.on_request(row)

    @property
    def _was_late(self) -> bool:
        """Whether it was let in and then refused, since it had not started in time."""
        return isinstance(self.error, QueueTimeout | DeadlineHopeless)

    @property
    def _is_rejected(self) -> bool:
        """Whether nothing was computed for it."""
        return not self.answerings or self._was_late

    def _outcomes(self) -> list[str]:
        if self._was_late:
            return ["rejected" for _ in self.answerings] or ["rejected"]
        if not self.answerings:
            return ["cancelled" if self.error is None or isinstance(self.error, AnswerCut) else "rejected"]
        return [self._outcome(each) for each in self.answerings]

    def _outcome(self, each: Answering) -> str:
        if each.ending is not None and each.ending.reason in {"stop", "length"}:
            return each.ending.reason
        if self.error is not None and not isinstance(self.error, AnswerCut):
            return "error"
        if each.result is not None and each.result.error is not None:
            return "error"
        if each.result is not None and each.ending is not None:
            return each.result.reason.value if each.result.cancel_reason is None else "cancelled"
        return "cancelled"

    def _rows(self) -> list[RequestRow]:
        exchange, stamps = self.exchange, self.stamps
        error_code = None if self.error is None else failure(self.error, self.dialect).code
        common = RequestRow(
            request_id=None,
            answer_id=self.answer_id,
            path=exchange.path,
            stream=self.streams,
            outcome="rejected" if self._is_rejected else "answered",
            http_status=exchange.status,
            error_code=error_code,
            submit_us=stamps.submit,
            sse_write_count=exchange.num_writes,
            sse_write_bytes=exchange.num_bytes,
            disconnect_observed=exchange.is_gone,
            cancel_issued=self.cancelled_at is not None,
            t_entry_us=self.entered_at,
            t_parse_done_us=stamps.parse_done,
            t_tokenize_done_us=stamps.tokenize_done,
            t_response_ready_us=stamps.response_ready,
            t_exit_us=self.now(),
        )
        return [_row(common, each) for each in self.answerings] or [common]


def _row(common: RequestRow, each: Answering) -> RequestRow:
    row = replace(
        common,
        request_id=None if each.handle is None else int(each.handle.request_id),
        stream_channel_get_count=each.num_takes,
        prompt_tokens=len(each.ask.prompt),
        completion_tokens=None if each.ending is None else each.ending.completion_tokens,
        t_result_available_us=each.result_at,
    )
    return row if each.result is None else row.with_result(each.result)


def _reason(error: ArrieroError) -> str:
    """The closed set of `arriero_requests_rejected_total`."""
    if isinstance(error, AnswerCut):
        return "cancelled"
    if isinstance(error, Refused):
        return next((word for kind, word in REFUSALS.items() if isinstance(error, kind)), "unavailable")
    kind = kind_of(error)
    if kind.status >= 500:
        return "error"
    return "context" if kind.code == "context_length_exceeded" else "invalid"
