"""AnswerEndpoint: an ASGI endpoint that reads a body, makes an order of it and has it delivered.

It stands right behind the gate, without a framework around it: each layer there would see every part of every stream.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from starlette.types import Receive, Scope, Send

from arriero.core.errors import ArrieroError, EngineFault
from arriero.http.delivery import Delivery
from arriero.http.desk import Desk, tenant_of
from arriero.http.errors import OUR_MISTAKE, Dialect, failure
from arriero.http.exchange import ClientGone, Exchange
from arriero.http.order import Order
from arriero.http.rows import Story
from arriero.http.service import Service

logger: Final = logging.getLogger("arriero.http")

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
            order = _with_headers(order, exchange)
            story.arrival_at = service.engine.now()
            story.stamps.parse_done = story.now()
            await Delivery(self._desk, exchange, order, tenant_of(scope), story).run()
        except ClientGone:
            pass
        except ArrieroError as error:
            story.error = error
            await exchange.refuse(failure(error, self._dialect))
        except Exception as error:
            logger.error("%s: %s", exchange.path, type(error).__name__)  # noqa: TRY400 - whoever serves logs the rest
            if not exchange.has_begun:
                await exchange.refuse(failure(EngineFault(OUR_MISTAKE), self._dialect))
            raise
        finally:
            story.tell()


def _with_headers(order: Order, exchange: Exchange) -> Order:
    """What headers say for clients that cannot change their bodies.

    Raises:
        InvalidRequest: a header is malformed, or the body says otherwise.
    """
    return replace(
        order,
        sharing=order.sharing.with_header(exchange.header(b"x-session-id")),
        urgency=order.urgency.with_headers(exchange.header(b"x-priority"), exchange.header(b"x-deadline-ms")),
    )
