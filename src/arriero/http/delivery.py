"""Delivery: from a sound request to its last byte.

    take    a place at the door for each sequence, or a refusal before any byte
    watch   from here on a client that leaves cancels its request, in whichever stage it is
    prepare the prompt is tokenised on a worker, and weighed at the door
    submit  one request of the engine for each sequence
    tell    tokens become text, pieces and bytes as they come
    leave   places are given back, then the last bytes go: who asks again at once finds them free

Streams and whole bodies take the same way; only the form differs. Before the first byte an error is a status; after it
one event, and the end.
"""

import asyncio
import logging
from typing import Final

from arriero.core.errors import ArrieroError, EngineFault, QueueTimeout
from arriero.core.ids import Time
from arriero.core.request import CancelReason
from arriero.http.answering import Answering
from arriero.http.desk import Desk
from arriero.http.errors import AnswerCut, failure
from arriero.http.exchange import Exchange
from arriero.http.order import Ask, Order
from arriero.http.places import Places
from arriero.http.pump import Pump
from arriero.http.rows import Story
from arriero.http.scopes import scope_of
from arriero.http.tenants import Tenant
from arriero.tokens.detokenizer import Detokenizer

logger: Final = logging.getLogger("arriero.http")


class Delivery:
    """One request on its way; used once."""

    def __init__(self, desk: Desk, exchange: Exchange, order: Order, tenant: Tenant, story: Story) -> None:
        """Nothing is taken yet."""
        self._desk = desk
        self._exchange = exchange
        self._order = order
        self._tenant = tenant
        self._story = story
        self._places = Places(desk, order, tenant)
        self._patience = asyncio.timeout(None)
        self._answerings: list[Answering] = []
        self._cancelled: CancelReason | None = None
        self._has_left = False
        wanted = exchange.header(b"x-request-id")
        story.answer_id = self._id = desk.answer_id(tenant, order.prefix, wanted)
        self._form = order.form(self._id)
        story.streams = self._form.streams
        desk.stories.begin(tenant, story)

    @property
    def _arrival_at(self) -> Time:
        arrival_at = self._story.arrival_at
        assert arrival_at is not None, "it is delivered after it has arrived"
        return arrival_at

    async def run(self) -> None:
        """Answer; every way out gives back the places and ends what still runs."""
        async with self._exchange.watched(self._on_gone):
            try:
                await self._answer_in_time()
                self._leave()
                await self._finish()
            except ArrieroError as error:
                self._story.error = error
                self._leave()
                await self._fail(error)
            finally:
                self._leave()
                self._desk.stories.end(self._tenant, self._story)

    # ── the way of a request ────────────────────────────────────────────────────────────────────────────────────────

    async def _answer_in_time(self) -> None:
        """Answer, unless it waits for too long: then it is refused at once, even in the middle of a step.

        Raises:
            QueueTimeout, DeadlineHopeless: no slot was free in time.
        """
        try:
            async with self._patience:
                await self._answer()
        except TimeoutError:
            if not self._patience.expired():
                raise
            raise self._places.too_late() from None
        except QueueTimeout:  # the engine came to a boundary first
            raise self._places.too_late() from None

    async def _answer(self) -> None:
        self._places.take(self._arrival_at, self._on_late)
        self._desk.live.add(self._tenant, self._id, self._on_user)
        asks = await self._desk.on_worker(self._order.prepare)
        self._story.stamps.tokenize_done = self._story.now()
        if self._cancelled is CancelReason.QUEUE_TIMEOUT:  # told in the very turn of the loop that brought the tokens
            raise self._places.too_late()
        if self._cancelled is not None:
            raise AnswerCut(self._cancelled)
        self._places.weigh(asks, self._arrival_at)
        self._form.begin(tuple(len(ask.prompt) for ask in asks))
        self._story.stamps.submit = self._story.now()
        for index, ask in enumerate(asks):
            self._answerings.append(self._submit(index, ask))
        self._story.answerings = self._answerings
        if len(self._answerings) == 1:
            await self._tell(self._answerings[0])
        else:
            await self._tell_all()

    def _submit(self, index: int, ask: Ask) -> Answering:
        service = self._desk.service
        text = Detokenizer(service.vocabulary, self._order.stops)
        if ask.max_tokens == 0:
            return Answering(index, ask, None, text)
        handle = service.engine.submit(
            ask.prompt,
            ask.max_tokens,
            sampling=ask.sampling,
            end_tokens=ask.end_tokens,
            min_tokens=ask.min_tokens,
            # whoever reads the whole answer at its end is woken once, unless a stop string has to be looked for
            want_stream=self._form.streams or bool(self._order.stops),
            session_id=self._order.sharing.session_id or None,
            cache_scope=scope_of(service.options.cache_scope, self._tenant.scope, self._order.sharing),
            timeout_ms=ask.timeout_ms,
            place=self._places[index],
            arrival_at=self._arrival_at,
            priority=self._order.urgency.priority or 0,
            deadline_ms=self._order.urgency.deadline_ms,
            queue_timeout_ms=self._places.patience_ms if index == 0 else None,
            tenant=self._tenant.scope,
        )
        return Answering(index, ask, handle, text)

    async def _tell_all(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for each in self._answerings:
                    group.create_task(self._tell(each))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _tell(self, each: Answering) -> None:
        """Tell one sequence; after its end, or without a client, only wait for the engine."""
        exchange, form = self._exchange, self._form
        if each.handle is not None:
            if each.handle.stream is not None:
                await Pump(each, each.handle.stream, form, exchange, self._write).run()
            await each.take_result(form)
        each.result_at = self._story.now()
        if not exchange.is_gone and (data := each.word_rest(form)):
            self._write(data)
            await exchange.unblocked()

    def _write(self, data: bytes) -> None:
        if self._exchange.status is None:
            self._story.stamps.response_ready = self._story.now()
            self._exchange.begin_stream(self._headers)
        self._exchange.write(data)

    async def _finish(self) -> None:
        exchange = self._exchange
        if exchange.is_gone:
            self._log_gone()
        elif self._form.streams:
            if not exchange.has_begun:
                exchange.begin_stream(self._headers)
            await exchange.end_stream(self._form.close())
        else:
            body = self._form.close()
            self._story.stamps.response_ready = self._story.now()
            await exchange.respond(200, body, self._headers)

    async def _fail(self, error: ArrieroError) -> None:
        exchange = self._exchange
        if exchange.is_gone:
            self._log_gone()
        elif exchange.has_begun:
            await exchange.end_stream(self._form.failed(error))
        else:
            await exchange.refuse(failure(error, self._order.dialect), self._headers)
        if isinstance(error, EngineFault):
            logger.error("%s: %s", self._id, error)

    def _log_gone(self) -> None:
        num_tokens = sum(each.result.num_decoded for each in self._answerings if each.result is not None)
        logger.info("%s: the client left; cancelled after %d tokens", self._id, num_tokens)

    @property
    def _headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"x-request-id", self._id.encode())]

    # ── cancels, and the way out ────────────────────────────────────────────────────────────────────────────────────

    def _on_gone(self) -> None:
        self._cancel(CancelReason.DISCONNECT)

    def _on_user(self) -> None:
        self._cancel(CancelReason.USER)

    def _on_late(self) -> None:
        """It has not started; who is cancelled already only waits for the engine to say so."""
        if self._cancelled is None:
            self._cancelled = CancelReason.QUEUE_TIMEOUT
            self._patience.reschedule(asyncio.get_running_loop().time())

    def _cancel(self, reason: CancelReason) -> None:
        """The first reason counts; a request that is not submitted yet will not be."""
        if self._cancelled is not None:
            return
        self._cancelled = reason
        for each in self._answerings:
            if each.handle is not None and not each.handle.is_done:
                self._story.cancelled_at = self._desk.service.engine.now()
                each.handle.cancel(reason)

    def _leave(self) -> None:
        """Give everything back, once; whatever still runs has no reader any more."""
        if self._has_left:
            return
        self._has_left = True
        for each in self._answerings:
            if each.handle is not None:
                each.handle.cancel(self._cancelled or CancelReason.DISCONNECT)
        self._desk.live.remove(self._tenant, self._id)
        self._places.leave()
