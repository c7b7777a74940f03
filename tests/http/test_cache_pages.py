"""What whoever runs the server may see of retained runs and do about them, and what a key may not see."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from arriero.backend.synthetic_memory import SyntheticStore
from arriero.core.config import CacheScope
from arriero.kv.reuse import ReuseRules
from tests.http.rig import SMALL, Json, Rig, serving, text

pytestmark = pytest.mark.anyio

SIZES = replace(SMALL, num_sequences=8, num_cells=4096)
RULES = ReuseRules()
PROMPT = [32 + number % 90 for number in range(60)]


async def ask(rig: Rig, prompt: list[int], headers: Mapping[str, str] | None = None, **fields: Json) -> None:
    call, answer = await rig.ask("/v1/completions", text(prompt, max_tokens=4, **fields), headers=headers)
    assert call.status == 200, answer


async def page(rig: Rig, headers: Mapping[str, str] | None = None) -> Json:
    call, body = await rig.ask("/debug/cache", method="GET", headers=headers)
    assert call.status == 200
    return body


def key(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {name}"}


async def test_the_page_shows_trees_runs_and_figures_and_no_tokens() -> None:
    async with serving(synthetic=True, sizes=SIZES, reuse=RULES, retained=4) as rig:
        await ask(rig, PROMPT)
        await ask(rig, [*PROMPT, 90, 91])
        await ask(rig, [35] * 20, cache_salt="pepper")
        body = await page(rig)
    assert (body["reuse"], body["cache_scope"]) == ("on", "key")
    assert len(body["scopes"]) == 2
    assert body["figures"]["lookups"]["reused"] == 1
    runs = [run for scope in body["scopes"] for run in scope["runs"]]
    assert min(run["tokens"] for run in runs) == 23  # 20 + 4 tokens, of which the last is never in KV
    assert all(run["place"].startswith("sequence ") and not run["on_disk"] for run in runs)
    trees = sorted((scope["tree"] for scope in body["scopes"]), key=len)
    assert trees[0] == [{"level": 0, "tokens": 23, "runs": 1}]
    assert (trees[1][0]["level"], trees[1][0]["tokens"]) == (0, 60)
    assert sum(edge["runs"] for edge in trees[1]) == 2
    assert "pepper" not in repr(body)


async def test_the_state_page_holds_the_same_figures() -> None:
    async with serving(synthetic=True, sizes=SIZES, reuse=RULES, retained=4) as rig:
        await ask(rig, PROMPT)
        await ask(rig, PROMPT)
        _, body = await rig.ask("/debug/state", method="GET")
        assert body["engine"]["scheduler"]["reuse"] == (await page(rig))["figures"]


async def test_without_reuse_the_page_says_why() -> None:
    async with serving() as rig:
        assert await page(rig) == {"reuse": "off", "cache_scope": "key"}


@pytest.mark.parametrize("scope", CacheScope)
async def test_c16_a_key_sees_its_own_scopes_only(scope: CacheScope) -> None:
    more: Json = {"api_keys": ("sesame", "abracadabra"), "cache_scope": scope}
    async with serving(synthetic=True, sizes=SIZES, reuse=RULES, retained=4, **more) as rig:
        await ask(rig, PROMPT, key("sesame"), session_id="talk")
        await ask(rig, PROMPT[:30], key("sesame"), session_id="talk", cache_salt="pepper")
        own, other = await page(rig, key("sesame")), await page(rig, key("abracadabra"))
    assert len(own["scopes"]) == 2
    assert len(other["scopes"]) == (2 if scope is CacheScope.GLOBAL else 0)
    assert not any(word in repr(own) for word in ("sesame", "talk", "pepper"))


async def test_the_page_needs_a_key_as_the_others_do() -> None:
    async with serving(api_keys=("k",), reuse=RULES, flush=lambda: None) as rig:
        for method, path in (("GET", "/debug/cache"), ("POST", "/slots/all")):
            call, _ = await rig.ask(path, method=method)
            assert call.status == 401


# ── slots ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_erase_forgets_all_and_the_next_prompt_is_computed() -> None:
    flushed: list[bool] = []
    async with serving(synthetic=True, sizes=SIZES, reuse=RULES, retained=4, flush=lambda: flushed.append(True)) as rig:
        await ask(rig, PROMPT)
        call, body = await rig.ask("/slots/all", query="action=erase")
        assert (call.status, body["action"], body["runs"]) == (200, "erase", 1)
        assert body["tokens"] == 63
        assert (await page(rig))["scopes"] == []
        await ask(rig, PROMPT)
        assert rig.witness.rows[-1].reused_tokens == 0
        assert flushed == []


async def test_save_waits_until_all_is_on_disk() -> None:
    flushed: list[bool] = []
    rules = replace(RULES, host_tokens=1000)
    more: Json = {"reuse": rules, "retained": 4, "store": SyntheticStore(), "flush": lambda: flushed.append(True)}
    async with serving(synthetic=True, sizes=SIZES, **more) as rig:
        await ask(rig, PROMPT)
        call, body = await rig.ask("/slots/all", query="action=save")
        assert (call.status, body["action"], body["runs"], body["tokens"]) == (200, "save", 1, 63)
        assert flushed == [True]
        call, body = await rig.ask("/slots/all", query="action=save")
        assert (call.status, body["runs"]) == (200, 0)
        call, body = await rig.ask("/slots/all", query="action=restore")
        assert (call.status, body["runs"], body["tokens"]) == (200, 1, 63)


@pytest.mark.parametrize(
    ("path", "query", "status", "code"),
    [
        ("/slots/0", "action=save", 404, "not_found"),
        ("/slots/x", "action=save", 404, "not_found"),
        ("/slots/all", "", 400, None),
        ("/slots/all", "action=copy", 400, None),
        ("/slots/0", "action=copy", 400, None),
    ],
)
async def test_what_slots_cannot_do_is_named(path: str, query: str, status: int, code: str | None) -> None:
    async with serving(reuse=RULES, flush=lambda: None) as rig:
        call, body = await rig.ask(path, query=query)
        assert (call.status, body["error"]["code"]) == (status, code)


async def test_without_a_directory_there_are_no_slots() -> None:
    async with serving(reuse=RULES) as rig:
        call, _ = await rig.ask("/slots/all", query="action=save")
        assert call.status == 404
