"""Log lines for people and for machines."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from arriero.cli.logs import JsonFormatter, set_up_logs
from arriero.core.config import LogFormat, LogLevel


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_json_line_holds_the_message_and_its_fields() -> None:
    stream = io.StringIO()
    set_up_logs(LogLevel.INFO, LogFormat.JSON, stream)
    logging.getLogger("arriero.test").info("listening on %d", 8080, extra={"fields": {"port": 8080}})
    line = json.loads(stream.getvalue())
    assert line["at"].endswith("Z")
    del line["at"]
    assert line == {"level": "info", "logger": "arriero.test", "message": "listening on 8080", "port": 8080}


def test_a_traceback_stays_on_its_line() -> None:
    error = ZeroDivisionError("by nothing")
    exc_info = (type(error), error, None)
    record = logging.getLogger("x").makeRecord("x", logging.ERROR, "f", 1, "broken", (), exc_info)
    text = JsonFormatter().format(record)
    assert "\n" not in text
    assert "ZeroDivisionError" in json.loads(text)["exception"]


def test_less_important_messages_are_left_out() -> None:
    stream = io.StringIO()
    set_up_logs(LogLevel.WARNING, LogFormat.TEXT, stream)
    logging.getLogger("arriero.test").info("hello")
    assert stream.getvalue() == ""
    logging.getLogger("arriero.test").warning("careful")
    assert "WARNING" in stream.getvalue()
