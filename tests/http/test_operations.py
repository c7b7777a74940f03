"""Pages for whoever runs the server: health, metrics, models, tokens, configuration, shutdown; and the gate."""

import asyncio
from functools import partial
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from arriero.engine.options import EngineOptions
from arriero.http.exposition import MetricsPage, PageOptions
from arriero.http.metric_names import LLAMACPP, NATIVE, VLLM, Kind
from arriero.http.metrics import Metrics
from tests.http.rig import Json, Valve, chat, serving, text
from tests.http.test_cancels import steady

CHAT = "/v1/chat/completions"


async def test_r5_health_and_metrics_answer_while_a_decode_call_holds_the_engine() -> None:
    valve = Valve()
    async with serving(faults=[valve]) as rig:
        call = rig.call(CHAT, chat(max_tokens=5))
        await steady(rig, valve, 1)
        health, body = await rig.ask("/health", method="GET")
        assert (health.status, body["status"], body["reason"]) == (200, "ok", None)
        page = await rig.call("/metrics", method="GET").begin()
        assert page.status == 200
        assert b"arriero_requests_running" in await page.rest()
        valve.open()
        await call.rest()


async def test_a16_work_without_steps_is_stuck_and_not_merely_busy() -> None:
    valve = Valve()
    async with serving(faults=[valve], engine_options=EngineOptions(stuck_after_s=0.0)) as rig:
        call = rig.call(CHAT, chat(max_tokens=5))
        await steady(rig, valve, 1)
        health, body = await rig.ask("/health", method="GET")
        assert (health.status, body["status"], body["busy"]) == (503, "unavailable", True)
        assert "no step" in body["reason"]
        assert health.headers["retry-after"] == "1"
        valve.open()
        await call.rest()
        await rig.idle()
        health, _ = await rig.ask("/health", method="GET")
        assert health.status == 200


async def test_health_tells_that_the_engine_drains_or_was_never_started() -> None:
    async with serving() as rig:
        rig.engine.shutdown()
        health, body = await rig.ask("/health", method="GET")
        assert (health.status, body["status"]) == (503, "unavailable")
        call, body = await rig.ask(CHAT, chat())
        assert (call.status, body["error"]["code"]) == (503, "unavailable")


async def test_the_models_page_lists_the_served_model() -> None:
    async with serving() as rig:
        _, body = await rig.ask("/v1/models", method="GET")
        assert [each["id"] for each in body["data"]] == ["test-model"]
        assert {"id", "object", "created", "owned_by"} <= set(body["data"][0])
        call, body = await rig.ask("/v1/models/test-model", method="GET")
        assert body["max_model_len"] == 512
        call, body = await rig.ask("/v1/models/other/name", method="GET")
        assert (call.status, body["error"]["code"]) == (404, "model_not_found")


async def test_tokens_go_both_ways() -> None:
    async with serving() as rig:
        _, body = await rig.ask("/tokenize", {"content": "é"})
        assert body == {"tokens": [0xC3, 0xA9]}
        _, body = await rig.ask("/detokenize", body)
        assert body == {"content": "é"}
        _, body = await rig.ask("/tokenize", {"content": "a", "with_pieces": True})
        assert body == {"tokens": [{"id": 97, "piece": "a"}]}
        _, body = await rig.ask("/tokenize", {"content": "<|im_end|>"})
        assert len(body["tokens"]) == 10
        _, body = await rig.ask("/tokenize", {"content": "<|im_end|>", "parse_special": True})
        assert len(body["tokens"]) == 1


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/tokenize", {}, 400),
        ("/tokenize", {"content": 5}, 400),
        ("/detokenize", {"tokens": ["a"]}, 400),
        ("/detokenize", {"tokens": [99999]}, 422),
        ("/detokenize", {"tokens": [-1]}, 422),
    ],
)
async def test_r19_odd_tokens_are_refused(path: str, body: Json, status: int) -> None:
    async with serving() as rig:
        call, answer = await rig.ask(path, body)
        assert call.status == status
        assert answer["error"]["message"]


