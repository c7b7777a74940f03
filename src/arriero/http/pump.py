"""Pump: tells the tokens of one sequence where the engine's wake-up arrives, without waking a task.

    engine ──wake-up──▶ take ──▶ word ──▶ write      nothing blocks: one call on the event loop, and no task runs
                          │                 │
                          └──── the end ────┴─ the client does not read ──▶ the request's task goes on

To wake a task costs a second turn of the loop and the resumption of every coroutine between the server and the one
that waits. For each token of each stream this is the greater part of the work, and its code is cold every time, since
the decode call in between has used the caches. So the task sleeps while tokens flow, and is woken when there is
something to wait for: a client that does not read, the end, or an error.
"""

import asyncio
from collections.abc import Callable

from arriero.core.ids import TokenId
from arriero.engine.handle import TokenStream
from arriero.http.answering import Answering
from arriero.http.exchange import Exchange
from arriero.http.form import Form


class Pump:
    """One token stream on its way to the client; used once, on the event loop."""

    def __init__(
        self, answering: Answering, stream: TokenStream, form: Form, exchange: Exchange, write: Callable[[bytes], None]
    ) -> None:
        """`write` writes a part of the response to `exchange`, and returns though the client may not read."""
        self._answering = answering
        self._stream = stream
        self._form = form
        self._exchange = exchange
        self._write = write
        self._merges = False
        # what the task waits for while tokens flow; done: the task is at work
        self._halt = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Tell tokens until the stream has ended and its last token is taken.

        Raises:
            Exception: whatever taking, wording or writing raised.
        """
        self._stream.on_change(self._flow)
        try:
            while not await self._flowing():
                await self._exchange.unblocked()
                # what came meanwhile is told in one piece, so that the client catches up
                self._merges = not self._form.tells_tokens
        finally:
            self._stream.on_change(None)

    async def _flowing(self) -> bool:
        """Let tokens flow until they cannot any more; whether that is because it was the last one."""
        self._halt = asyncio.get_running_loop().create_future()
        self._flow()
        await self._halt
        return self._stream.is_over

    def _flow(self) -> None:
        """Tell what has come. While the task is at work nothing is taken: it calls this itself when it is done."""
        halt = self._halt
        if halt.done():
            return
        try:
            if not self._tell():
                halt.set_result(None)
        except Exception as error:  # noqa: BLE001 - it is raised in the task
            halt.set_exception(error)

    def _tell(self) -> bool:
        """Take, word and write; whether more can follow at once."""
        stream, each, exchange = self._stream, self._answering, self._exchange
        if exchange.is_blocked:  # by another sequence of the same request
            return False
        closed = stream.close_reason is not None  # read first: a last token may come between the two
        if tokens := stream.take():
            each.num_takes += 1
            if each.ending is None and not exchange.is_gone:
                self._word(tokens)
        return not (closed or exchange.is_blocked)

    def _word(self, tokens: tuple[TokenId, ...]) -> None:
        each, form = self._answering, self._form
        data = each.word(tokens, form, merge=self._merges or not form.streams)
        self._merges = False
        if each.ending is not None:
            each.stop()
        if data:
            self._write(data)
