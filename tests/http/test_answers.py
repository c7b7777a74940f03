"""What an answer looks like, streamed and not: chunks, usage, finish reasons, text at its borders."""

import json
from collections.abc import Sequence

import pytest
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.http.rig import END, FIRST_PIECE, Json, Rig, chat, events_of, serving, text, text_of_chat

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
START = ("ok ", "E", "ND")  # codespell:ignore
FAMILY = "👩🏽‍🚀é漢"


def pieces(*parts: str) -> tuple[list[bytes], list[int]]:
    """Tokens for these texts, and the script that says them and ends."""
    return [part.encode() for part in parts], [*range(FIRST_PIECE, FIRST_PIECE + len(parts)), END]


async def both(rig: Rig, **fields: Json) -> tuple[dict[str, Json], list[Json]]:
    """The same chat as one body and as a stream."""
    _, body = await rig.ask(CHAT, chat(**fields))
    call = rig.call(CHAT, chat(**fields, stream=True, stream_options={"include_usage": True}))
    return body, events_of(await call.rest())


def summary(body: dict[str, Json]) -> tuple[str, str, str | None, dict[str, Json]]:
    choice = body["choices"][0]
    return choice["message"]["content"], choice["finish_reason"], choice["stop_reason"], body["usage"]


def summary_of_stream(events: Sequence[Json]) -> tuple[str, str, str | None, dict[str, Json]]:
    ends = [choice for event in events for choice in event["choices"] if choice["finish_reason"] is not None]
    assert len(ends) == 1, "exactly one finish reason"
    return text_of_chat(events), ends[0]["finish_reason"], ends[0]["stop_reason"], events[-1]["usage"]


async def same_in_both_forms(parts: Sequence[str], **fields: Json) -> tuple[str, str, str | None, int]:
    """R10: text, finish reason and usage do not depend on the form."""
    vocabulary, script = pieces(*parts)
    async with serving(script={1: script, 2: script}, pieces=vocabulary) as rig:
        body, events = await both(rig, **fields)
        await rig.idle()
    assert summary(body) == summary_of_stream(events)
    content, reason, stop, usage = summary(body)
    return content, reason, stop, usage["completion_tokens"]


# ── text at its borders ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_d1_a_stop_string_of_several_tokens_shows_no_part_of_itself() -> None:
    assert await same_in_both_forms([*START, "_O", "F"], stop="END_OF") == ("ok ", "stop", "END_OF", 5)


async def test_d1_held_back_text_is_released_when_it_cannot_become_a_stop() -> None:
    assert await same_in_both_forms([*START, "_X"], stop="END_OF") == ("ok END_X", "stop", None, 4)


async def test_d2_text_and_stop_string_share_a_token() -> None:
    assert await same_in_both_forms(["ab", "c###"], stop="###") == ("abc", "stop", "###", 2)


@pytest.mark.parametrize("stops", [["Y", "X"], ["X", "Y"]])
async def test_d5_the_earliest_of_several_stops_counts(stops: list[str]) -> None:
    assert await same_in_both_forms(["a", "X", "b", "Y"], stop=stops) == ("a", "stop", "X", 2)


@pytest.mark.parametrize("stops", [["ab", "abc"], ["abc", "ab"]])
@pytest.mark.parametrize("parts", [["xx", "ab", "cd"], ["xx", "abc", "d"]])
async def test_d6_of_overlapping_stops_the_earliest_end_is_named(stops: list[str], parts: list[str]) -> None:
    assert await same_in_both_forms(parts, stop=stops) == ("xx", "stop", "ab", 2)


async def test_d7_a_character_over_several_tokens_is_never_cut() -> None:
    script = [*FAMILY.encode(), END]
    async with serving(script={1: script, 2: script}) as rig:
        body, events = await both(rig)
    assert summary(body) == summary_of_stream(events)
    assert text_of_chat(events) == FAMILY
    contents = [choice["delta"]["content"] for event in events for choice in event["choices"] if choice["delta"]]
    assert len(contents) == len(FAMILY), "an event for each character, none for a part of one"
    assert "�" not in text_of_chat(events)


