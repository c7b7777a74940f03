"""Prefixes over HTTP: who finds whose, what is computed, and what the answer says about it."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from arriero.backend.synthetic import SyntheticBackend
from arriero.backend.synthetic_memory import SyntheticStore
from arriero.cli.loading import engine_options, no_reuse
from arriero.core.config import CacheScope, ServeConfig
from arriero.core.events import CopySequence, KvOp, MoveSequence, RestoreSequence, TrimSequence
from arriero.core.plan import PrefillChunk
from arriero.kv.reuse import ReuseRules
from arriero.testing.fakes import FaultyBackend
from arriero.testing.faults import RefusedOp, Uncuttable
from tests.http.rig import SMALL, Call, Json, Rig, Valve, chat, events_of, serving, text

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
RULES = ReuseRules()
SYSTEM = [32 + number % 90 for number in range(300)]
ROOMY = replace(SMALL, num_sequences=12, num_cells=4096)
SEPARATE = replace(SMALL, num_sequences=6, num_cells=6 * 512, unified=False)


def own(letter: str, length: int = 10) -> list[int]:
    """Tokens of one request alone: they differ from the first on."""
    return [ord(letter)] * length


def key(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {name}"}


def prefill_rows(rig: Rig, start: int = 0) -> int:
    """Prompt rows computed so far, from one record on."""
    rows = (row for record in tuple(rig.witness.records)[start:] for row in record.plan.rows)
    return sum(row.num_rows for row in rows if isinstance(row, PrefillChunk))


async def recorded(rig: Rig, num_rows: int) -> int:
    """How many records there are, once those of so many prompt rows are."""
    await rig.witness.until(lambda: prefill_rows(rig) >= num_rows)
    return len(rig.witness.records)


def cached(answer: Json) -> int:
    number: int = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    return number


async def solo(prompt: Sequence[int], max_tokens: int) -> str:
    """What the request gives alone, without any reuse."""
    async with serving(synthetic=True, sizes=ROOMY) as rig:
        _, answer = await rig.ask(TEXT, text(list(prompt), max_tokens=max_tokens))
        assert cached(answer) == 0
        answered: str = answer["choices"][0]["text"]
        return answered


async def ask(rig: Rig, prompt: Sequence[int], headers: Mapping[str, str] | None = None, **fields: Json) -> Json:
    call, answer = await rig.ask(TEXT, text(list(prompt), **{"max_tokens": 4, **fields}), headers=headers)
    assert call.status == 200, answer
    return answer


# ── while others run ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sizes", [ROOMY, SEPARATE], ids=["unified", "separate"])
async def test_c7_a_prefix_is_found_in_a_request_that_still_runs(sizes: Json) -> None:
    valve = Valve()
    first, second = SYSTEM + own("A"), SYSTEM + own("B")
    async with serving(synthetic=True, sizes=sizes, faults=[valve], reuse=RULES, retained=2) as rig:
        running = rig.call(TEXT, text(first, max_tokens=60, stream=True))
        valve.step(6)  # five chunks of 64 rows hold the prompt, and the fifth gives the first token
        await running.begin()
        before = await recorded(rig, 310)
        other = rig.call(TEXT, text(second, max_tokens=4))
        await rig.witness.until(lambda: rig.engine.num_submitted == 2)
        valve.step(10)
        answer = await other.json()
        await rig.witness.until(lambda: bool(rig.witness.results))
        assert len(rig.witness.results) == 1  # the first one still runs
        assert cached(answer) >= 299
        assert prefill_rows(rig, before) <= 11
        valve.open()
        whole = events_of(await running.rest())
    assert answer["choices"][0]["text"] == await solo(second, 4)
    said = "".join(choice["text"] for event in whole for choice in event["choices"])
    assert (await solo(first, 60)).endswith(said)


@pytest.mark.parametrize("sizes", [ROOMY, SEPARATE], ids=["unified", "separate"])
async def test_c8_four_cold_requests_compute_their_prefix_once(sizes: Json) -> None:
    valve = Valve()
    prompts = [SYSTEM + own(letter, 8) for letter in "ABCD"]
    async with serving(synthetic=True, sizes=sizes, faults=[valve], reuse=RULES, retained=2) as rig:
        calls = await _at_once(rig, valve, prompts)
        valve.open()
        answers = [await call.json() for call in calls]
        assert prefill_rows(rig) == 1 + 300 + 4 * 8  # one row is the holder's
        assert sorted(map(cached, answers)) == [0, 300, 300, 300]
    for prompt, answer in zip(prompts, answers, strict=True):
        assert answer["choices"][0]["text"] == await solo(prompt, 16)


@pytest.mark.parametrize("num_steps", [1, 2, 3, 4])
async def test_c8_another_takes_over_when_the_first_is_cancelled(num_steps: int) -> None:
    valve = Valve()
    prompts = [SYSTEM + own(letter, 8) for letter in "ABCD"]
    async with serving(synthetic=True, sizes=ROOMY, faults=[valve], reuse=RULES, retained=2) as rig:
        calls = await _at_once(rig, valve, prompts)
        valve.step(num_steps)
        await rig.witness.until(lambda: rig.backend.num_calls >= num_steps + 1)
        calls[0].leave()
        valve.open()
        answers = [await call.json() for call in calls[1:]]
        await calls[0].over()
        # what the first one computed is not computed again, but for a chunk that was under way
        assert prefill_rows(rig) <= 1 + 300 + 4 * 8 + 2 * 64
    for prompt, answer in zip(prompts[1:], answers, strict=True):
        assert answer["choices"][0]["text"] == await solo(prompt, 16)


async def _at_once(rig: Rig, valve: Valve, prompts: Sequence[Sequence[int]]) -> list[Call]:
    """Submit all of them while another request's only step is held, so that one boundary takes them together."""
    holder = rig.call(TEXT, text([90], max_tokens=1))
    await asyncio.to_thread(valve.wait_until_held)
    calls = [rig.call(TEXT, text(list(prompt), max_tokens=16)) for prompt in prompts]
    await rig.witness.until(lambda: rig.engine.num_submitted == len(prompts) + 1)
    valve.step()
    await holder.over()
    return calls


