"""From flags to a driver: a server at an address, an engine in this process, or the simulator."""

import os
from argparse import Namespace
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from arriero.bench.client import HttpTarget
from arriero.bench.client_options import HttpOptions, TimeLimits, parse_url
from arriero.bench.in_process import InProcessTarget
from arriero.bench.loops_answers import Answers
from arriero.bench.runner import Driver, LiveDriver
from arriero.bench.runner_server import listening_pids
from arriero.bench.simulated import SimulatedDriver
from arriero.cli.advice import take_advice
from arriero.cli.bench.flags import ENGINE_OPTIONS, IN_PROCESS, SIM
from arriero.cli.loading import LoadedModel, engine_options, load_model, placement_of
from arriero.cli.logs import set_up_logs
from arriero.cli.progress import Progress
from arriero.cli.sources import configure
from arriero.core.config import ServeConfig
from arriero.core.config_rules import public_view
from arriero.core.errors import ConfigError
from arriero.engine.engine import Engine
from arriero.record.simulation_config import read_simulation_config
from arriero.workload.settings import Vocabulary

_ENGINE_FACTS: Final = frozenset(option.name for option in ENGINE_OPTIONS) - {"log_level", "log_format"}
_DRAIN_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTarget:
    """What is measured.

    Attributes:
        driver: carries out schedules.
        model: its name, or None.
        vocabulary: tokens that it knows, for made-up prompts; None for the usual ones.
        is_live: whether it is asked in real time, so that the instrument matters.
    """

    driver: Driver
    model: str | None = None
    vocabulary: Vocabulary | None = None
    is_live: bool = True


@asynccontextmanager
async def opened_target(flags: Namespace) -> AsyncGenerator[OpenTarget]:
    """The target that flags name; what it holds is given back at the end.

    Raises:
        ConfigError: it cannot be had. DataError: a file cannot be used.
    """
    match flags.target:
        case str(word) if word == SIM:
            config = read_simulation_config(Path(flags.sim))
            yield OpenTarget(driver=SimulatedDriver(config, name=flags.name), is_live=False)
        case str(word) if word == IN_PROCESS:
            async with _engine(flags) as opened:
                yield opened
        case _:
            async with _server(flags) as opened:
                yield opened


@asynccontextmanager
async def _server(flags: Namespace) -> AsyncGenerator[OpenTarget]:
    facts = await _probe(flags)
    given: str | None = getattr(flags, "model", None)
    # Some servers refuse a request that names no model, and all know those that they offer.
    model = given or next(iter(facts["models"]), None)
    answers = Answers()
    wants_answers = flags.answers == "real"
    target = HttpTarget(flags.target, _http_options(flags, model), on_text=answers.note if wants_answers else None)
    address = parse_url(flags.target)
    pids = tuple(flags.server_pid) or listening_pids(address.host, address.port)
    driver = LiveDriver(target, "http", answers=answers, server_pids=pids, look_s=flags.look)
    try:
        yield OpenTarget(driver=driver, model=model)
    finally:
        await driver.close()


async def _probe(flags: Namespace) -> dict[str, Any]:
    """What the server says of itself, on connections of its own.

    Raises:
        ConfigError: nobody answers there.
    """
    target = HttpTarget(flags.target, _http_options(flags, None))
    try:
        await target.open()
        facts = await target.facts()
    finally:
        await target.close()
    if not facts["answers"]:
        why = "".join(f" ({word})" for word in list(facts["first_errors"].values())[:1])
        raise ConfigError(f"--target {flags.target}: no server answers there{why}; start it, or mend the address")
    return facts


def _http_options(flags: Namespace, model: str | None) -> HttpOptions:
    return HttpOptions(
        name=flags.name,
        model=model,
        api_key=_secret(flags.api_key),
        limits=TimeLimits(total_s=flags.timeout, silence_s=flags.silence),
        reuse_connections=not flags.new_connections,
        continuous_usage=flags.continuous_usage,
        headers=dict(flags.header),
    )


def _secret(text: str | None) -> str | None:
    if text is None or not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--api-key {text}: cannot be read; name a text file") from error


@asynccontextmanager
async def _engine(flags: Namespace) -> AsyncGenerator[OpenTarget]:
    config = configure(flags, os.environ, ENGINE_OPTIONS)
    set_up_logs(config.log_level, config.log_format)
    with Progress("loading the model"):
        advice = take_advice(config, os.environ)  # what is measured is what would be served
        config = advice.config
        loaded = load_model(config, advice.threads)
    try:
        engine = Engine(loaded.backend, engine_options(config, loaded.backend, loaded.cost))
        answers = Answers()
        facts = {**_settings(config, loaded), **loaded.facts, "library": loaded.library}
        target = InProcessTarget(engine, name=flags.name or IN_PROCESS, on_answer=answers.note, facts=facts)
        engine.start(placement_of(config))
        try:
            driver = LiveDriver(target, "in-process", answers=answers, look_s=flags.look)
            yield OpenTarget(driver=driver, model=loaded.name, vocabulary=_usual_tokens(engine.limits.vocab_size))
        finally:
            await target.close()
            engine.shutdown()
            engine.cancel_all()
            await engine.wait_closed()
    finally:
        loaded.close()


def _settings(config: ServeConfig, loaded: LoadedModel) -> dict[str, Any]:
    view = {name: value for name, value in public_view(config).items() if name in _ENGINE_FACTS}
    return {**view, "threads": str(loaded.threads)}


def _usual_tokens(vocab_size: int) -> Vocabulary | None:
    """The usual range if the model has it; else the middle half of what it has, away from control tokens."""
    usual = Vocabulary()
    if usual.first_token + usual.size <= vocab_size:
        return None
    return Vocabulary(first_token=vocab_size // 4, size=max(2, vocab_size // 2))