async def test_d7_an_answer_that_ends_inside_a_character_follows_one_rule_in_both_forms() -> None:
    script = [ord("a"), *"漢".encode()[:2]]
    async with serving(script={1: script, 2: script, 3: script}) as rig:
        body, events = await both(rig, max_tokens=3)
        assert summary(body) == summary_of_stream(events)
        assert summary(body)[:2] == ("a�", "length")
        raw = await rig.call("/completion", {"prompt": "x", "decode_budget": 3, "stream": True}).rest()
    told = [json.loads(line[6:]) for line in raw.splitlines() if line.startswith(b"data: ")]
    assert [each.get("token_id") for each in told] == [97, 230, 188, None, None]
    assert "".join(each.get("token", "") for each in told) == "a�"


async def test_a_stop_string_that_is_only_decided_at_the_end_still_counts() -> None:
    assert await same_in_both_forms(["x", "abc"], stop=["abcd", "bc"]) == ("xa", "stop", "bc", 2)


# ── chunks ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_e1_usage_comes_in_one_extra_chunk_before_the_end_mark() -> None:
    async with serving(script={1: [*b"abc", END]}) as rig:
        raw = await rig.call(CHAT, chat(stream=True, stream_options={"include_usage": True})).rest()
    events = events_of(raw)
    assert raw.endswith(b"data: [DONE]\n\n")
    assert events[-1]["choices"] == []
    assert events[-1]["usage"]["completion_tokens"] == 3
    assert all(event["usage"] is None for event in events[:-1])


async def test_e1_without_asking_no_chunk_has_usage() -> None:
    async with serving() as rig:
        events = events_of(await rig.call(CHAT, chat(stream=True, max_tokens=2)).rest())
    assert all("usage" not in event for event in events)


async def test_e10_continuous_usage_counts_the_tokens_so_far() -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    async with serving() as rig:
        events = events_of(await rig.call(CHAT, chat(stream=True, max_tokens=3, stream_options=options)).rest())
    assert [event["usage"]["completion_tokens"] for event in events] == [1, 2, 3, 3, 3]


async def test_e3_a_whole_answer_always_has_usage() -> None:
    async with serving() as rig:
        for path, body in ((CHAT, chat(max_tokens=2)), (TEXT, text(max_tokens=2))):
            _, answer = await rig.ask(path, body)
            usage = answer["usage"]
            assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
            assert usage["completion_tokens"] == 2
            assert usage["prompt_tokens_details"] == {"cached_tokens": 0}


@pytest.mark.parametrize(("fields", "reason"), [({}, "stop"), ({"max_tokens": 2}, "length"), ({"stop": "c"}, "stop")])
async def test_e4_a_stream_has_exactly_one_finish_reason(fields: dict[str, Json], reason: str) -> None:
    async with serving(script={1: [*b"abcd", END]}) as rig:
        events = events_of(await rig.call(CHAT, chat(stream=True, **fields)).rest())
    reasons = [choice["finish_reason"] for event in events for choice in event["choices"]]
    assert reasons[-1] == reason
    assert reasons[:-1] == [None] * (len(reasons) - 1)


async def test_e18_every_line_of_a_stream_is_an_event_and_every_chunk_has_its_fields() -> None:
    async with serving(script={1: [*b"abc", END]}) as rig:
        call = await rig.call(CHAT, chat(stream=True)).begin()
        raw = await call.rest()
    lines = raw.split(b"\n")
    assert lines[-3:] == [b"data: [DONE]", b"", b""]
    assert all(not line or line.startswith(b"data: ") for line in lines)
    events = events_of(raw)
    assert {event["id"] for event in events} == {call.headers["x-request-id"]}
    for event in events:
        assert event["object"] == "chat.completion.chunk"
        assert event["model"] == "test-model"
        assert isinstance(event["created"], int)
        ChatCompletionChunk.model_validate(event, strict=True)


async def test_e18_line_separators_of_unicode_stay_inside_their_event() -> None:
    content = "a b c\u0085d\u000be\nf"
    vocabulary, script = pieces(*content)
    async with serving(script={1: script}, pieces=vocabulary) as rig:
        raw = await rig.call(CHAT, chat(stream=True)).rest()
    assert raw.decode().splitlines() == raw.decode().split("\n")[:-1]
    assert text_of_chat(events_of(raw)) == content


