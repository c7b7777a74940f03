"""From the flags of `arriero lab ab` to variants and a plan; whatever cannot work is told before anything runs."""

import shlex
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from arriero.backend.models import resolve_model
from arriero.core.errors import ConfigError
from arriero.core.option_kinds import BadValue, Numbers
from arriero.lab.ab.plan import WARM_UPS, AbPlan
from arriero.lab.ab.session import SessionOptions
from arriero.lab.ab.variants import Program, Variant, Worker
from arriero.record.cpu_lab.ab_run import DURATION, PEAK_RSS, MetricFacts, RuleSet, SideName
from arriero.record.cpu_lab.worker import WorkerOptions
from arriero.record.machine import usable_cpus

MODEL: Final = "smollm2-135m"
QUICK_PAIRS: Final = 8
_FIELDS: Final = tuple(field.name for field in msgspec.structs.fields(WorkerOptions))
_SHORT: Final = MappingProxyType({
    "kv": ("kv_key", "kv_value"),
    "prompt": ("prompt_tokens",),
    "generate": ("generated_tokens",),
})
_USUAL: Final = MappingProxyType({"model": MODEL, "generated_tokens": "64", "greedy_tokens": "32"})
_QUICK: Final = MappingProxyType({"prompt_tokens": "32", "generated_tokens": "8", "greedy_tokens": "8"})
_UP: Final = ("_per_s", "_per_second")
_DOWN: Final = ("_s", "_ms", "_us", "_ns", "_seconds", "_bytes", "_kib")


def variants_of(flags: Namespace) -> Mapping[SideName, Variant]:
    """Both sides.

    Raises:
        ConfigError: names the flag and the remedy.
    """
    a = _variant(flags, "a")
    if not flags.aa:
        if not _is_given(flags, "b") and a.target.kind == "command":
            raise ConfigError("--b-command: give what A is compared with, or --aa to compare A with itself")
        b = _variant(flags, "b")
        if replace(b, name=a.name) == a:
            raise ConfigError("--b: nothing differs between the sides; say what does, or use --aa for A with itself")
        return {"a": a, "b": b}
    if _is_given(flags, "b"):
        raise ConfigError("--aa: B is A, so leave out everything that begins with --b-")
    return {"a": a, "b": replace(a, name=f"{a.name} again")}


def plan_of(flags: Namespace) -> AbPlan:
    """What is stated before the run.

    Raises:
        ConfigError: names the flag and the remedy.
    """
    usual = AbPlan()
    num_pairs = flags.pairs or (QUICK_PAIRS if flags.quick else usual.num_pairs)
    warm_ups = 1 if flags.quick else WARM_UPS
    if not flags.timeout > 0:
        raise ConfigError(f"--timeout {flags.timeout:g}: a run needs some time; give seconds above 0")
    return AbPlan(
        num_pairs=num_pairs,
        num_aa_pairs=num_pairs if flags.aa_pairs is None else flags.aa_pairs,
        num_warm_ups=warm_ups if flags.warm_ups is None else flags.warm_ups,
        seed=flags.seed,
        cpus=_cpus(flags.cpus),
        timeout_s=flags.timeout,
        rules=RuleSet(flags.rules),
        num_looks=flags.looks,
        margin=flags.least_difference,
        metrics=tuple(map(metric_of, flags.metric)),
        same_text=flags.same_text,
    )


def options_of(flags: Namespace) -> SessionOptions:
    """How to treat what is in the folder.

    Raises:
        ConfigError: a flag that needs --resume stands alone.
    """
    for name in ("force", "repair"):
        if getattr(flags, name) and not flags.resume:
            raise ConfigError(f"--{name}: is about a run that goes on; use it with --resume, or name another --out")
    return SessionOptions(resume=flags.resume, force=flags.force, repair=flags.repair)


def metric_of(word: str) -> MetricFacts:
    """A deciding metric: `NAME:up`, `NAME:down`, or a name that says it.

    Raises:
        ConfigError: the direction is not known.
    """
    name, colon, way = word.rpartition(":")
    if not colon:
        name, way = word, _way_of(word)
    if not name or way not in {"up", "down"}:
        raise ConfigError(f"--metric {word}: is more of it better or worse? write NAME:up or NAME:down")
    return MetricFacts(name=name, higher_is_better=way == "up")


def _way_of(name: str) -> str:
    if name.endswith(_UP):
        return "up"
    return "down" if name.endswith(_DOWN) else ""


