"""Every generator by its name, and the settings of the workloads that have a name of their own."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from arriero.core.errors import BadWorkload
from arriero.workload import generators, published, saturated, settings
from arriero.workload.published import PublishedConfig
from arriero.workload.records import SCHEMA, WorkloadRecord
from arriero.workload.saturated import SaturatedConfig
from arriero.workload.settings import ComposedConfig
from arriero.workload.strict import convert

PUBLISHED_SEED: Final = 20_260_719
SATURATED_CHAT: Final = "saturated_chat"
DEFAULT_SATURATED_COUNT: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A workload that can be made.

    Attributes:
        generator: the name that its manifest carries.
        config: the settings as they were given.
        workload_class, request_count, seed: from the settings.
        make: gives the records, from the first on at every call.
    """

    generator: str
    config: Mapping[str, Any]
    workload_class: str
    request_count: int
    seed: int
    make: Callable[[], Iterator[WorkloadRecord]]


def recipe(config: Mapping[str, Any], *, file: str | None = None, below: str = "") -> Recipe:
    """What settings ask for; those without `generator` are of the published form.

    Args:
        config: as read from JSON or TOML.
        file: named in errors.
        below: the field in which the settings stand.

    Raises:
        BadWorkload: the settings are not of the form that their generator takes.
    """
    name = config.get("generator", published.GENERATOR)
    if "generator" in config and name not in OURS:
        raise BadWorkload(
            f"generator: {name!r} is none; use {' or '.join(OURS)}, or leave it out for the published form",
            file=file,
            field="generator",
        )
    typed, make = _read(str(name), config, file, below)
    return Recipe(
        generator=str(name),
        config=dict(config),
        workload_class=str(typed.workload_class),
        request_count=typed.request_count,
        seed=typed.seed,
        make=make,
    )


def named_config(name: str, count: int | None = None) -> dict[str, Any]:
    """The settings of a workload that has a name.

    Args:
        name: one of `NAMES`.
        count: how many requests instead of the usual number.

    Raises:
        BadWorkload: no such name.
    """
    if name == SATURATED_CHAT:
        count = DEFAULT_SATURATED_COUNT if count is None else count
        return {
            "schema_version": SCHEMA,
            "generator": saturated.GENERATOR,
            "workload_class": "chat",
            "request_count": count,
            "seed": saturated.SEED_BASE + count,
        }
    if name not in _PUBLISHED:
        match = get_close_matches(name, NAMES, n=1)
        remedy = f"did you mean {match[0]}?" if match else f"use a file, or one of {', '.join(NAMES)}"
        raise BadWorkload(f"no configuration file and no workload of this name; {remedy}", file=name)
    kind, usual_count, arrival = _PUBLISHED[name]
    return {
        "schema_version": SCHEMA,
        "workload_class": kind,
        "request_count": usual_count if count is None else count,
        "seed": PUBLISHED_SEED,
        "arrival": dict(arrival),
    }


def _read(
    name: str, config: Mapping[str, Any], file: str | None, below: str
) -> tuple[PublishedConfig | ComposedConfig | SaturatedConfig, Callable[[], Iterator[WorkloadRecord]]]:
    match name:
        case settings.GENERATOR:
            composed = convert(config, ComposedConfig, file=file, below=below)
            return composed, partial(generators.generate, composed)
        case saturated.GENERATOR:
            chat = convert(config, SaturatedConfig, file=file, below=below)
            return chat, partial(saturated.generate, chat)
        case _:
            known = convert(config, PublishedConfig, file=file, below=below)
            return known, partial(published.generate, known)


def _fixed(interval_us: int) -> Mapping[str, Any]:
    return MappingProxyType({"mode": "fixed_interval", "interval_us": interval_us, "start_time_us": 0})


OURS: Final = (settings.GENERATOR, saturated.GENERATOR)
_PUBLISHED: Final = MappingProxyType({
    "burst": ("burst", 8, MappingProxyType({"mode": "burst", "start_time_us": 0})),
    "chat": ("chat", 8, MappingProxyType({"mode": "exponential", "mean_interval_us": 12_000, "start_time_us": 0})),
    "coding_agent": ("coding_agent", 8, _fixed(14_000)),
    "mixed_low": ("mixed", 12, _fixed(30_000)),
    "mixed_medium": ("mixed", 12, _fixed(10_000)),
    "mixed_overload": ("mixed", 12, _fixed(500)),
    "overload": ("overload", 12, _fixed(500)),
    "shared_system_prompt": ("shared_system_prompt", 8, _fixed(10_000)),
})
NAMES: Final = (*_PUBLISHED, SATURATED_CHAT)
"""Workloads that need no configuration file."""
