"""`GET /v1/requests/{id}/explain`: where the time of a request went, while it is answered and for a while after.

A tenant is told of its own requests only. Others whose prompts it waited for appear by the engine's numbers, and by
their ids where they are its own.
"""

import asyncio
from typing import Final

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from arriero.core.errors import UnknownRequest
from arriero.engine.explain_book import ExplainBook
from arriero.http.desk import Desk, tenant_of
from arriero.http.explain_stories import Told
from arriero.http.operations import json_response
from arriero.metrics.explain_parts import Explanation
from arriero.record.explained import ExplainedRow, explained_row

PREPARING: Final = "preparing"
ANSWERING: Final = "answering"
ANSWERED: Final = "answered"
REFUSED: Final = "refused"


class ExplainBody(Struct, frozen=True, kw_only=True):
    """The answer.

    Attributes:
        state: `preparing` before its prompt is tokens, `answering`, `answered`, or `refused` before it reached the
            engine.
        error: the code of the error that it was answered with, or null.
        total_us: from arrival to the last byte; null before that.
        sequences: one for each that was asked for, in their order; those of which nothing is kept are left out.
    """

    id: str
    state: str
    error: str | None
    total_us: int | None
    sequences: list[ExplainedRow]
    object: str = "request.explanation"


class ExplainPage:
    """The endpoint of one application."""

    def __init__(self, desk: Desk, book: ExplainBook) -> None:
        """`book` observes the engine of the desk's service."""
        self._desk = desk
        self._book = book

    async def explain(self, request: Request) -> Response:
        """The whole story, or as much of it as there is.

        Raises:
            UnknownRequest: this tenant has no such request, or it ended too long ago.
        """
        tenant, answer_id = tenant_of(request.scope), str(request.path_params["id"])
        told = self._desk.stories.find(tenant, answer_id)
        if told is None:
            raise _unknown()
        found = self._find(told)
        if told.exit_at is not None and any(each.ending.state.is_alive for each in found):
            await self._next_boundary()  # its end was told to its client before it was told to the book
            found = self._find(told)
        if told.exit_at is not None and told.num_asked and not found:
            raise _unknown()
        names = self._desk.stories.names(tenant)
        rows = [explained_row(each, delivery=_delivery(each, told), names=names) for each in found]
        body = ExplainBody(
            id=answer_id,
            state=_state(told),
            error=told.error,
            total_us=None if told.exit_at is None else int(told.exit_at - told.arrival_at),
            sequences=rows,
        )
        return json_response(body)

    def _find(self, told: Told) -> list[Explanation]:
        maybe = (self._book.find(each) for each in told.request_ids if each is not None)
        return [each for each in maybe if each is not None]

    async def _next_boundary(self) -> None:
        """Wait until the step under way is over, or too much time has passed."""
        engine, patience_s = self._desk.service.engine, self._desk.service.options.ask_timeout_s
        try:
            await asyncio.wait_for(engine.ask_snapshot(), patience_s)
        except TimeoutError:
            return


def _unknown() -> UnknownRequest:
    return UnknownRequest("no request of this id is being answered or has ended lately", field="id")


def _delivery(explanation: Explanation, told: Told) -> int | None:
    """From the end of a sequence to the last byte of the answer; None before that."""
    if told.exit_at is None or explanation.ending.state.is_alive:
        return None
    return max(0, int(told.exit_at) - explanation.moments.until)


def _state(told: Told) -> str:
    if told.exit_at is None:
        return ANSWERING if told.request_ids else PREPARING
    return REFUSED if told.error is not None and not told.request_ids else ANSWERED
