import json
from typing import Any

import pytest

from arriero.bench.client_options import HttpOptions, parse_url
from arriero.bench.client_wire import RequestWriter
from arriero.core.errors import ConfigError
from tests.unit.bench.client_rig import CHAT, ask


def written(url: str = "http://h:1/v1", options: HttpOptions | None = None, **fields: Any) -> tuple[list[str], Any]:  # noqa: ANN401
    data = RequestWriter(parse_url(url), options or HttpOptions()).post(ask(**fields))
    head, body = data.split(b"\r\n\r\n", 1)
    lines = head.decode().split("\r\n")
    assert f"content-length: {len(body)}" in lines
    return lines, json.loads(body)


def test_a_streamed_completion_of_token_ids() -> None:
    lines, body = written(name="id-7")
    assert lines[0] == "POST /v1/completions HTTP/1.1"
    assert {"host: h:1", "x-request-id: id-7", "accept: text/event-stream"} < set(lines)
    assert body == {
        "prompt": [1, 2, 3], "max_tokens": 3, "stream": True, "stream_options": {"include_usage": True},
    }  # fmt: skip


def test_a_server_that_refuses_names_of_requests_gets_none() -> None:
    lines, _ = written(options=HttpOptions(send_request_id=False))
    assert not any(line.startswith("x-request-id") for line in lines)


def test_a_chat_of_a_text_or_of_messages() -> None:
    lines, body = written(endpoint=CHAT, prompt="hi")
    assert lines[0] == "POST /v1/chat/completions HTTP/1.1"
    assert body["messages"] == [{"role": "user", "content": "hi"}]
    messages = ({"role": "system", "content": "s"}, {"role": "user", "content": "u"})
    assert written(endpoint=CHAT, prompt=messages)[1]["messages"] == list(messages)


def test_an_answer_in_one_body_is_not_asked_to_stream() -> None:
    lines, body = written(stream=False)
    assert "accept: application/json" in lines
    assert "stream" not in body


def test_what_the_user_adds_wins() -> None:
    options = HttpOptions(model="m", api_key="k", continuous_usage=True, fields={"seed": 1, "top_k": 2},
                          headers={"X-Team": "a b"}, reuse_connections=False)  # fmt: skip
    lines, body = written(options=options, fields={"seed": 9, "max_tokens": 5}, session_id="s")
    assert {"authorization: Bearer k", "X-Team: a b", "connection: close"} < set(lines)
    assert body["model"] == "m"
    assert (body["seed"], body["top_k"], body["max_tokens"], body["session_id"]) == (9, 2, 5, "s")
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}


def test_a_prefix_of_the_url_is_kept_and_odd_characters_are_escaped() -> None:
    lines, _ = written("http://h:1/a b/v1", name="ü\n1")
    assert lines[0] == "POST /a%20b/v1/completions HTTP/1.1"
    assert "x-request-id: %C3%BC%0A1" in lines


@pytest.mark.parametrize("options", [
    HttpOptions(api_key="k\n"), HttpOptions(api_key="ü"), HttpOptions(headers={"a b": "c"}),
    HttpOptions(headers={"a": "c\r\nd: e"}),
])  # fmt: skip
def test_what_would_break_the_request_is_refused_before_a_run(options: HttpOptions) -> None:
    with pytest.raises(ConfigError):
        RequestWriter(parse_url("http://h"), options)
