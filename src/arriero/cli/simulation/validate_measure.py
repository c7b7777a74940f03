"""One `arriero sim validate`: load the model, run the course, put the file together."""

import sys
import time
from argparse import Namespace
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from arriero.bench.client import HttpTarget
from arriero.bench.client_loop import run as run_on_loop
from arriero.bench.client_options import HttpOptions
from arriero.bench.runner import Driver, LiveDriver
from arriero.bench.validate.course import CourseOptions, Findings, validate
from arriero.bench.validate.engine_side import EngineSide
from arriero.bench.validate.loads import HeldOut, held_out
from arriero.bench.validate.sensitivity import CHANGE
from arriero.cli.calibrate_progress import told
from arriero.cli.cost_profiles import UsedProfile, command
from arriero.cli.loading import LoadedModel, engine_options, load_model, placement_of, settle_threads
from arriero.cli.progress import Progress
from arriero.cli.quiet import require_quiet
from arriero.core.config import ServeConfig
from arriero.core.config_rules import public_view
from arriero.core.errors import ConfigError
from arriero.metrics.validity import worst
from arriero.record.bench_parts import Evidence, TargetFacts
from arriero.record.bench_result_run import run_facts
from arriero.record.machine import machine_facts
from arriero.record.profile_facts import profile_facts
from arriero.record.validation import Validation
from arriero.workload.manifest import sha256_of
from arriero.workload.settings import Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """What came out.

    Attributes:
        peer: what it says of itself, or None.
    """

    findings: Findings
    peer: dict[str, Any] | None


def validated(config: ServeConfig, flags: Namespace, words: Sequence[str], settings: Sequence[str]) -> Validation:
    """Measure, simulate, compare.

    Args:
        config: of the engine.
        flags: of the command.
        words: that started it.
        settings: names of those of the engine that belong into the file.

    Raises:
        ConfigError: the machine is busy, the model cannot be had, there is no profile, or no peer answers.
    """
    require_quiet("or use --busy-ok for a degraded result", busy_ok=flags.busy_ok)
    started_at, began_at = datetime.now(UTC), time.monotonic()
    with Progress("loading the model"):
        loaded = load_model(config)
    try:
        profile = _profile_of(loaded, config)
        measured = run_on_loop(_measure(config, flags, loaded, profile))
    finally:
        loaded.close()
    facts = {
        **{name: value for name, value in public_view(config).items() if name in settings},
        "threads": str(settle_threads(config)),
        **loaded.facts,
        "library": loaded.library,
    }
    findings, peer = measured.findings, measured.peer
    return Validation(
        validity=worst(each for load in findings.loads for each in load.validity),
        evidence=Evidence.MEASURED,
        run=run_facts(words, started_at=started_at, seconds=time.monotonic() - began_at),
        machine=machine_facts(),
        target=TargetFacts(name="in-process", kind="in-process", model=loaded.name, facts=facts),
        profile=profile_facts(profile.path, sha256_of(profile.path), profile.profile, profile.cost.threads),
        differences=(),
        loads=findings.loads,
        capacities=findings.capacities,
        sensitivities=findings.sensitivities,
        sensitivity_load=findings.sensitivity_load,
        change=CHANGE,
        peer=None if peer is None else TargetFacts(name=str(peer.get("url", "peer")), kind="http", facts=peer),
    )


async def _measure(config: ServeConfig, flags: Namespace, loaded: LoadedModel, profile: UsedProfile) -> _Measured:
    """Everything that needs the event loop."""
    limits = loaded.backend.limits
    options = CourseOptions(
        workloads=_chosen(held_out(limits.sequence_limit), flags.workloads),
        seconds=flags.seconds,
        num_requests=flags.requests,
        num_runs=flags.runs,
        seed=flags.seed,
        vocabulary=_usual_tokens(limits.vocab_size),
    )
    side = EngineSide(
        loaded.backend,
        engine_options(config, loaded.backend, profile.cost),
        placement=placement_of(config),
        look_s=flags.look,
    )
    async with _opened_peer(flags) as peer:
        with told(f"validating {loaded.name}", sys.stderr) as tell:
            findings = await validate(side, profile.cost, options, peer=peer, tell=tell)
        facts = None if peer is None else await peer.facts()
    return _Measured(findings=findings, peer=facts)


def _profile_of(loaded: LoadedModel, config: ServeConfig) -> UsedProfile:
    if loaded.profile is None:
        raise ConfigError(f"no cost profile of this model, machine and context; make one with: {command(config)}")
    return loaded.profile


def _chosen(known: tuple[HeldOut, ...], words: str | None) -> tuple[HeldOut, ...]:
    if words is None:
        return known
    by_name = {each.name: each for each in known}
    wanted = tuple(dict.fromkeys(word.strip() for word in words.split(",")))
    for word in wanted:
        if word not in by_name:
            raise ConfigError(f"--workloads {words}: {word!a} is none; use {', '.join(by_name)}")
    return tuple(by_name[word] for word in wanted)


def _usual_tokens(vocab_size: int) -> Vocabulary | None:
    """The usual range if the model has it; else the middle half of what it has, away from control tokens."""
    usual = Vocabulary()
    if usual.first_token + usual.size <= vocab_size:
        return None
    return Vocabulary(first_token=vocab_size // 4, size=max(2, vocab_size // 2))


@asynccontextmanager
async def _opened_peer(flags: Namespace) -> AsyncGenerator[Driver | None]:
    """The server that `--peer` names, or nobody.

    Raises:
        ConfigError: nobody answers there.
    """
    if flags.peer is None:
        yield None
        return
    probe = HttpTarget(flags.peer, HttpOptions())
    try:
        await probe.open()
        facts = await probe.facts()
    finally:
        await probe.close()
    if not facts["answers"]:
        raise ConfigError(f"--peer {flags.peer}: no server answers there; start it, or mend the address")
    # some servers refuse a request that names no model, and all know those that they offer
    options = HttpOptions(model=next(iter(facts["models"]), None))
    driver = LiveDriver(HttpTarget(flags.peer, options), "http", look_s=flags.look)
    try:
        yield driver
    finally:
        await driver.close()