async def test_the_debug_pages_show_configuration_and_state() -> None:
    async with serving() as rig:
        _, config = await rig.ask("/debug/config", method="GET")
        assert config == {"ctx_size": 512}
        _, state = await rig.ask("/debug/state", method="GET")
        assert state["engine"]["scheduler"]["kv"]["num_cells"] == 512
        assert state["door"]["in_flight"] == 0
        assert state["tasks"] >= 1


@pytest.mark.parametrize(
    ("diagnostics", "allowed", "status"), [(True, True, 200), (True, False, 404), (False, True, 404)]
)
async def test_g37_shutdown_exists_only_where_both_switches_are_on(  # a table
    *, diagnostics: bool, allowed: bool, status: int
) -> None:
    stopped: list[str] = []
    stop = partial(stopped.append, "stop")
    async with serving(stop=stop, diagnostics=diagnostics, allow_shutdown=allowed) as rig:
        call, body = await rig.ask("/shutdown")
        assert call.status == status
        if status == 200:
            assert body == {"status": "shutting_down"}
            assert stopped == ["stop"]
            async with asyncio.timeout(20):
                await rig.engine.wait_closed()
        else:
            assert body["error"]["code"] == "not_found"
            assert stopped == []


async def test_g37_there_is_one_row_for_each_request_the_rejected_ones_included() -> None:
    async with serving() as rig:
        await rig.ask(CHAT, chat(max_tokens=3))
        await rig.ask("/v1/completions", text(["a", "b"], max_tokens=2))
        await rig.ask(CHAT, chat(temperature=-1))
        await rig.call("/completion", {"prompt": "x", "decode_budget": 4, "stream": True}).rest()
        rows = rig.witness.rows
        assert [row.outcome for row in rows] == ["answered", "answered", "answered", "rejected", "answered"]
        assert [row.request_id for row in rows] == [1, 2, 3, None, 4]
        assert (rows[3].http_status, rows[3].error_code, rows[3].n_decoded) == (400, None, 0)
        assert (rows[4].stream, rows[4].n_decoded, rows[4].prompt_tokens, rows[4].final_status) == (
            True,
            4,
            1,
            "completed",
        )
        assert rows[4].sse_write_count >= 1
        assert rows[4].sse_write_bytes > 100


async def test_g43_the_stamps_of_a_row_are_in_order() -> None:
    async with serving() as rig:
        for stream in (True, False):
            await rig.call(CHAT, chat(max_tokens=3, stream=stream)).rest()
        for row in rig.witness.rows:
            stamps = [
                row.t_entry_us,
                row.t_parse_done_us,
                row.t_tokenize_done_us,
                row.submit_us,
                row.t_admitted_us,
                row.first_token_us,
                row.t_complete_us,
                row.t_result_available_us,
                row.t_exit_us,
            ]
            known = [stamp for stamp in stamps if stamp is not None]
            assert len(known) == len(stamps)
            assert known == sorted(known)
            assert (row.disconnect_observed, row.cancel_issued) == (False, False)


async def test_without_a_request_log_no_rows_are_made() -> None:
    async with serving(log_rows=False) as rig:
        call, _ = await rig.ask(CHAT, chat(max_tokens=1))
        assert call.status == 200
        assert rig.witness.rows == []


