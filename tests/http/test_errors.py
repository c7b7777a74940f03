"""One table of errors: every class has a row, in both dialects, and bodies have one shape."""

import json

import pytest

from arriero.core import errors as core_errors
from arriero.core.errors import (
    ArrieroError,
    CallerError,
    ConfigError,
    ContextTooLong,
    DeadlineHopeless,
    Draining,
    EngineFault,
    KeyLimit,
    KeyTokenLimit,
    PayloadTooLarge,
    QueueFull,
    QueueTimeout,
    QueueTokensFull,
    Refused,
    StepFailed,
    Unauthorized,
)
from arriero.core.request import CancelReason
from arriero.http.errors import CUTS, TABLE, AnswerCut, Dialect, failure, kind_of


def all_errors() -> list[type[ArrieroError]]:
    classes = [each for each in vars(core_errors).values() if isinstance(each, type)]
    return [each for each in classes if issubclass(each, ArrieroError) and not issubclass(each, ConfigError)]


@pytest.mark.parametrize("kind", all_errors())
def test_every_error_of_the_tree_has_a_row_or_a_base_with_one(kind: type[ArrieroError]) -> None:
    assert any(base in TABLE for base in kind.__mro__[:-2])


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("kind", [each for each in TABLE if each is not ContextTooLong])
def test_every_body_has_its_four_fields(kind: type[ArrieroError], dialect: Dialect) -> None:
    error = kind("words")
    found = failure(error, dialect)
    body = json.loads(found.body)
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["message"] == "words"
    assert 400 <= found.status < 600
    headers = dict(found.headers)
    assert (b"retry-after" in headers) == isinstance(error, Refused)
    assert (b"x-should-retry" in headers) == isinstance(error, CallerError), "what a repeat cannot cure says so"
    if isinstance(error, CallerError):
        assert found.status < 500
    else:
        assert found.status >= 500 or found.status == 429


def test_a_row_is_found_by_the_nearest_base() -> None:
    assert kind_of(StepFailed("x")) is TABLE[EngineFault]
    assert failure(QueueFull("x"), Dialect.NATIVE).code == "server_busy"
    assert failure(QueueFull("x"), Dialect.OPENAI).code == "server_is_overloaded"
    assert kind_of(QueueTokensFull("x")) is TABLE[QueueFull]
    assert kind_of(KeyTokenLimit("x")) is TABLE[KeyLimit]
    assert failure(Draining("x", retry_after_s=7), Dialect.OPENAI).headers == ((b"retry-after", b"7"),)
    assert (b"www-authenticate", b"Bearer") in failure(Unauthorized("x"), Dialect.OPENAI).headers
    long = ContextTooLong("x", needed=513, limit=512)
    assert (failure(long, Dialect.OPENAI).status, failure(long, Dialect.NATIVE).status) == (400, 422)
    assert failure(PayloadTooLarge("x"), Dialect.NATIVE).status == 413


@pytest.mark.parametrize("reason", list(CancelReason))
def test_an_answer_that_was_cut_has_a_row_for_each_reason(reason: CancelReason) -> None:
    assert kind_of(AnswerCut(reason)) is CUTS[reason]
    assert str(AnswerCut(reason))


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (QueueFull, 503, "server_is_overloaded"),
        (QueueTokensFull, 503, "server_is_overloaded"),
        (KeyLimit, 429, "rate_limit_exceeded"),
        (KeyTokenLimit, 429, "rate_limit_exceeded"),
        (QueueTimeout, 503, "queue_timeout"),
        (DeadlineHopeless, 503, "deadline_hopeless"),
    ],
)
def test_only_a_limit_on_one_key_is_the_callers_own_rate(error: type[Refused], status: int, code: str) -> None:
    found = failure(error("x", retry_after_s=9), Dialect.OPENAI)
    assert (found.status, found.code) == (status, code)
    assert (b"retry-after", b"9") in found.headers
