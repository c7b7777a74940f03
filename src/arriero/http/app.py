"""build_app: the ASGI application of one service. It starts and stops neither the engine nor a loop."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from arriero.core.errors import ArrieroError, EngineFault
from arriero.http.cache_pages import CachePages
from arriero.http.chat import read_chat
from arriero.http.completions import read_completion
from arriero.http.desk import Desk
from arriero.http.endpoint import AnswerEndpoint
from arriero.http.errors import OUR_MISTAKE, Dialect, NoSuchPath, WrongMethod
from arriero.http.explain import ExplainPage
from arriero.http.gate import Gate, dialect_of
from arriero.http.native import read_native
from arriero.http.operations import Operations, error_response
from arriero.http.service import Service

logger: Final = logging.getLogger("arriero.http")


def build_app(service: Service) -> ASGIApp:
    """The endpoints of a service whose engine has been started, or will be before the first request.

    Args:
        service: everything that the endpoints need.
    """
    desk = Desk(service)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        yield
        desk.close()

    answers = _answers(desk)
    rest = Starlette(
        routes=[*(Route(path, endpoint, methods=["POST"]) for path, endpoint in answers.items()), *_operations(desk)],
        exception_handlers={HTTPException: _no_endpoint, ArrieroError: _refused, Exception: _crashed},
        lifespan=lifespan,
    )
    rest.router.redirect_slashes = False  # a redirect would name whatever host the client claims to ask
    return Gate(rest, answers, service.options)


def _answers(desk: Desk) -> dict[str, AnswerEndpoint]:
    """The endpoints that generate."""
    return {
        "/v1/chat/completions": AnswerEndpoint(desk, "chat", Dialect.OPENAI, read_chat),
        "/v1/completions": AnswerEndpoint(desk, "completions", Dialect.OPENAI, read_completion),
        "/completion": AnswerEndpoint(desk, "native", Dialect.NATIVE, read_native),
    }


def _operations(desk: Desk) -> list[BaseRoute]:
    """All other endpoints."""
    service, operations, cache = desk.service, Operations(desk), CachePages(desk)
    routes: list[BaseRoute] = [
        Route("/v1/models", operations.models),
        Route("/v1/models/{name:path}", operations.model),
        Route("/v1/requests/{id}/cancel", operations.cancel, methods=["POST"]),
        Route("/tokenize", operations.tokenize, methods=["POST"]),
        Route("/detokenize", operations.detokenize, methods=["POST"]),
        Route("/health", operations.health),
        Route("/debug/config", operations.config),
        Route("/debug/state", operations.state),
        Route("/debug/cache", cache.cache),
    ]
    if service.book is not None:
        routes.append(Route("/v1/requests/{id}/explain", ExplainPage(desk, service.book).explain))
    if service.page is not None:
        routes.append(Route("/metrics", operations.metrics))
    if service.flush is not None:
        routes.append(Route("/slots/{id}", cache.slots, methods=["POST"]))
    if service.has_shutdown:
        routes.append(Route("/shutdown", operations.shutdown, methods=["POST"]))
    return routes


async def _no_endpoint(request: Request, error: Exception) -> Response:
    path, method = request.url.path, request.method
    if isinstance(error, HTTPException) and error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        response = error_response(WrongMethod(f"{path} takes {allowed}, not {method}"), dialect_of(path))
        response.headers["allow"] = allowed
        return response
    return error_response(NoSuchPath(f"there is no {path[:200]} here"), dialect_of(path))


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, ArrieroError)
    return error_response(error, dialect_of(request.url.path))


async def _crashed(request: Request, error: Exception) -> Response:
    logger.error("%s: %s", request.url.path, type(error).__name__)
    return error_response(EngineFault(OUR_MISTAKE), dialect_of(request.url.path))