# ── metrics ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_metrics_page_counts_what_happened() -> None:
    async with serving() as rig:
        await rig.ask(CHAT, chat(max_tokens=3))
        await rig.ask(CHAT, chat(max_tokens=0))
        await rig.idle()
        call = await rig.call("/metrics", method="GET").begin()
        page = (await call.rest()).decode()
    assert call.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }

    def value(name: str, **labels: str) -> float:
        return samples[name, tuple(sorted(labels.items()))]

    vllm = {"model_name": "test-model", "engine": "0"}
    assert value("arriero_generated_tokens_total") == 3
    assert value("vllm:generation_tokens_total", **vllm) == 3
    assert value("llamacpp:tokens_predicted_total") == 3
    assert value("arriero_requests_total", endpoint="chat", outcome="length") == 1
    assert value("arriero_requests_total", endpoint="chat", outcome="rejected") == 1
    assert value("arriero_requests_rejected_total", reason="invalid") == 1
    assert value("arriero_time_to_first_token_seconds_count") == 1
    assert value("arriero_inter_token_latency_seconds_count") == 2
    assert value("arriero_kv_cells", state="free") == 512
    assert value("arriero_build_info", version="0") == 1
    identity = value("arriero_queue_time_seconds_sum") + value("arriero_prefill_time_seconds_sum")
    assert value("arriero_time_to_first_token_seconds_sum") == pytest.approx(identity)
    identity += value("arriero_decode_time_seconds_sum")
    assert value("arriero_e2e_latency_seconds_sum") == pytest.approx(identity)
    assert value("arriero_inter_token_latency_seconds_sum") == pytest.approx(value("arriero_decode_time_seconds_sum"))


def test_name_sets_can_be_left_out_and_labels_are_closed() -> None:
    options = PageOptions(model="m", info={"version": "0"}, settings={"arriero_threads": 2}, vllm=False, llamacpp=False)
    page = MetricsPage(Metrics(), options).render()
    assert b"arriero_threads 2.0" in page
    assert b"vllm:" not in page
    assert b"llamacpp:" not in page
    for shown in (*NATIVE, *VLLM, *LLAMACPP):
        assert len(shown.labels) == len(shown.values), shown.name
        assert shown.help.endswith("."), shown.name
    names = [(shown.name, shown.kind is Kind.COUNTER) for shown in (*NATIVE, *VLLM, *LLAMACPP)]
    assert len(set(names)) == len(names)


def test_the_page_of_metrics_explains_every_exported_name(root: Path) -> None:
    text_ = (root / "docs" / "metrics.md").read_text(encoding="utf-8")
    for shown in (*NATIVE, *VLLM, *LLAMACPP):
        name = f"{shown.name}_total" if shown.kind is Kind.COUNTER else shown.name
        assert f"`{name}" in text_, name


# ── the gate: keys, origins, sizes, paths ───────────────────────────────────────────────────────────────────────────


async def test_e25_a_preflight_is_answered_without_a_key() -> None:
    async with serving(api_keys=("k",)) as rig:
        headers = {
            "origin": "http://page.example",
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization, content-type",
        }
        call = await rig.call(CHAT, method="OPTIONS", headers=headers).begin()
        assert call.status == 204
        assert call.headers["access-control-allow-origin"] == "*"
        assert "POST" in call.headers["access-control-allow-methods"]
        assert call.headers["access-control-allow-headers"] == "authorization, content-type"
        assert await call.rest() == b""


async def test_e25_an_answer_and_an_error_carry_the_origin_headers_too() -> None:
    async with serving(cors_origins=("http://one.example",), api_keys=("k",)) as rig:
        good = {"origin": "http://one.example", "authorization": "Bearer k"}
        call, _ = await rig.ask(CHAT, chat(max_tokens=1), headers=good)
        assert call.headers["access-control-allow-origin"] == "http://one.example"
        call, _ = await rig.ask(CHAT, chat(max_tokens=1), headers={"origin": "http://one.example"})
        assert (call.status, call.headers["access-control-allow-origin"]) == (401, "http://one.example")
        call, _ = await rig.ask(CHAT, chat(max_tokens=1), headers={**good, "origin": "http://two.example"})
        assert "access-control-allow-origin" not in call.headers


