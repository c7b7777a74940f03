"""`arriero serve` from outside: it says what it is, answers, drains, and ends with the right status."""

import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

COMMAND = [sys.executable, "-W", "error", "-m", "arriero", "serve", "--backend", "synthetic", "--port", "0"]
# Long enough to be met while it runs, short enough to wait for its end.
LONG = {"prompt": "x", "max_tokens": 150, "ignore_eos": True, "stream": True}

Start = Callable[..., "Served"]

pytestmark = pytest.mark.slow


class Served:
    """A server in a process of its own, which logs JSON."""

    def __init__(self, *flags: str) -> None:
        words = [*COMMAND, "--log-format", "json", *flags]
        self.process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.log: list[dict[str, Any]] = []
        self.open = ExitStack()
        ready = self.read_until("ready")
        self.curl = str(ready["curl"])
        self.port = int(str(ready["url"]).rpartition(":")[2])

    def read_until(self, message: str) -> dict[str, Any]:
        """The first log line with this message at its start."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(json.loads(line))
            if self.log[-1]["message"].startswith(message):
                return self.log[-1]
        pytest.fail(f"no line {message!r} in {self.log}")

    def ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> http.client.HTTPResponse:
        """Ask over a connection of its own, which stays open until the test ends."""
        connection = self.open.enter_context(closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)))
        connection.request(method, path, None if body is None else json.dumps(body), dict(headers or {}))
        return self.open.enter_context(closing(connection.getresponse()))

    def end(self) -> int:
        """Wait for the end; the exit status."""
        out, err = self.process.communicate(timeout=60)
        assert out == ""
        self.log += [json.loads(line) for line in err.splitlines() if line.startswith("{")]
        return self.process.returncode


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts servers, and ends those that a test left running."""
    servers: list[Served] = []

    def start_one(*flags: str) -> Served:
        servers.append(Served(*flags))
        return servers[-1]

    yield start_one
    for server in servers:
        if server.process.poll() is None:
            server.process.kill()
        server.process.communicate()
        server.open.close()


def test_the_printed_curl_line_works(start: Start) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl on this machine")
    server = start()
    done = subprocess.run(server.curl, shell=True, capture_output=True, text=True, check=True, timeout=60)  # noqa: S602
    assert json.loads(done.stdout)["usage"]["completion_tokens"] > 0
    server.process.send_signal(signal.SIGINT)
    assert server.end() == 0


def test_the_effective_configuration_is_told_and_served_without_secrets(start: Start) -> None:
    server = start("--api-key", "sesame", "--sequences", "4")
    told = next(line for line in server.log if line["message"] == "configuration")["config"]
    assert told["sequences"] == 4
    assert int(told["threads"]) >= 1
    answer = server.ask("GET", "/debug/config", headers={"Authorization": "Bearer sesame"})
    assert json.loads(answer.read()) == told
    assert "sesame" not in json.dumps(server.log)


def test_a_signal_lets_running_requests_finish_and_refuses_new_ones(start: Start) -> None:
    server = start()
    running = server.ask("POST", "/v1/completions", LONG)
    first = running.readline()
    server.process.send_signal(signal.SIGTERM)
    server.read_until("stopping")
    refused = server.ask("POST", "/v1/completions", LONG)
    assert (refused.status, refused.getheader("retry-after")) == (503, "1")
    rest = (first + running.read()).decode()
    assert rest.rstrip().endswith("data: [DONE]")
    assert '"finish_reason":"length"' in rest
    assert server.end() == 0


def test_what_does_not_finish_in_time_is_cancelled(start: Start) -> None:
    server = start("--drain-timeout", "0.1")
    running = server.ask("POST", "/v1/completions", LONG | {"max_tokens": 2000})
    running.readline()
    server.process.send_signal(signal.SIGTERM)
    text = running.read().decode()
    assert '"error"' in text
    assert '"finish_reason":"length"' not in text
    assert server.end() == 0
    assert any("the time to drain is over" in line["message"] for line in server.log)


def test_a_second_signal_ends_it_at_once(start: Start) -> None:
    server = start()
    server.ask("POST", "/v1/completions", LONG | {"max_tokens": 2000}).readline()
    server.process.send_signal(signal.SIGTERM)
    server.read_until("stopping")
    server.process.send_signal(signal.SIGTERM)
    assert server.end() == 128 + signal.SIGTERM


