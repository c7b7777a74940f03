from typing import Any

import pytest

from arriero.core.errors import InvalidRequest, Unsupported
from arriero.tokens.messages import MAX_NESTING, ChatMessage, Role, ToolCall, parse_messages

CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}


def test_r16_every_form_of_content_is_understood() -> None:
    parts = [{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]
    (text, joined, refused) = parse_messages([
        {"role": "user", "content": "hello", "name": "ann"},
        {"role": "system", "content": parts, "name": None},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
    ])
    assert text == ChatMessage(role=Role.USER, content="hello", name="ann")
    assert joined == ChatMessage(role=Role.SYSTEM, content="a b")
    assert refused.content == "no"


@pytest.mark.parametrize("content", [{"content": None}, {}, {"content": ""}])
def test_e6_an_assistant_may_say_nothing_beside_its_tool_calls(content: dict[str, Any]) -> None:
    (message,) = parse_messages([{"role": "assistant", "tool_calls": [CALL], **content}])
    assert message == ChatMessage(
        role=Role.ASSISTANT, tool_calls=(ToolCall(call_id="call_1", name="f", arguments={"x": 1}),)
    )


def test_e6_an_answer_can_be_sent_back_as_clients_write_it() -> None:
    written = {"role": "assistant", "content": "hi", "refusal": None, "audio": None, "function_call": None}
    (message,) = parse_messages([written | {"tool_calls": None, "annotations": []}])
    assert message == ChatMessage(role=Role.ASSISTANT, content="hi")
    (refused,) = parse_messages([{"role": "assistant", "content": None, "refusal": "no"}])
    assert refused.content == "no"


@pytest.mark.parametrize("arguments", ["", "not json", "[1]", '"text"', "[" * 100_000])
def test_arguments_that_are_no_object_stay_text(arguments: str) -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": arguments}}
    (message,) = parse_messages([{"role": "assistant", "tool_calls": [call]}])
    assert message.tool_calls[0].arguments == arguments


@pytest.mark.parametrize(("levels", "is_object"), [(MAX_NESTING - 1, True), (MAX_NESTING, False), (900, False)])
def test_arguments_that_are_nested_deeply_stay_text(levels: int, *, is_object: bool) -> None:
    arguments = '{"a":' + "[" * levels + "]" * levels + "}"
    call = {"id": "c", "function": {"name": "f", "arguments": arguments}}
    (message,) = parse_messages([{"role": "assistant", "tool_calls": [call]}])
    assert isinstance(message.tool_calls[0].arguments, dict) == is_object


def test_a_tool_message_names_its_call() -> None:
    (message,) = parse_messages([{"role": "tool", "content": "4", "tool_call_id": "call_1"}])
    assert message == ChatMessage(role=Role.TOOL, content="4", tool_call_id="call_1")


USER = {"role": "user", "content": "a"}
IMAGE = {"type": "image_url", "image_url": {"url": "x"}}


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (None, "messages"),
        ([], "messages"),
        ("hello", "messages"),
        ({"role": "user"}, "messages"),
        (["hello"], "messages[0]"),
        ([USER, {"content": "a"}], "messages[1].role"),
        ([USER, {"role": "pirate", "content": "a"}], "messages[1].role"),
        ([{"role": ["user"], "content": "a"}], "messages[0].role"),
        ([{"role": "user"}], "messages[0].content"),
        ([USER, USER, {"role": "user", "content": None}], "messages[2].content"),
        ([{"role": "system", "content": 5}], "messages[0].content"),
        ([{"role": "user", "content": []}], "messages[0].content"),
        ([{"role": "user", "content": ["a"]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [{"text": "a"}]}], "messages[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text"),
        ([{"role": "user", "content": "a", "name": 1}], "messages[0].name"),
        ([{"role": "tool", "content": "a"}], "messages[0].tool_call_id"),
        ([{"role": "assistant", "tool_calls": {}}], "messages[0].tool_calls"),
        ([{"role": "assistant", "tool_calls": ["f"]}], "messages[0].tool_calls[0]"),
        ([{"role": "assistant", "tool_calls": [{"id": "c"}]}], "messages[0].tool_calls[0].function"),
        (
            [{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {}}}]}],
            "messages[0].tool_calls[0].function.arguments",
        ),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": ""}}]}],
            "messages[0].tool_calls[0].id",
        ),
    ],
)
def test_what_is_wrong_is_named_by_its_field(value: object, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_messages(value)
    assert caught.value.field == field
    assert field in str(caught.value)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"role": "user", "content": [{"type": "text", "text": "a"}, IMAGE]}, "messages[0].content[1].type"),
        ({"role": "user", "content": [{"type": "input_audio"}]}, "messages[0].content[0].type"),
        ({"role": "function", "name": "f", "content": "a"}, "messages[0].role"),
        ({"role": "assistant", "function_call": {"name": "f"}}, "messages[0].function_call"),
        ({"role": "assistant", "audio": {"id": "a"}}, "messages[0].audio"),
        ({"role": "assistant", "tool_calls": [{"type": "custom"}]}, "messages[0].tool_calls[0].type"),
    ],
)
def test_r16_what_is_not_done_yet_is_refused_by_name(message: dict[str, Any], field: str) -> None:
    with pytest.raises(Unsupported) as caught:
        parse_messages([message])
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"role": "user", "content": "\ud800"}, "messages[0].content"),
        ({"role": "user", "content": [{"type": "text", "text": "\udc00"}]}, "messages[0].content[0].text"),
        ({"role": "user", "content": "a", "name": "\ud800"}, "messages[0].name"),
        (
            {
                "role": "assistant",
                "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": '{"a":"\\ud800"}'}}],
            },
            "messages[0].tool_calls[0].function.arguments",
        ),
    ],
)
def test_d9_lone_surrogates_are_refused(message: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest, match="surrogate") as caught:
        parse_messages([message])
    assert caught.value.field == field