# ── after they have ended ───────────────────────────────────────────────────────────────────────────────────────────


async def test_c10_a_hint_for_a_slot_is_only_a_hint() -> None:
    prefix = SYSTEM[:200]
    async with serving(synthetic=True, sizes=ROOMY, reuse=RULES, retained=4) as rig:
        await ask(rig, prefix + own("A"))
        answer = await ask(rig, prefix + own("B"), id_slot=3, cache_prompt=True)
        assert cached(answer) >= 199
        page = (await rig.call("/metrics", method="GET").rest()).decode()
        samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
        assert not any(math.isnan(sample.value) for sample in samples)
        sources = {sample.labels.get("source"): sample.value for sample in samples if "cached_tokens_t" in sample.name}
        assert sum(sources.values()) >= 199


async def test_the_next_turn_starts_behind_the_last_answer() -> None:
    async with serving(synthetic=True, sizes=ROOMY, reuse=RULES, retained=4) as rig:
        first = await ask(rig, SYSTEM, max_tokens=8)
        said = [*first["choices"][0]["text"].encode()]
        before = len(rig.witness.records)
        second = await ask(rig, [*SYSTEM, *said, *own("Q", 5)])
        assert cached(second) == 300 + 7  # the last token of an answer is never in KV
        assert prefill_rows(rig, before) == 6


async def test_a_prompt_asked_again_computes_its_last_token() -> None:
    async with serving(synthetic=True, sizes=ROOMY, reuse=RULES, retained=4) as rig:
        first = await ask(rig, SYSTEM)
        again = await ask(rig, SYSTEM)
        assert (cached(first), cached(again)) == (0, 299)
        assert first["choices"] == again["choices"]


async def test_a_prompt_asked_again_is_not_reused_where_the_rules_say_so() -> None:
    async with serving(synthetic=True, sizes=ROOMY, reuse=replace(RULES, regenerate=False), retained=4) as rig:
        await ask(rig, SYSTEM)
        assert cached(await ask(rig, SYSTEM)) == 0
        assert rig.witness.rows[-1].reuse == "whole_prompt"


