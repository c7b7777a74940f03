"""Prefixes on the real model, through a server process as a user starts it."""

import asyncio
import json
import math
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from arriero.backend.models import WeightFormat, quantize

pytestmark = [pytest.mark.model, pytest.mark.anyio, pytest.mark.timeout(600)]

PREFIX = [1000 + 7 * number % 4000 for number in range(300)]
LAYOUTS = pytest.mark.parametrize("layout", ["separate", "unified"])
UNFUSED = ["--flash-attn", "off"]  # chosen, so that a start does not try which attention is faster
SIZES = ["--sequences", "4", "--threads", "1", "--batch", "128", "--micro-batch", "128", "--check"]


@pytest.fixture(autouse=True)
def short(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked here is about rows and memory: a few layers answer it."""
    monkeypatch.setenv("ARRIERO_MODEL", str(short_path))


def own(number: int, length: int = 10) -> list[int]:
    """Tokens of one request alone: they differ from the first on."""
    return [9000 + 100 * number + place for place in range(length)]


@dataclass(frozen=True, slots=True)
class Served:
    """A server, and a client of it."""

    client: httpx.AsyncClient

    async def ask(self, prompt: Sequence[int], key: str = "none", **fields: object) -> dict[str, Any]:
        """One whole answer."""
        response = await self.client.post("/v1/completions", json=body(prompt, **fields), headers=headers(key))
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    async def figures(self, key: str = "none") -> dict[str, float]:
        """The metrics page by series."""
        page = (await self.client.get("/metrics", headers=headers(key))).text
        lines = [line.rpartition(" ") for line in page.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in lines}


def body(prompt: Sequence[int], **fields: object) -> dict[str, object]:
    return {"prompt": list(prompt), "max_tokens": 4, "temperature": 0, "ignore_eos": True, **fields}


def headers(key: str) -> Mapping[str, str]:
    return {"authorization": f"Bearer {key}"}


def cached(answer: Mapping[str, Any]) -> int:
    number: int = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    return number


@asynccontextmanager
async def serving(*flags: str) -> AsyncIterator[Served]:
    """A server process, ended by a signal."""
    words = ["serve", "--port", "0", "--log-format", "json", *SIZES, *flags]
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
        async with httpx.AsyncClient(base_url=url, timeout=300) as client:
            yield Served(client)
    finally:
        process.terminate()
        status = await process.wait()
        await drain
    assert status == 0


def refusal(*flags: str) -> str:
    """What a server that does not start says."""
    words = [sys.executable, "-m", "arriero", "serve", "--port", "0", *SIZES, *flags]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 2, done.stderr
    return done.stderr


@LAYOUTS
async def test_c7_a_prefix_is_found_in_a_request_that_still_runs(layout: str) -> None:
    async with serving("--kv", layout, *UNFUSED) as served:
        asked = body(PREFIX + own(1), max_tokens=1600, stream=True)
        async with served.client.stream("POST", "/v1/completions", json=asked) as running:
            lines = running.aiter_lines()
            await anext(lines)
            before = await served.figures()
            answer = await served.ask(PREFIX + own(2))
            after = await served.figures()
            assert after["arriero_requests_running"] == 1  # the first one
            assert cached(answer) >= 299
            assert after["arriero_prefill_rows_total"] - before["arriero_prefill_rows_total"] <= 11
            assert after['arriero_cached_tokens_total{source="running"}'] == cached(answer)


@LAYOUTS
async def test_c8_four_cold_requests_compute_their_prefix_once(layout: str) -> None:
    async with serving("--kv", layout, *UNFUSED) as served:
        prompts = [PREFIX + own(number, 8) for number in range(4)]
        answers = await asyncio.gather(*(served.ask(prompt, max_tokens=16) for prompt in prompts))
        figures = await served.figures()
        assert figures["arriero_prefill_rows_total"] == 300 + 4 * 8
        assert sorted(map(cached, answers)) == [0, 300, 300, 300]


async def test_c7_c8_in_exact_mode_the_texts_are_those_of_a_server_without_reuse() -> None:
    prompts = [PREFIX[:170] + own(number, 8) for number in range(4)]
    flags = ["--exact", "--batch", "64", "--micro-batch", "64"]  # three chunks; the proof ends with the longest one
    async with serving(*flags, "--no-reuse") as served:
        alone = [await served.ask(prompt, max_tokens=12) for prompt in prompts]
        assert [*map(cached, alone)] == [0, 0, 0, 0]
    async with serving(*flags) as served:
        together = await asyncio.gather(*(served.ask(prompt, max_tokens=12) for prompt in prompts))
        again = [await served.ask(prompt, max_tokens=12) for prompt in prompts]
    assert sorted(map(cached, together)) == [0, 170, 170, 170]
    assert min(map(cached, again)) >= 170
    texts = [[answer["choices"][0]["text"] for answer in answers] for answers in (alone, together, again)]
    assert texts[0] == texts[1] == texts[2]


async def test_c10_a_hint_for_a_slot_is_only_a_hint() -> None:
    async with serving(*UNFUSED) as served:
        await served.ask(PREFIX[:200] + own(1))
        assert cached(await served.ask(PREFIX[:200] + own(2), id_slot=3)) >= 199
        assert not any(map(math.isnan, (await served.figures()).values()))


async def test_c12_a_prompt_survives_a_restart_and_no_other_model_takes_it(tmp_path: Path, model_path: Path) -> None:
    folder = tmp_path / "runs"
    flags = ["--cache-dir", str(folder)]
    async with serving(*flags) as served:
        first = await served.ask(PREFIX)
        saved = await served.client.post("/slots/all", params={"action": "save"})
        assert (saved.status_code, saved.json()["runs"]) == (200, 1)
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    other = quantize(model_path, tmp_path / "other.gguf", WeightFormat.Q8_0)
    for words in (["--model", str(other)], ["--kv-type", "q8_0"], ["--kv", "unified"], ["--exact"]):
        told = refusal(*flags, *words)
        assert told.splitlines()[-1].startswith("arriero: --cache-dir")
        assert told.count("\n") == 1
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == kept
    async with serving(*flags) as served:
        again = await served.ask(PREFIX)
        assert cached(again) >= 299
        figures = await served.figures()
        assert figures['arriero_cached_tokens_total{source="disk"}'] == cached(again)
    assert again["choices"][0]["text"] == first["choices"][0]["text"]


async def test_c12_a_signal_saves_as_well(tmp_path: Path) -> None:
    flags = ["--cache-dir", str(tmp_path / "runs")]
    async with serving(*flags) as served:
        await served.ask(PREFIX)
    async with serving(*flags) as served:
        assert cached(await served.ask(PREFIX)) >= 299


@pytest.mark.parametrize(("scope", "found"), [("key", 0), ("global", 199)])
async def test_c16_what_one_key_finds_of_another(scope: str, found: int) -> None:
    secret = PREFIX[:200]
    async with serving("--api-key", "a", "--api-key", "b", "--cache-scope", scope, *UNFUSED) as served:
        asked = body(secret, max_tokens=1600, stream=True)
        async with served.client.stream("POST", "/v1/completions", json=asked, headers=headers("a")) as running:
            await anext(running.aiter_lines())
            before = await served.figures("a")
            assert cached(await served.ask(secret, "b")) == found
            rows = (await served.figures("a"))["arriero_prefill_rows_total"] - before["arriero_prefill_rows_total"]
            assert rows == 200 - found
        assert cached(await served.ask(secret, "b", cache_salt="again")) == 0
        page = (await served.client.get("/debug/cache", headers=headers("b"))).json()
        assert len(page["scopes"]) == 2 if found == 0 else len(page["scopes"]) >= 2
