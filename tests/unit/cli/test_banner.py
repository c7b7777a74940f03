"""What a server says when it is ready."""

import io
import json
import logging
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from arriero.cli.advice import Advice
from arriero.cli.banner import Banner, tell
from arriero.cli.loading import LoadedModel, load_model
from arriero.cli.logs import set_up_logs
from arriero.cli.recommendations import FoundRecommendation
from arriero.core.config import BackendKind, CacheScope, LogFormat, LogLevel, ServeConfig, SessionReuse
from arriero.core.config_rules import resolve
from arriero.core.option_kinds import Threads
from arriero.record.cpu_lab.recommendation import recommendations_of
from tests.unit.record.cpu_lab.recommendations import run


class Terminal(io.StringIO):
    """Claims to be one."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(scope="module")
def loaded() -> Iterator[LoadedModel]:
    model = load_model(ServeConfig(backend=BackendKind.SYNTHETIC))
    yield model
    model.close()


def banner_for(loaded: LoadedModel, **settings: object) -> Banner:
    given = resolve(settings)
    return Banner(config=resolve(settings | {"threads": Threads(2, 4)}), given=given, port=8080, loaded=loaded)


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, "http://127.0.0.1:8080"),
        ({"host": "0.0.0.0"}, "http://127.0.0.1:8080"),  # noqa: S104 - what a person may write
        ({"host": "::"}, "http://[::1]:8080"),
        ({"host": "mule.example"}, "http://mule.example:8080"),
        ({"ssl_keyfile": "k", "ssl_certfile": "c"}, "https://127.0.0.1:8080"),
    ],
)
def test_the_url_is_one_that_this_machine_can_reach(loaded: LoadedModel, settings: dict[str, object], url: str) -> None:
    assert banner_for(loaded, **settings).url == url


def test_the_curl_line_is_a_shell_command_with_a_json_body(loaded: LoadedModel) -> None:
    words = shlex.split(banner_for(loaded).curl)
    assert words[:2] == ["curl", "http://127.0.0.1:8080/v1/chat/completions"]
    assert json.loads(words[-1])["messages"][0]["role"] == "user"


def test_with_keys_the_curl_line_asks_for_one_and_shows_none(loaded: LoadedModel) -> None:
    curl = banner_for(loaded, api_key=("sesame",)).curl
    assert '-H "Authorization: Bearer $API_KEY"' in curl
    assert "sesame" not in curl


def test_with_tls_the_curl_line_trusts_the_certificate(loaded: LoadedModel) -> None:
    words = shlex.split(banner_for(loaded, ssl_keyfile="k", ssl_certfile="my cert").curl)
    assert words[words.index("--cacert") + 1] == "my cert"


def test_plain_text_holds_sizes_settings_and_what_was_set(loaded: LoadedModel) -> None:
    out = io.StringIO()
    tell(banner_for(loaded, sequences=4, api_key=("sesame",)), out)
    text = out.getvalue()
    assert "8 ids: 8 running + 0 retained" in text
    settings = {line.split()[0]: line.split(maxsplit=1)[1] for line in text.splitlines() if line.startswith("  --")}
    assert settings["--sequences"] == "4  (set)"
    assert settings["--threads"] == "2,4"  # found, not set
    assert settings["--port"] == "8080"
    assert settings["--api-key"] == "1 hidden  (set)"
    assert text.splitlines()[-1].startswith("curl ")
    assert "sesame" not in text


def test_on_a_terminal_the_curl_line_is_not_wrapped(loaded: LoadedModel) -> None:
    out = Terminal()
    banner = banner_for(loaded)
    tell(banner, out)
    assert banner.curl in out.getvalue().splitlines()


def test_json_logs_hold_the_same(loaded: LoadedModel) -> None:
    stream = io.StringIO()
    set_up_logs(LogLevel.INFO, LogFormat.JSON, stream)
    banner = banner_for(loaded, log_format=LogFormat.JSON)
    tell(banner)
    lines = {line["message"]: line for line in map(json.loads, stream.getvalue().splitlines())}
    assert list(lines) == ["configuration", "model", "sizes", "reuse", "ready"]
    assert lines["configuration"]["config"]["threads"] == "2,4"
    assert lines["ready"]["curl"] == banner.curl


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "shared by all requests (no API keys)"),
        ({"api_key": ("a", "b")}, "shared by the requests of one API key (2 keys)"),
        ({"api_key": ("a", "b"), "cache_scope": CacheScope.GLOBAL}, "shared by all requests, of all 2 API keys"),
        (
            {"cache_scope": CacheScope.SESSION, "session_reuse": SessionReuse.LCP},
            "shared by the requests of one session; by none without session_id, by the rules of --session-reuse lcp",
        ),
        ({"reuse": False}, "not reused (off)"),
    ],
)
def test_who_shares_prefixes_is_told(loaded: LoadedModel, settings: dict[str, object], told: str) -> None:
    assert banner_for(loaded, **settings).reuse()["prefixes"] == told
    out = io.StringIO()
    tell(banner_for(loaded, **settings), out)
    assert told in out.getvalue()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "up to 64 more requests; the next gets 503"),
        ({"backlog": 8, "queue_timeout": 2.5}, "up to 8 more requests, for 2.5 s; the next gets 503"),
        ({"backlog_tokens": 20_000}, "up to 64 more requests with 20,000 prompt tokens; the next gets 503"),
    ],
)
def test_who_may_wait_is_told(loaded: LoadedModel, settings: dict[str, object], told: str) -> None:
    assert banner_for(loaded, **settings).sizes()["waiting"] == told


def test_a_recommendation_and_a_faster_file_are_told(loaded: LoadedModel) -> None:
    bare = banner_for(loaded)
    assert "recommendation" not in bare.sizes()
    found = FoundRecommendation(Path("/r.json"), recommendations_of(run())[0])
    advice = Advice(config=bare.given, found=found)
    said = replace(bare, advice=advice, loaded=replace(loaded, threads=Threads(1, 2))).sizes()
    assert said["recommendation"] == "/r.json of 2026-01-02: 1,2 threads, 1.25 times as fast (1.20 to 1.30)"
    assert said["faster file"].startswith("m.Q4_0.gguf is 2.00 times as fast")
