"""AnswerEndpoint: an ASGI endpoint that reads a body, makes an order of it and has it delivered."""

from collections.abc import Callable
from typing import TypeAlias

from starlette.types import Receive, Scope, Send

from arriero.core.errors import ArrieroError
from arriero.http.delivery import Delivery
from arriero.http.desk import Desk, tenant_of
from arriero.http.errors import Dialect, failure
from arriero.http.exchange import ClientGone, Exchange
from arriero.http.order import Order
from arriero.http.rows import Story
from arriero.http.service import Service

Reader: TypeAlias = Callable[[Service, bytes], Order]


class AnswerEndpoint:
    """One path that generates."""

    def __init__(self, desk: Desk, name: str, dialect: Dialect, read: Reader) -> None:
        """`read` makes an order of a body, or raises what is wrong with it; nothing is taken before it returns."""
        self._desk = desk
        self._name = name
        self._dialect = dialect
        self._read = read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        service = self._desk.service
        exchange = Exchange(scope, receive, send)
        story = Story(service, exchange, self._name, self._dialect, entered_at=service.engine.now())
        try:
            order = self._read(service, await exchange.read_body(service.options.max_body_bytes))
            story.arrival_at = service.engine.now()
            story.stamps.parse_done = story.now()
            await Delivery(self._desk, exchange, order, tenant_of(scope), story).run()
        except ClientGone:
            pass
        except ArrieroError as error:
            story.error = error
            await exchange.refuse(failure(error, self._dialect))
        finally:
            story.tell()