def test_both_placements_serve(start: Start) -> None:
    server = start("--placement", "shared")
    answer = server.ask("POST", "/v1/completions", {"prompt": "x", "max_tokens": 4, "ignore_eos": True})
    assert json.loads(answer.read())["usage"]["completion_tokens"] == 4
    server.process.send_signal(signal.SIGTERM)
    assert server.end() == 0


def test_shutdown_over_http_flushes_diagnostics(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "diagnostics.jsonl"
    server = start("--allow-shutdown", "--diagnostics", str(file))
    server.ask("POST", "/v1/completions", {"prompt": "x", "max_tokens": 4, "ignore_eos": True}).read()
    assert json.loads(server.ask("POST", "/shutdown").read()) == {"status": "shutting_down"}
    assert server.end() == 0
    kinds = [json.loads(line)["kind"] for line in file.read_text().splitlines()]
    assert {"iter", "server_request", "engine_summary"} <= set(kinds)


def test_without_diagnostics_there_is_no_shutdown(start: Start) -> None:
    server = start("--allow-shutdown")
    assert server.ask("POST", "/shutdown").status == 404
    assert any("--allow-shutdown" in line["message"] for line in server.log)


def test_the_settings_reach_the_endpoints(start: Start) -> None:
    server = start(
        *("--alias", "mule", "--api-key", "sesame", "--max-prompt-tokens", "8", "--max-body-size", "2K"),
        *("--strict-fields", "--check", "--sequences", "1", "--prefill-rows-per-seq", "2"),
    )
    key = {"Authorization": "Bearer sesame"}
    good: dict[str, object] = {"model": "mule", "prompt": "12345678", "max_tokens": 2, "ignore_eos": True}

    def status(headers: Mapping[str, str] = key, **fields: object) -> int:
        return server.ask("POST", "/v1/completions", good | fields, headers).status

    assert status() == 200
    assert status({}) == 401
    assert status(model="horse") == 404
    assert status(prompt="123456789") == 413
    assert status(user="u" * 2048) == 413
    assert status(colour="red") == 400


def test_with_tls_the_printed_curl_line_works(start: Start, tmp_path: Path) -> None:
    if shutil.which("curl") is None or shutil.which("openssl") is None:
        pytest.skip("there is no curl or no openssl on this machine")
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*words.split(), "-keyout", key, "-out", certificate], capture_output=True, check=True, timeout=60)
    server = start("--ssl-keyfile", key, "--ssl-certfile", certificate)
    done = subprocess.run(server.curl, shell=True, capture_output=True, text=True, check=True, timeout=60)  # noqa: S602
    assert json.loads(done.stdout)["object"] == "chat.completion"


def test_a_port_in_use_is_one_line_and_status_2() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        done = subprocess.run([*COMMAND, "--port", port], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"arriero: --port {port}: in use on 127.0.0.1")
    assert done.stderr.count("\n") == 1


def test_a_person_gets_plain_lines_where_no_terminal_is() -> None:
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("curl "):
                break
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    text = "".join(lines)
    assert "8 ids: 8 running + 0 retained" in text
    assert "--port" in text
    assert "\x1b" not in text


def test_the_trace_tells_the_life_of_a_request_and_not_its_text() -> None:
    with subprocess.Popen([*COMMAND, "--trace"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = next(line.split()[1] for line in process.stdout if line.startswith("curl "))
        address = url.removeprefix("http://").partition("/")[0]
        with closing(http.client.HTTPConnection(address, timeout=60)) as connection:
            body = {"prompt": "sesame", "max_tokens": 2, "ignore_eos": True}
            connection.request("POST", "/v1/completions", json.dumps(body))
            with closing(connection.getresponse()) as answer:
                assert answer.status == 200
                answer.read()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    events = [line.split()[0] for line in err.splitlines() if line.startswith("event=")]
    assert events[0] == "event=engine_start"
    assert {"event=request_queued", "event=request_admitted_live", "event=engine_stop"} <= set(events)
    assert "sesame" not in err