# ── one side ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _is_given(flags: Namespace, side: str) -> bool:
    rest = ("library", "command", "name")
    lists = getattr(flags, side) or getattr(flags, f"{side}_env")
    return bool(lists) or any(getattr(flags, f"{side}_{each}") is not None for each in rest)


def _variant(flags: Namespace, side: str) -> Variant:
    given: Mapping[str, Any] = vars(flags)
    text, library, own = given[f"{side}_command"], given[f"{side}_library"], given[side]
    environment = dict(_pairs(given[f"{side}_env"], f"--{side}-env", splits=False))
    if text is None:
        target: Worker | Program = Worker(options=_options(flags, side))
        name = given[f"{side}_name"] or _name(own, environment, library, side)
    else:
        if own or flags.both:
            raise ConfigError(f"--{side}-command: is run as it stands; leave out --{side} and --both")
        target = Program(words=_words(text, f"--{side}-command"), keys=_keys(flags.metric))
        name = given[f"{side}_name"] or side.upper()
    folder = None if library is None else Path(library)
    return Variant(name=name, target=target, environment=environment, library=folder)


def _name(own: Sequence[str], environment: Mapping[str, str], library: str | None, side: str) -> str:
    """What is particular about a side, in its own words."""
    words = [word for text in own for word in text.split(",")]
    words += [f"{name}={value}" for name, value in environment.items()]
    words += [] if library is None else [f"library {Path(library).name}"]
    parts = [word.partition("=") for word in words]
    return ", ".join(f"{name}={Path(value).name}" if equals else name for name, equals, value in parts) or side.upper()


def _options(flags: Namespace, side: str) -> WorkerOptions:
    usual = {**_USUAL, "threads": str(len(usable_cpus())), **(_QUICK if flags.quick else {})}
    both, own = _given(flags, "both"), _given(flags, side)
    settings = {**usual, **both, **own}
    try:
        options = msgspec.convert(settings, WorkerOptions, strict=False)
    except msgspec.ValidationError as error:
        what, _, field = str(error).partition(" - at `$.")
        shown = field.rstrip("`")
        flag = "both" if shown in both and shown not in own else side
        value = f" {shown}={settings[shown]}" if shown in settings else ""
        raise ConfigError(f"--{flag}{value}: {what[:1].lower()}{what[1:]}; mend it") from None
    return msgspec.structs.replace(options, model=str(resolve_model(options.model).resolve()))


def _given(flags: Namespace, name: str) -> dict[str, str]:
    """The settings behind one flag."""
    return dict(_known(_pairs(getattr(flags, name), f"--{name}"), f"--{name}"))


def _known(pairs: Iterator[tuple[str, str]], flag: str) -> Iterator[tuple[str, str]]:
    for key, value in pairs:
        name = key.replace("-", "_")
        names = _SHORT.get(name, (name,))
        if names[0] not in _FIELDS:
            match = get_close_matches(name, [*_FIELDS, *_SHORT], n=1)
            remedy = f"did you mean {match[0]}?" if match else f"use {', '.join(_FIELDS)}"
            raise ConfigError(f"{flag} {key}={value}: no such setting; {remedy}")
        yield from ((each, value) for each in names)


def _pairs(texts: Sequence[str], flag: str, *, splits: bool = True) -> Iterator[tuple[str, str]]:
    for text in texts:
        for word in text.split(",") if splits else [text]:
            name, equals, value = word.partition("=")
            if not equals or not name.strip() or (splits and not value.strip()):
                raise ConfigError(f"{flag} {word}: no setting; write NAME=VALUE")
            yield name.strip(), value.strip() if splits else value


def _words(text: str, flag: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ConfigError(f"{flag}: {str(error).lower()}; close the quote") from None
    if not words:
        raise ConfigError(f"{flag}: empty; give a command")
    return words


def _keys(metrics: Sequence[str]) -> tuple[str, ...]:
    names = [metric_of(word).name for word in metrics]
    return tuple(name for name in names if name not in {DURATION, PEAK_RSS})


def _cpus(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        cpus = tuple(sorted(set(Numbers(0).parse(text))))
    except BadValue as error:
        raise ConfigError(f"--cpus {text}: {error}") from None
    missing = [cpu for cpu in cpus if cpu not in usable_cpus()]
    if missing:
        raise ConfigError(f"--cpus {text}: CPU {missing[0]} is not among those of this process ({usable_cpus()})")
    return cpus
