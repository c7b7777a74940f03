"""From flags to a plan; whatever cannot work is told before anything is started."""

import argparse
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from arriero.bench.compare_metrics import metric_of
from arriero.bench.compare_plan import ComparePlan, HoldOptions, LoadOptions, cells_of
from arriero.bench.compare_sides import SideSpec
from arriero.bench.compare_verdicts import Rules
from arriero.bench.peers import PEERS, Peer
from arriero.bench.prompts import PromptForm
from arriero.bench.rounds import Side, read_order
from arriero.bench.schedule_work import Work, fixed_work, load_work
from arriero.bench.search import SearchPlan
from arriero.bench.search_plans import plan_of as search_plan_of
from arriero.bench.servers_commands import ServerCommand, split_command, split_words, with_flags
from arriero.core.errors import ConfigError
from arriero.record.machine import usable_cpus

DEFAULT_WORK: Final = "120x64"
_LENGTHS: Final = re.compile(r"([1-9]\d{0,6})x([1-9]\d{0,6})")
_MADE: Final = 64  # requests of a generator, for the lengths that cells need; a round takes as many as it wants
_fields: Final = msgspec.json.Decoder(dict[str, Any]).decode


def plan_of(flags: argparse.Namespace) -> ComparePlan:
    """The plan, checked.

    Raises:
        ConfigError: a flag cannot work. DataError: a file cannot be used.
    """
    sides = {side: _side(side, flags) for side in Side}
    forms = {spec.prompt_form for spec in sides.values()}
    cells = cells_of(
        [_work(word, flags.seed) for word in flags.workload or [DEFAULT_WORK]],
        flags.clients,
        slots=flags.slots,
        slot_context=flags.slot_context,
        form=PromptForm.TEXT if PromptForm.TEXT in forms else PromptForm.TOKENS,
    )
    plan = ComparePlan(
        sides=sides,
        cells=cells,
        rules=_rules(flags),
        load=LoadOptions(num_requests=flags.requests, num_warm_up=flags.warm_up, seed=flags.seed),
        hold=HoldOptions(
            logs=Path(flags.logs) if flags.logs else Path(flags.out).with_suffix("") / "logs",
            model=flags.model,
            threads=flags.threads or len(usable_cpus()),
            one_at_a_time=flags.one_at_a_time,
            timeout_s=flags.start_timeout,
            grace_s=flags.grace,
        ),
        order=read_order(flags.order),
        num_rounds=flags.rounds,
        num_aa_rounds=flags.rounds if flags.aa_rounds is None else flags.aa_rounds,
        seed=flags.seed,
        searches=dict(_searches(flags)),
        search_each=flags.search_each,
    )
    plan.check()
    for cell in plan.cells:  # a workload that is too small is told now
        plan.schedule(cell, "check")
    return plan


def _side(side: Side, flags: argparse.Namespace) -> SideSpec:
    given: Mapping[str, Any] = {
        name: getattr(flags, f"{side}_{name}")
        for name in ("command", "binary", "flags", "fields", "health", "name", "prompts")
    }
    word = getattr(flags, side.value)
    if (word is None) == (given["command"] is None):
        peers = ", ".join(Peer)
        raise ConfigError(f"--{side}: give an address, one of {peers}, or --{side}-command, and one of them only")
    body = _read_fields(given["fields"], f"--{side}-fields")
    form = None if given["prompts"] is None else PromptForm(given["prompts"])
    if word is not None and word not in list(Peer):
        return _running(side, word, given, body, form)
    command = _command(side, word, given, flags.model)
    further = split_words(given["flags"], f"--{side}-flags")
    return SideSpec(
        name=given["name"] or command.name,
        command=with_flags(command, further),
        body=body,
        prompt_form=form or command.prompt_form,
        peer=word,
        flags=further,
    )


def _running(
    side: Side, url: str, given: Mapping[str, Any], body: Mapping[str, Any], form: PromptForm | None
) -> SideSpec:
    """A server that runs already."""
    if urlsplit(url).scheme not in {"http", "https"}:
        raise ConfigError(f"--{side} {url}: no server of this name; use an address http://HOST:PORT, {', '.join(Peer)}")
    for name in ("binary", "flags"):
        if given[name]:
            raise ConfigError(f"--{side}-{name}: only for a server that is started; leave it out")
    return SideSpec(
        name=given["name"] or urlsplit(url).netloc,
        url=url,
        health_path=given["health"] or "/health",
        body=body,
        prompt_form=form or PromptForm.TOKENS,
    )


def _command(side: Side, word: str | None, given: Mapping[str, Any], model: str | None) -> ServerCommand:
    if word is None:
        origin = f"--{side}-command"
        text: str = given["command"]
        if given["binary"]:
            raise ConfigError(f"--{side}-binary: {origin} names its program itself; leave one of them out")
        command = split_command(text, name=f"command {side.upper()}", origin=origin)
    else:
        peer = Peer(word)
        if peer is not Peer.ARRIERO and model is not None and not Path(model).is_file():
            raise ConfigError(f"--model {model}: no such file, and {peer} takes nothing else; name a GGUF file")
        command = replace(PEERS[peer](given["binary"]), origin=f"--{side} {word}")
    return command if given["health"] is None else replace(command, health=given["health"])


def _read_fields(text: str | None, origin: str) -> Mapping[str, Any]:
    if text is None:
        return {}
    try:
        return _fields(text)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{origin} {text}: no JSON object ({error}); write one, such as {{}}") from None


def _work(word: str, seed: int) -> Work:
    if (match := _LENGTHS.fullmatch(word)) is not None:
        return fixed_work(prompt_tokens=int(match[1]), max_tokens=int(match[2]), count=_MADE, seed=seed)
    return load_work(word)


def _rules(flags: argparse.Namespace) -> Rules:
    if not flags.decides:
        raise ConfigError("--decides: empty; name the metric whose verdict counts")
    names = dict.fromkeys([*flags.decides, *flags.also])
    unknown = [word for word in flags.must_be_stable if word not in list(Side)]
    if unknown:
        raise ConfigError(f"--must-be-stable {unknown[0]}: no side; use a, b or a,b")
    return Rules(
        metrics=tuple(metric_of(name) for name in names),
        decides=tuple(flags.decides),
        margin=flags.least_difference,
        confidence=flags.confidence,
        seed=flags.seed,
        stable=frozenset(Side(word) for word in flags.must_be_stable),
        accepts_failures=flags.failures_ok,
    )


def _searches(flags: argparse.Namespace) -> list[tuple[Side, SearchPlan]]:
    found: list[tuple[Side, SearchPlan]] = []
    for side in Side:
        text = getattr(flags, f"{side}_search")
        if text is None:
            continue
        word = getattr(flags, side.value)
        plan = search_plan_of(text, Peer(word) if word in list(Peer) else None, f"--{side}-search")
        found.append((side, plan if flags.search_rounds is None else replace(plan, num_rounds=flags.search_rounds)))
    return found