# ── over a restart, and where memory cannot do it ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("asks_to_save", [True, False])
async def test_c12_a_prompt_survives_a_restart(asks_to_save: bool) -> None:  # noqa: FBT001 - a parameter
    store = SyntheticStore()
    more: Json = {"synthetic": True, "sizes": SEPARATE, "reuse": replace(RULES, host_tokens=4096), "store": store}
    async with serving(**more, flush=lambda: None) as rig:
        first = await ask(rig, SYSTEM)
        if asks_to_save:
            call, _ = await rig.ask("/slots/all", query="action=save")
            assert call.status == 200
    assert store.num_tokens >= 300
    async with serving(**more) as rig:
        again = await ask(rig, SYSTEM)
        assert cached(again) >= 299
        assert rig.witness.rows[-1].prefix_source == "disk"
        assert again["choices"] == first["choices"]


async def test_c12_a_damaged_run_is_computed_again() -> None:
    store = SyntheticStore()
    more: Json = {"synthetic": True, "sizes": SEPARATE, "reuse": replace(RULES, host_tokens=4096), "store": store}
    async with serving(**more) as rig:
        first = await ask(rig, SYSTEM)
    store.corrupt(1)
    async with serving(**more) as rig:
        again = await ask(rig, SYSTEM)
        assert again["choices"] == first["choices"]
        assert prefill_rows(rig) == 300


async def test_c13_a_memory_that_can_be_neither_cut_nor_shared_is_found_at_the_start() -> None:
    config = ServeConfig()
    fault = Uncuttable()
    backend = FaultyBackend(SyntheticBackend(ROOMY), fault)
    reason = no_reuse(config, backend.reuse_support)
    assert reason == f"unsupported: {fault.reason}"
    assert engine_options(config, backend).reuse is None
    async with serving(synthetic=True, sizes=ROOMY, faults=[fault], no_reuse=reason) as rig:
        _, body = await rig.ask("/debug/cache", method="GET")
        assert body["reuse"] == reason
        first, second = await ask(rig, SYSTEM + own("A")), await ask(rig, SYSTEM + own("B"))
        assert (cached(first), cached(second)) == (0, 0)
    assert second["choices"][0]["text"] == await solo(SYSTEM + own("B"), 4)


@pytest.mark.parametrize("sizes", [ROOMY, SEPARATE], ids=["unified", "separate"])
@pytest.mark.parametrize("kind", [TrimSequence, CopySequence, MoveSequence, RestoreSequence])
async def test_c13_a_refused_operation_falls_back_to_a_full_prefill(kind: type[KvOp], sizes: Json) -> None:
    more: Json = {"reuse": replace(RULES, host_tokens=4096), "retained": 2, "store": SyntheticStore()}
    async with serving(synthetic=True, sizes=sizes, faults=[RefusedOp(kind)], **more) as rig:
        for letter in "ABCDA":
            answer = await ask(rig, SYSTEM + own(letter))
            assert answer["choices"][0]["text"] == await solo(SYSTEM + own(letter), 4)


# ── scopes ──────────────────────────────────────────────────────────────────────────────────────────────────────────

SECRET = [*b"secret project ", *SYSTEM[:185]]


async def test_c16_a_key_finds_nothing_of_another_key_running_or_ended() -> None:
    valve = Valve()
    keys: Json = {"api_keys": ("a", "b")}
    async with serving(synthetic=True, sizes=ROOMY, faults=[valve], reuse=RULES, retained=4, **keys) as rig:
        running = rig.call(TEXT, text(SECRET, max_tokens=40, stream=True), headers=key("a"))
        valve.step(5)
        await running.begin()
        before = await recorded(rig, 200)
        other = rig.call(TEXT, text(SECRET, max_tokens=2), headers=key("b"))
        await rig.witness.until(lambda: rig.engine.num_submitted == 2)
        valve.step(8)
        assert cached(await other.json()) == 0
        assert prefill_rows(rig, before) == 200
        assert not any(result.request_id == 1 for result in rig.witness.results)
        valve.open()
        await running.rest()
        before = len(rig.witness.records)
        # its own run is found now, so that it has to ask for something of which only the other one has a part
        await rig.idle()
        assert cached(await ask(rig, [*SECRET[:100], *own("Z")], key("b"), cache_salt="fresh")) == 0
        assert prefill_rows(rig, before) == 110
        assert cached(await ask(rig, [*SECRET, *own("Z")], key("a"))) == 200


