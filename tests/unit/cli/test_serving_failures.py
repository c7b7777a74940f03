"""What a server does when its engine cannot start, or dies while it serves."""

import http.client
import json
import logging
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.cli import serving
from arriero.cli.banner import Banner
from arriero.cli.loading import LoadedModel, load_model
from arriero.cli.main import main
from arriero.core.config import ServeConfig
from arriero.core.option_kinds import Threads
from arriero.core.plan import Row
from arriero.testing.fakes import FaultyBackend
from arriero.testing.faults import Uncuttable

SERVE = ["serve", "--backend", "synthetic", "--port", "0"]


class DyingBackend(SyntheticBackend):
    """Computes nothing and breaks its engine, as a bug of ours would."""

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        raise RuntimeError(f"a bug met {len(rows)} rows")


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_cpus_that_cannot_be_had_are_one_line_and_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SERVE, "--engine-cpus", "4000"]) == 2
    told = capsys.readouterr()
    assert told.err.startswith("arriero: --engine-cpus 4000: ")
    assert told.err.count("\n") == 1


def test_a_dead_engine_ends_the_server_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    statuses: list[int] = []
    clients: list[threading.Thread] = []

    def load_dying(config: ServeConfig, advised: Threads | None) -> LoadedModel:
        loaded = load_model(config, advised)
        options = SyntheticOptions(vocab_size=loaded.vocabulary.size, end_tokens=loaded.vocabulary.end_tokens)
        return replace(loaded, backend=DyingBackend(options))

    def ask(port: int) -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
            connection.request("POST", "/v1/completions", json.dumps({"prompt": "x", "max_tokens": 4}))
            with closing(connection.getresponse()) as answer:
                statuses.append(answer.status)

    def ask_when_ready(banner: Banner) -> None:
        clients.append(threading.Thread(target=ask, args=[banner.port]))
        clients[0].start()

    monkeypatch.setattr(serving, "load_model", load_dying)
    monkeypatch.setattr(serving, "tell", ask_when_ready)
    assert main(SERVE) == 1
    clients[0].join(timeout=30)
    assert statuses == [500]
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("arriero: the engine ended by itself: ")
    assert "a bug met 1 rows" in last


def test_c13_reuse_that_the_memory_cannot_do_is_said_once_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []

    def load_uncuttable(config: ServeConfig, advised: Threads | None) -> LoadedModel:
        loaded = load_model(config, advised)
        return replace(loaded, backend=FaultyBackend(loaded.backend, Uncuttable()))

    def end(banner: Banner) -> None:
        told.append(banner.reuse()["prefixes"])
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(serving, "load_model", load_uncuttable)
    monkeypatch.setattr(serving, "tell", end)
    assert main(SERVE) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "prefix reuse" in line]
    assert len(lines) == 1
    assert f"prefix reuse: unsupported: {Uncuttable.reason}" in lines[0]
    assert told == [f"not reused (unsupported: {Uncuttable.reason})"]
