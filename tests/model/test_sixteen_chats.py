"""Sixteen chats at once on the real model, through a socket and the official client, in the exact configuration."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from openai import AsyncOpenAI

pytestmark = [pytest.mark.model, pytest.mark.anyio, pytest.mark.timeout(900)]

NUM_CHATS = 16
QUESTIONS = [
    f"{ask} {thing}"
    for ask in ("Describe in a few words", "Tell me one fact about", "Why do people keep", "Write a short line on")
    for thing in ("mules.", "a caravan of camels crossing a wide and very old desert at night.", "bees?", "clocks.")
]


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[AsyncOpenAI, str]]:
    """A server process of its own, as a user starts it."""
    words = ["serve", "--port", "0", "--exact", "--check", "--log-format", "json"]
    words += ["--sequences", str(NUM_CHATS), "--threads", "1", "--batch", "128", "--micro-batch", "128"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "arriero", *words, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    url = ""
    while not url:
        line = json.loads(await process.stderr.readline())
        url = line.get("url", "") if line["message"] == "ready" else ""
    drain = asyncio.create_task(process.stderr.read())
    try:
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=600) as client:
            yield client, url
    finally:
        process.terminate()
        await process.wait()
        await drain


async def chat(client: AsyncOpenAI, question: str, *, stop_after: int | None = None) -> str:
    """The text of one streamed answer, or of its first pieces."""
    stream = await client.chat.completions.create(
        model="smollm2-135m",
        messages=[{"role": "user", "content": question}],
        max_completion_tokens=16,
        temperature=0,
        stream=True,
    )
    pieces: list[str] = []
    async for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            pieces.append(chunk.choices[0].delta.content)
        if stop_after is not None and len(pieces) >= stop_after:
            await stream.close()
            break
    return "".join(pieces)


async def state(url: str) -> dict[str, float]:
    """Running and waiting requests and free cells, from the metrics page."""
    async with httpx.AsyncClient(timeout=20) as client:
        text = (await client.get(f"{url}/metrics")).text
    wanted = ("arriero_requests_running", "arriero_kv_cells{", "arriero_requests_waiting")
    lines = [line.rpartition(" ") for line in text.splitlines() if line.startswith(wanted)]
    return {name: float(value) for name, _, value in lines}


def active(figures: dict[str, float]) -> float:
    return sum(value for name, value in figures.items() if "free" not in name and "retained" not in name)


async def test_company_changes_no_text_and_cancels_leave_nothing_behind() -> None:
    async with serving() as (client, url):
        together = await asyncio.gather(*(chat(client, question) for question in QUESTIONS))
        alone = [await chat(client, question) for question in QUESTIONS]
        assert together == alone
        assert len(set(alone)) > NUM_CHATS // 2

        halved = await asyncio.gather(
            *(chat(client, question, stop_after=3 if n % 2 else None) for n, question in enumerate(QUESTIONS))
        )
        for number, (text, whole) in enumerate(zip(halved, alone, strict=True)):
            assert whole.startswith(text) if number % 2 else text == whole
        figures = await state(url)
        for _ in range(1000):  # a cancel takes effect at the next step boundary
            if not active(figures):
                break
            figures = await state(url)
        assert not active(figures)
        kept = sum(value for name, value in figures.items() if "free" in name or "retained" in name)
        assert kept == NUM_CHATS * 2048
        assert await chat(client, QUESTIONS[0]) == alone[0]
