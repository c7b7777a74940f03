"""Counts of calls on the event loop for a streamed token: its code is cold each time, so seconds follow them."""

import asyncio
import json
import socket
import sys
from collections import Counter
from types import FrameType

import pytest
import uvicorn

from tests.http.rig import Valve, serving, text
from tests.http.test_socket import listening

CALLS_A_TOKEN = 41
FEW, MANY = 20, 60


class Reader:
    """A client in a thread of its own that lets the next token be computed when it has the last one."""

    def __init__(self, port: int, valve: Valve) -> None:
        self._port = port
        self._valve = valve

    def read(self, num_tokens: int) -> int:
        """Ask for tokens; how many pieces came."""
        body = json.dumps(text(max_tokens=num_tokens, stream=True, ignore_eos=True)).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
        received = b""
        with socket.create_connection(("127.0.0.1", self._port)) as sock:
            sock.sendall(head.encode() + body)
            self._valve.step()
            while part := sock.recv(65536):
                if part.count(b'"text":"'):
                    self._valve.step()
                received += part
        return received.count(b'"finish_reason":null')


async def count_calls(reader: Reader, num_tokens: int) -> Counter[str]:
    """Calls of Python and of C functions on the event loop's thread while one answer streams."""
    count: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, arg: object) -> None:
        del frame, arg
        count[event] += 1

    sys.setprofile(profile)
    try:
        count["pieces"] = await asyncio.to_thread(reader.read, num_tokens)
    finally:
        sys.setprofile(None)
    return count


async def count_calls_a_token() -> float:
    """Calls that each further token costs; what a request costs by itself is not in it."""
    valve = Valve()
    async with serving(synthetic=True, faults=[valve]) as rig, listening(rig) as port:
        few, many = [await count_calls(Reader(port, valve), each) for each in (FEW, MANY)]
    assert (few["pieces"], many["pieces"]) == (FEW, MANY)
    calls = [each["call"] + each["c_call"] for each in (few, many)]
    return (calls[1] - calls[0]) / (MANY - FEW)


@pytest.mark.perf
def test_a_streamed_token_costs_few_calls_on_the_event_loop() -> None:
    loop_factory = uvicorn.Config(lambda: None, log_config=None).get_loop_factory()
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        found = runner.run(count_calls_a_token())
    assert found <= CALLS_A_TOKEN