async def test_c16_after_the_other_has_ended_all_is_computed() -> None:
    async with serving(synthetic=True, sizes=ROOMY, reuse=RULES, retained=4, api_keys=("a", "b")) as rig:
        await ask(rig, SECRET, key("a"))
        assert cached(await ask(rig, SECRET, key("b"))) == 0
        assert prefill_rows(rig) == 400


async def test_c16_the_global_scope_is_a_choice() -> None:
    more: Json = {"api_keys": ("a", "b"), "cache_scope": CacheScope.GLOBAL}
    async with serving(synthetic=True, sizes=ROOMY, reuse=RULES, retained=4, **more) as rig:
        await ask(rig, SECRET, key("a"))
        assert cached(await ask(rig, SECRET, key("b"))) == 199


@pytest.mark.parametrize("scope", CacheScope)
async def test_c16_a_salt_narrows_every_scope(scope: CacheScope) -> None:
    more: Json = {"api_keys": ("a", "b"), "cache_scope": scope}
    async with serving(synthetic=True, sizes=ROOMY, reuse=RULES, retained=4, **more) as rig:
        talk = {"session_id": "talk"}
        await ask(rig, SECRET, key("a"), cache_salt="pepper", **talk)
        assert cached(await ask(rig, SECRET, key("a"), **talk)) == 0
        assert cached(await ask(rig, SECRET, key("a"), cache_salt="salt", **talk)) == 0
        assert cached(await ask(rig, SECRET, key("a"), cache_salt="pepper", **talk)) == 199
        same_for_b = await ask(rig, SECRET, key("b"), cache_salt="pepper", **talk)
        assert cached(same_for_b) == (199 if scope is CacheScope.GLOBAL else 0)


async def test_under_the_session_scope_only_a_session_shares() -> None:
    more: Json = {"cache_scope": CacheScope.SESSION}
    async with serving(synthetic=True, sizes=ROOMY, reuse=RULES, retained=4, **more) as rig:
        await ask(rig, SYSTEM, session_id="one")
        assert cached(await ask(rig, SYSTEM, session_id="two")) == 0
        assert cached(await ask(rig, SYSTEM)) == 0
        assert rig.witness.rows[-1].reuse == "no_scope"
        assert cached(await ask(rig, SYSTEM, session_id="one")) == 299
        assert cached(await ask(rig, SYSTEM, {"x-session-id": "one"})) == 299


# ── what requests may say about it ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", [CHAT, TEXT, "/completion"])
@pytest.mark.parametrize(
    ("field", "value"),
    [("session_id", 1), ("session_id", ["a"]), ("cache_salt", 7), ("cache_salt", {}), ("cache_salt", True)],
)
async def test_a_session_or_salt_of_the_wrong_type_is_named(path: str, field: str, value: object) -> None:
    bodies = {CHAT: chat(), TEXT: text(), "/completion": {"prompt": "hi", "decode_budget": 1}}
    async with serving() as rig:
        call, answer = await rig.ask(path, {**bodies[path], field: value})
        assert call.status == 400
        assert answer["error"]["param"] == field
        assert rig.engine.door.accepted == 0


async def test_an_empty_salt_is_refused_because_it_would_isolate_nothing() -> None:
    async with serving() as rig:
        call, answer = await rig.ask(CHAT, chat(cache_salt=""))
        assert (call.status, answer["error"]["param"]) == (400, "cache_salt")


async def test_null_and_an_empty_session_are_none() -> None:
    async with serving() as rig:
        call, _ = await rig.ask(CHAT, chat(max_tokens=1, session_id=None, cache_salt=None))
        assert call.status == 200
        call, _ = await rig.ask(CHAT, chat(max_tokens=1, session_id=""))
        assert call.status == 200


@pytest.mark.parametrize("path", [CHAT, TEXT, "/completion"])
async def test_body_and_header_must_name_the_same_session(path: str) -> None:
    bodies = {CHAT: chat(max_tokens=1), TEXT: text(max_tokens=1), "/completion": {"prompt": "hi", "decode_budget": 1}}
    async with serving() as rig:
        body = {**bodies[path], "session_id": "one"}
        call, answer = await rig.ask(path, body, headers={"x-session-id": "two"})
        assert call.status in {400, 422}
        assert answer["error"]["param"] == "session_id"
        assert rig.engine.door.accepted == 0
        call, _ = await rig.ask(path, body, headers={"x-session-id": "one"})
        assert call.status == 200


