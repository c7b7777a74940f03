"""Tokens on their way out: told where the engine's wake-up arrives, and by the request's task when that cannot be."""

import pytest

from tests.http.rig import END, FIRST_PIECE, Call, Valve, chat, events_of, serving, text, text_of_chat

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def texts_of(raw: bytes) -> list[list[str]]:
    """Pieces by sequence, of a completion with two of them."""
    pieces: list[list[str]] = [[], []]
    for event in events_of(raw):
        for choice in event["choices"]:
            if choice["text"]:
                pieces[choice["index"]].append(choice["text"])
    return pieces


async def read_with(call: Call, valve: Valve, num_parts: int) -> list[bytes]:
    """Parts of a stream, each of them read before the next token is computed."""
    valve.step()
    await call.begin()
    parts = [await call.part()]
    for _ in range(num_parts - 1):
        valve.step()
        parts.append(await call.part())
    return parts


async def test_while_nothing_blocks_tokens_leave_without_a_task() -> None:
    valve = Valve()
    async with serving(faults=[valve], script={1: [*b"abcdef", END]}) as rig:
        call = rig.call(CHAT, chat(stream=True))
        await read_with(call, valve, 6)
        valve.open()
        await call.rest()
        assert call.writers[1:7] == [None] * 6
        assert call.writers[-1] is call._task
        await rig.idle()


async def test_sequences_of_one_request_wait_together_for_a_reader_that_stalls() -> None:
    valve = Valve()
    async with serving(faults=[valve], script={1: [*b"abcdefgh", END], 2: [*b"ijklmnop", END]}) as rig:
        call = rig.call(TEXT, text(["one", "two"], stream=True, max_tokens=20))
        valve.step()
        await call.begin()
        call.stall()
        valve.open()
        await rig.witness.until(lambda: len(rig.witness.results) == 2)
        num_messages = call.num_messages
        call.read_on()
        raw = await call.rest()
        assert ["".join(pieces) for pieces in texts_of(raw)] == ["abcdefgh", "ijklmnop"]
        assert call.num_messages - num_messages < 8
        assert raw.endswith(b"data: [DONE]\n\n")
        await rig.idle()


async def test_tokens_flow_without_a_task_again_after_a_stall() -> None:
    valve = Valve()
    async with serving(faults=[valve], script={1: [*b"abcdefgh", END]}) as rig:
        call = rig.call(CHAT, chat(stream=True))
        await read_with(call, valve, 2)
        call.stall()
        valve.step(2)
        await rig.witness.until(lambda: rig.figure("generated_tokens") >= 4)
        call.read_on()
        valve.step()
        parts = b""
        while not text_of_chat(events_of(parts)).endswith(
            "e"
        ):  # the task tells what it found when it was woken, and that may be this one, too
            parts += await call.part()
        before = len(call.writers)
        for _ in range(3):
            valve.step()
            await call.part()
        assert call.writers[before:] == [None] * 3
        valve.open()
        await call.rest()
        await rig.idle()


@pytest.mark.parametrize("num_sequences", [1, 2])
async def test_a_mistake_of_ours_in_the_middle_of_a_stream_reaches_the_server(num_sequences: int) -> None:
    # a token that the vocabulary does not know stands for any exception
    valve = Valve()
    script = {1: [*b"ab", FIRST_PIECE + 50], 2: [*b"ab", FIRST_PIECE + 50]}
    async with serving(faults=[valve], script=script) as rig:
        call = rig.call(TEXT, text(["one", "two"][:num_sequences], stream=True, max_tokens=100))
        valve.step(2)
        await call.begin()
        await call.part()
        valve.open()
        with pytest.raises(IndexError):
            await call.rest()
        await rig.idle()
        _, body = await rig.ask(CHAT, chat(max_tokens=1))
        assert body["usage"]["completion_tokens"] == 1