@pytest.mark.parametrize("value", ["Bearer k", "bearer k", "BEARER k", "  bearer   k "])
async def test_e25_the_scheme_of_a_key_has_any_case(value: str) -> None:
    async with serving(api_keys=("other", "k")) as rig:
        call, _ = await rig.ask(CHAT, chat(max_tokens=1), headers={"authorization": value})
        assert call.status == 200


@pytest.mark.parametrize("value", [None, "", "Bearer", "Bearer ", "Bearer K", "Basic k", "k", "Bearer k k"])
@pytest.mark.parametrize("path", [CHAT, "/v1/models", "/metrics", "/debug/config", "/completion", "/nope"])
async def test_e25_without_a_known_key_nothing_is_shown(value: str | None, path: str) -> None:
    async with serving(api_keys=("k",)) as rig:
        headers = {} if value is None else {"authorization": value}
        call, body = await rig.ask(path, chat(max_tokens=1), headers=headers)
        assert (call.status, body["error"]["code"]) == (401, "invalid_api_key")
        assert call.headers["www-authenticate"] == "Bearer"
        call, _ = await rig.ask("/health", method="GET")
        assert call.status == 200


@pytest.mark.parametrize("declared", [True, False])
async def test_e25_a_body_that_is_too_large_is_refused_before_it_is_read(declared: bool) -> None:  # noqa: FBT001
    async with serving(max_body_bytes=1000) as rig:
        headers = {"content-length": "5000"} if declared else {}
        call, body = await rig.ask(CHAT, raw=[b" " * 500] * 10, headers=headers)
        assert (call.status, body["error"]["code"]) == (413, "payload_too_large")
        assert len(call._requests) == (10 if declared else 7)


async def test_e25_a_head_that_is_too_large_is_refused() -> None:
    async with serving() as rig:
        call, body = await rig.ask("/health", method="GET", headers={"x-much": "x" * 1_000_000})
        assert (call.status, body["error"]["code"]) == (431, "headers_too_large")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", CHAT, 405, "method_not_allowed"),
        ("DELETE", "/v1/models", 405, "method_not_allowed"),
        ("GET", "/completion", 405, "method_not_allowed"),
        ("POST", "/v1/nothing", 404, "not_found"),
        ("GET", "/", 404, "not_found"),
    ],
)
async def test_e18_wrong_methods_and_paths_get_the_error_object(method: str, path: str, status: int, code: str) -> None:
    async with serving() as rig:
        call, body = await rig.ask(path, method=method)
        assert (call.status, body["error"]["code"]) == (status, code)
        assert set(body["error"]) == {"message", "type", "param", "code"}
        if status == 405:
            assert call.headers["allow"]


@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b'"x"', b"{}", b"\xef\xbb\xbf{}", b"[" * 100_000, b"null"])
async def test_e18_e12_what_is_no_json_object_gets_the_error_object(raw: bytes) -> None:
    async with serving() as rig:
        for path in (CHAT, "/v1/completions", "/completion", "/tokenize"):
            call, body = await rig.ask(path, raw=raw)
            assert call.status == 400
            assert set(body["error"]) == {"message", "type", "param", "code"}
        assert rig.engine.door.accepted == 0


async def test_a_trailing_slash_is_no_other_address() -> None:
    async with serving() as rig:
        call = rig.call("/health/", method="GET", headers={"host": "elsewhere.example"})
        assert (await call.json())["error"]["type"] == "invalid_request_error"
        assert call.status == 404


async def test_r4_tokenizing_counts_against_the_backlog() -> None:
    async with serving(backlog=0) as rig:
        places = [rig.engine.enter() for _ in range(rig.engine.limits.num_sequences)]
        call, answer = await rig.ask("/tokenize", {"content": "abc"})
        assert (call.status, answer["error"]["code"]) == (503, "server_busy")
        for place in places:
            place.leave()
        call, _ = await rig.ask("/tokenize", {"content": "abc"})
        assert call.status == 200
