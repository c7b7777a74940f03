"""`GET /v1/requests/{id}/explain`: alive or ended lately, to whoever asked for it, and to nobody else."""

import pytest

from arriero.core.events import TokenEmitted
from arriero.http.explain_stories import Stories
from arriero.http.rows import Story
from arriero.http.tenants import Tenant
from tests.http.rig import Json, Rig, Valve, chat, serving, text
from tests.http.test_cancels import steady, step_until

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"


def headers(name: str, key: str | None = None) -> dict[str, str]:
    """A client's own id, and its key if it needs one."""
    return {"x-request-id": name} | ({} if key is None else {"authorization": f"Bearer {key}"})


async def explained(rig: Rig, name: str, key: str | None = None) -> Json:
    call, body = await rig.ask(f"/v1/requests/{name}/explain", method="GET", headers=headers("ask", key))
    assert call.status == 200, body
    for each in body["sequences"]:
        check_sums(each)
    return body


def check_sums(each: Json) -> None:
    assert all(time > 0 or part == "delivery" for part, time in each["parts_us"].items())
    assert sum(each["parts_us"].values()) == each["total_us"]
    stretches = (each["until_first_token_us"], each["between_tokens_us"], each["closing_us"])
    assert sum(sum(stretch.values()) for stretch in stretches) + (each["delivery_us"] or 0) == each["total_us"]
    assert sum(share["us"] for share in each["others_prefill"]) == each["parts_us"].get("others_prefill", 0)
    for gap in each["gaps"]:
        assert sum(gap["parts_us"].values()) == gap["us"]


async def test_an_answer_is_explained_from_its_arrival_to_its_last_byte() -> None:
    async with serving(log_rows=False) as rig:
        answer = await rig.call(CHAT, chat(max_tokens=5), headers=headers("mine")).json()
        assert answer["id"] == "mine"
        body = await explained(rig, "mine")
        assert (body["id"], body["object"]) == ("mine", "request.explanation")
        assert (body["state"], body["error"]) == ("answered", None)
        (each,) = body["sequences"]
        assert (each["state"], each["detail"], each["tokens"], each["shares_by"]) == ("length", None, 5, "rows")
        assert each["delivery_us"] is not None
        assert each["total_us"] == body["total_us"]
        assert each["ttft_us"] <= each["e2e_us"] <= each["total_us"]
        assert {"own_prefill", "decode", "host"} <= each["parts_us"].keys()


async def test_a_stream_without_a_name_of_its_own_is_known_by_the_id_of_its_answer() -> None:
    async with serving() as rig:
        call = rig.call(TEXT, text(max_tokens=3, stream=True))
        await call.rest()
        body = await explained(rig, call.headers["x-request-id"])
        assert body["sequences"][0]["tokens"] == 3


async def test_each_prompt_of_a_request_has_its_own_story() -> None:
    async with serving() as rig:
        await rig.call(TEXT, text([[97], [98, 99, 100, 101, 102]], max_tokens=2), headers=headers("two")).rest()
        body = await explained(rig, "two")
        assert [each["prompt_tokens"] for each in body["sequences"]] == [1, 5]


async def test_a_request_that_is_being_answered_is_explained_so_far() -> None:
    valve = Valve()
    async with serving(faults=[valve]) as rig:
        call = rig.call(CHAT, chat(max_tokens=5), headers=headers("slow"))
        await steady(rig, valve, 1)
        body = await explained(rig, "slow")
        assert (body["state"], body["total_us"]) == ("answering", None)
        (each,) = body["sequences"]
        assert (each["state"], each["delivery_us"], each["e2e_us"]) == ("running", None, None)
        valve.open()
        await call.rest()
        assert (await explained(rig, "slow"))["state"] == "answered"