@pytest.mark.parametrize("stream", [None, False])
async def test_e23_an_answer_is_one_object_unless_a_stream_is_asked_for(stream: bool | None) -> None:  # noqa: FBT001
    async with serving() as rig:
        call, body = await rig.ask(CHAT, chat(max_tokens=2, stream=stream))
    assert call.headers["content-type"] == "application/json"
    assert body["object"] == "chat.completion"
    assert body["choices"][0]["finish_reason"] == "length"
    ChatCompletion.model_validate(body, strict=True)


async def test_e22_a_legacy_completion_has_the_legacy_shape() -> None:
    async with serving() as rig:
        _, body = await rig.ask(TEXT, text(max_tokens=2))
        events = events_of(await rig.call(TEXT, text(max_tokens=2, stream=True)).rest())
    Completion.model_validate(body, strict=True)
    assert body["object"] == "text_completion"
    assert body["choices"][0]["text"] == "aa"
    assert "".join(event["choices"][0]["text"] for event in events) == "aa"
    assert {event["object"] for event in events} == {"text_completion"}


async def test_e19_both_forms_say_the_same_on_a_backend_with_company() -> None:
    async with serving(synthetic=True) as rig:
        bodies = [await both(rig, content=f"prompt {number}", max_tokens=30, stop="q") for number in range(4)]
        await rig.idle()
    for body, events in bodies:
        assert summary(body) == summary_of_stream(events)


async def test_the_role_leaves_with_the_first_token_and_there_are_no_empty_deltas() -> None:
    async with serving(script={1: [*b"abc", END]}) as rig:
        events = events_of(await rig.call(CHAT, chat(stream=True)).rest())
    deltas = [event["choices"][0]["delta"] for event in events]
    assert deltas == [{"role": "assistant", "content": "a"}, {"content": "b"}, {"content": "c"}, {}]


async def test_an_empty_answer_still_names_its_role() -> None:
    async with serving(script={1: [END], 2: [END]}) as rig:
        body, events = await both(rig)
    assert summary(body)[0] == ""
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert summary(body) == summary_of_stream(events)


async def test_r18_more_prompts_than_slots_are_answered_each_with_its_index() -> None:
    async with serving(synthetic=True) as rig:
        prompts = [f"prompt {number}" for number in range(9)]
        _, body = await rig.ask(TEXT, text(prompts, max_tokens=5))
        singles = [(await rig.ask(TEXT, text(prompt, max_tokens=5)))[1] for prompt in prompts]
        raw = await rig.call(
            TEXT, text(prompts, max_tokens=5, stream=True, stream_options={"include_usage": True})
        ).rest()
        await rig.idle()
    assert [choice["index"] for choice in body["choices"]] == list(range(9))
    assert [choice["text"] for choice in body["choices"]] == [each["choices"][0]["text"] for each in singles]
    assert body["usage"]["completion_tokens"] == 45
    events = events_of(raw)
    for choice in body["choices"]:
        mine = [each for event in events for each in event["choices"] if each["index"] == choice["index"]]
        assert "".join(each["text"] for each in mine) == choice["text"]
        assert [each["finish_reason"] for each in mine if each["finish_reason"]] == ["length"]
    assert events[-1]["usage"] == body["usage"]


@pytest.mark.parametrize(("prompt", "texts"), [("ab", 1), ([97, 98], 1), (["ab", "c"], 2), ([[97], [98, 99]], 2)])
async def test_a_legacy_prompt_is_text_or_ids_or_a_list_of_either(prompt: object, texts: int) -> None:
    async with serving() as rig:
        call, body = await rig.ask(TEXT, text(prompt, max_tokens=1))
    assert call.status == 200
    assert len(body["choices"]) == texts


async def test_the_id_is_the_clients_own_if_it_sends_one() -> None:
    async with serving() as rig:
        call, body = await rig.ask(CHAT, chat(max_tokens=1), headers={"x-request-id": "req_1"})
        assert (call.headers["x-request-id"], body["id"]) == ("req_1", "req_1")
        call, body = await rig.ask(CHAT, chat(max_tokens=1), headers={"x-request-id": "no spaces\tplease"})
        assert call.headers["x-request-id"] == body["id"]
        assert body["id"].startswith("chatcmpl-")
