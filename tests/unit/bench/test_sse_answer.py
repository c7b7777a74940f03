import hashlib
import json
from typing import Any

import pytest

from arriero.bench.client_errors import ErrorKind
from arriero.bench.sse import Event
from arriero.bench.sse_answer import Answer, one_line
from arriero.metrics.client_life import Outcome


def read(*values: object, keep_text: bool = True) -> Answer:
    answer = Answer(keep_text=keep_text)
    for at, value in enumerate(values):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        answer.read(Event(at, data, b""))
    return answer


def choice(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"choices": [{"index": 0, **fields}]}


def delta(reason: str | None = None, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return choice(delta=fields, finish_reason=reason)


def test_text_reasoning_and_pieces_of_tool_calls_are_content() -> None:
    call = [{"index": 0, "function": {"name": "f", "arguments": "{}"}}]
    answer = read(
        delta(role="assistant"), delta(reasoning_content="hm"), delta(reasoning="hm"), delta(content="a"),
        delta(tool_calls=call), delta(refusal="no"), choice(text="b"),
    )  # fmt: skip
    assert answer.chunk_at == [1, 2, 3, 4, 5, 6]
    assert answer.empty_at == [0]
    assert answer.chunk_tokens == (1,) * 6


@pytest.mark.parametrize(
    "empty",
    [
        delta(role="assistant"), delta(content=""), delta(content=None), delta("stop"), choice(text=""), delta(),
        delta(tool_calls=[]),
    ],
)  # fmt: skip
def test_a_role_an_empty_delta_and_a_finish_reason_are_no_content(empty: dict[str, Any]) -> None:
    answer = read(empty)
    assert (answer.chunk_at, answer.empty_at) == ([], [0])


def test_a_chunk_with_usage_alone_is_neither() -> None:
    answer = read({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})
    assert (answer.chunk_at, answer.empty_at, answer.error) == ([], [], None)
    assert (answer.num_tokens, answer.prompt_tokens, answer.cached_tokens) == (2, 3, None)


def test_tokens_of_a_chunk_come_from_the_running_count_if_every_chunk_has_it() -> None:
    def counted(text: str, total: int) -> dict[str, Any]:
        return {**choice(text=text), "usage": {"completion_tokens": total}}

    assert read(counted("a", 1), counted("bc", 3), counted("", 4), counted("d", 6)).chunk_tokens == (1, 2, 3)
    assert read(counted("a", 1), choice(text="b"), counted("c", 9)).chunk_tokens == (1, 1, 1)
    assert read(counted("a", 5), counted("b", 2), counted("c", 6)).chunk_tokens == (5, 0, 1)  # it counts backwards


def test_tokens_come_from_timings_where_they_are_all_there_is() -> None:
    values = [{**choice(text="a"), "timings": {"predicted_n": n, "prompt_n": 4, "cache_n": 6}} for n in (1, 3)]
    answer = read(*values)
    assert answer.chunk_tokens == (1, 2)
    assert (answer.num_tokens, answer.prompt_tokens, answer.cached_tokens) == (3, 10, 6)


def test_usage_wins_over_timings() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 8, "prompt_tokens_details": {"cached_tokens": 7}}
    answer = read({"choices": [], "usage": usage, "timings": {"predicted_n": 1, "prompt_n": 1, "cache_n": 1}})
    assert (answer.num_tokens, answer.prompt_tokens, answer.cached_tokens) == (8, 9, 7)


def test_the_hash_is_of_all_content_in_order() -> None:
    answer = read(delta(reasoning_content="hm "), delta(content="Kä"), delta(content="se"), keep_text=False)
    assert answer.text_sha256 == hashlib.sha256("hm Käse".encode()).hexdigest()
    assert answer.text == ""
    assert read(delta(content="Kä"), delta(content="se")).text == "Käse"
    assert read(delta(role="assistant")).text_sha256 is None


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("stop", Outcome.STOP), ("length", Outcome.LENGTH), ("tool_calls", Outcome.TOOL_CALLS),
        ("function_call", Outcome.TOOL_CALLS), ("abort", Outcome.CANCELLED_BY_SERVER),
    ],
)  # fmt: skip
def test_finish_reasons(reason: str, outcome: Outcome) -> None:
    error = ErrorKind.CUT_BY_SERVER if outcome is Outcome.CANCELLED_BY_SERVER else None
    assert read(delta(reason), b"[DONE]").ending(needs_done=True) == (outcome, error)


def test_the_first_thing_that_was_wrong_is_kept_and_the_rest_is_read_all_the_same() -> None:
    answer = read(choice(text="a"), b"{no", choice(text=3), choice(text="b", finish_reason="stop"), b"[DONE]")
    assert answer.chunk_at == [0, 3]
    assert answer.error is ErrorKind.MALFORMED_EVENT
    assert answer.detail == "{no"
    assert answer.ending(needs_done=True) == (Outcome.ERROR, ErrorKind.MALFORMED_EVENT)


def test_without_done_an_answer_may_be_good_enough() -> None:
    answer = read(choice(text="a", finish_reason="stop"))
    assert answer.ending(needs_done=True) == (Outcome.ERROR, ErrorKind.NO_DONE)
    assert answer.ending(needs_done=False) == (Outcome.STOP, None)


def test_a_cut_says_so_and_another_error_does_not() -> None:
    cut = read({"error": {"message": "m", "code": "slow_consumer"}})
    assert cut.ending(needs_done=True) == (Outcome.CANCELLED_BY_SERVER, ErrorKind.CUT_BY_SERVER)
    assert read({"error": "text"}).ending(needs_done=True) == (Outcome.ERROR, ErrorKind.ERROR_EVENT)
    assert read({"error": {"code": 500}}).error is ErrorKind.ERROR_EVENT


def test_a_body_is_one_chunk_with_all_tokens() -> None:
    answer = Answer(keep_text=True)
    body = {"choices": [{"message": {"content": "a b"}, "finish_reason": "stop"}], "usage": {"completion_tokens": 2}}
    answer.read_body(9, json.dumps(body).encode())
    assert (answer.chunk_at, answer.chunk_tokens, answer.text) == ([9], (2,), "a b")
    assert answer.ending(needs_done=False) == (Outcome.STOP, None)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"choices": []}', b'{"choices": 3}'])
def test_a_body_that_is_no_answer_is_an_error(body: bytes) -> None:
    answer = Answer()
    answer.read_body(0, body)
    assert answer.error is ErrorKind.MALFORMED_BODY


def test_tokens_received_so_far_are_known_while_it_comes() -> None:
    assert read().num_received == 0
    assert read(choice(text="a"), choice(text="b")).num_received == 2
    assert read({**choice(text="abc"), "usage": {"completion_tokens": 3}}).num_received == 3


def test_details_are_one_short_line() -> None:
    assert one_line(b"a\n\n  b\xff" + b"c" * 1000).startswith("a b\ufffdccc")
    assert len(one_line(b"x" * 10_000)) == 300