async def test_the_tenant_s_own_requests_are_named_by_their_ids_and_those_of_others_are_not() -> None:
    valve = Valve()
    async with serving(faults=[valve], api_keys=("one", "two")) as rig:
        first = rig.call(TEXT, text("a", max_tokens=30), headers=headers("first", "one"))
        await steady(rig, valve, 1)
        await step_until(rig, valve, lambda: any(isinstance(event, TokenEmitted) for event in rig.witness.events))
        own = rig.call(TEXT, text("b" * 20, max_tokens=2), headers=headers("own", "one"))
        others = rig.call(TEXT, text("c" * 20, max_tokens=2), headers=headers("others", "two"))
        await rig.witness.until(lambda: rig.engine.num_submitted == 3)
        valve.open()
        for call in (first, own, others):
            await call.rest()
        (each,) = (await explained(rig, "first", "one"))["sequences"]
        named = {share["request"]: share.get("id") for share in each["others_prefill"]}
        assert sorted(named) == [2, 3]
        assert sorted(named.values(), key=str) == [None, "own"]
        assert [len(gap["others_prefill"]) for gap in each["gaps"]] in ([2], [1, 1])


async def test_nobody_is_told_of_another_tenant_s_request() -> None:
    async with serving(api_keys=("one", "two")) as rig:
        await rig.call(CHAT, chat(max_tokens=2), headers=headers("mine", "one")).rest()
        call, body = await rig.ask("/v1/requests/mine/explain", method="GET", headers=headers("ask", "two"))
        assert (call.status, body["error"]["code"]) == (404, "request_not_found")
        call, body = await rig.ask("/v1/requests/mine/explain", method="GET")
        assert call.status == 401


async def test_an_unknown_id_is_not_found() -> None:
    async with serving() as rig:
        call, body = await rig.ask("/v1/requests/nobody/explain", method="GET")
        assert (call.status, body["error"]["param"]) == (404, "id")
        call, body = await rig.ask("/v1/requests/nobody/explain", {})
        assert call.status == 405


async def test_a_request_that_the_door_refused_says_why() -> None:
    valve = Valve()
    async with serving(faults=[valve], backlog=0) as rig:
        calls = [rig.call(CHAT, chat(max_tokens=9)) for _ in range(4)]
        await rig.witness.until(lambda: rig.engine.num_submitted == 4)
        refused = rig.call(CHAT, chat(), headers=headers("fifth"))
        await refused.rest()
        assert refused.status == 503
        body = await explained(rig, "fifth")
        assert (body["state"], body["error"], body["sequences"]) == ("refused", "server_is_overloaded", [])
        assert body["total_us"] >= 0
        valve.open()
        for call in calls:
            await call.rest()


async def test_a_cancelled_request_says_who_asked_for_it() -> None:
    valve = Valve()
    async with serving(faults=[valve]) as rig:
        call = rig.call(CHAT, chat(max_tokens=100), headers=headers("mine"))
        await steady(rig, valve, 1)
        await rig.ask("/v1/requests/mine/cancel")
        valve.open()
        await call.rest()
        (each,) = (await explained(rig, "mine"))["sequences"]
        assert (each["state"], each["detail"]) == ("cancelled", "user")


async def test_what_a_client_is_told_of_is_bounded() -> None:
    async with serving() as rig:
        tenant, stories = Tenant(0), Stories(rig.engine.now, kept=2)
        for number in range(5):
            story = Story(rig.service, None, "chat", None, entered_at=0, answer_id=f"r{number}")  # type: ignore[arg-type]
            stories.begin(tenant, story)
            assert stories.find(tenant, f"r{number}") is not None
            stories.end(tenant, story)
        known = [stories.find(tenant, f"r{number}") is not None for number in range(5)]
        assert known == [False, False, False, True, True]
        assert stories.find(Tenant(1), "r4") is None


async def test_an_id_that_is_used_again_stands_for_the_later_request() -> None:
    async with serving() as rig:
        for length in (2, 4):
            await rig.call(CHAT, chat(max_tokens=length), headers=headers("again")).rest()
        assert (await explained(rig, "again"))["sequences"][0]["tokens"] == 4


async def test_the_metrics_page_adds_up_where_the_time_of_all_went() -> None:
    async with serving() as rig:
        for name in ("one", "two"):
            await rig.call(CHAT, chat(max_tokens=3), headers=headers(name)).rest()
        stories = [(await explained(rig, name))["sequences"][0] for name in ("one", "two")]
        for part in ("own_prefill", "decode", "host"):
            seen = rig.metrics.tally.distribution("stall", part)
            assert seen.buckets[-1] == (float("inf"), 2)
            assert seen.sum * 1e6 == pytest.approx(sum(story["parts_us"][part] for story in stories))