# ── what answers say about it ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", [CHAT, TEXT])
async def test_usage_tells_cached_tokens_in_every_form(path: str) -> None:
    body = chat("x" * 200, max_tokens=4) if path == CHAT else text("x" * 200, max_tokens=4)
    async with serving(sizes=ROOMY, reuse=RULES, retained=4) as rig:
        _, first = await rig.ask(path, body)
        length = first["usage"]["prompt_tokens"]
        assert cached(first) == 0
        _, whole = await rig.ask(path, body)
        assert cached(whole) == length - 1
        options = {"include_usage": True, "continuous_usage_stats": True}
        for stop in ({}, {"stop": "aaa"}):
            call = rig.call(path, {**body, "stream": True, "stream_options": options, **stop})
            events = events_of(await call.rest())
            assert [cached(event) for event in events] == [length - 1] * len(events)
        _, stopped = await rig.ask(path, {**body, "stop": "aa"})
        assert cached(stopped) == length - 1


async def test_usage_adds_up_the_prompts_of_one_request() -> None:
    async with serving(sizes=ROOMY, reuse=RULES, retained=4) as rig:
        await rig.ask(TEXT, text("x" * 100, max_tokens=1))
        _, answer = await rig.ask(TEXT, text(["x" * 100, "y" * 50, "x" * 100], max_tokens=1))
        assert answer["usage"]["prompt_tokens"] == 250
        assert cached(answer) == 99 + 0 + 99


async def test_a_native_answer_tells_tokens_source_and_verdict() -> None:
    body = {"prompt": "x" * 100, "decode_budget": 2}
    async with serving(sizes=ROOMY, reuse=RULES, retained=4) as rig:
        _, first = await rig.ask("/completion", body)
        assert (first["cached_tokens"], first["prefix_source"], first["reuse"]) == (0, None, "no_match")
        _, again = await rig.ask("/completion", body)
        assert (again["cached_tokens"], again["prefix_source"], again["reuse"]) == (99, "tree", "reused")
        stream = (await rig.call("/completion", {**body, "stream": True}).rest()).decode()
        assert '"cached_tokens":99,"prefix_source":"tree","reuse":"reused"' in stream.rpartition("event: done")[2]


async def test_the_request_log_explains_each_request() -> None:
    async with serving(sizes=ROOMY, reuse=RULES, retained=4) as rig:
        await rig.ask(TEXT, text("x" * 100, max_tokens=1))
        await rig.ask(TEXT, text("x" * 100, max_tokens=1))
        await rig.ask(TEXT, text([], max_tokens=1))
        told = [(row.reuse, row.prefix_source, row.reused_tokens, row.matched_tokens) for row in rig.witness.rows]
        assert told[0] == ("no_match", None, 0, 0)
        assert told[1] == ("reused", "tree", 99, 100)
        assert told[2] == (None, None, 0, 0)


async def test_without_reuse_the_verdict_says_so() -> None:
    async with serving() as rig:
        _, answer = await rig.ask("/completion", {"prompt": "hi", "decode_budget": 1})
        assert (answer["cached_tokens"], answer["reuse"]) == (0, "disabled")


async def test_metrics_split_prompt_tokens_by_source_and_verdict() -> None:
    async with serving(synthetic=True, sizes=ROOMY, reuse=RULES, retained=4) as rig:
        await ask(rig, SYSTEM)
        await ask(rig, SYSTEM)
        await rig.idle()
        assert rig.figure("prefix_lookups", "no_match") == 1
        assert rig.figure("prefix_lookups", "reused") == 1
        assert rig.figure("cached_tokens", "tree") == rig.figure("prefix_hit_tokens") == 299
        assert rig.figure("prefix_query_tokens") == rig.figure("prompt_tokens") == 600
        assert rig.figure("computed_tokens") == rig.figure("prefill_rows") == 301
        cells = [rig.figure("kv_cells", state) for state in ("active", "retained", "free")]
        assert cells[0] == 0
        assert cells[1] >= 300
        assert sum(cells) == ROOMY.num_cells
        assert rig.figure("retained_runs") >= 1
