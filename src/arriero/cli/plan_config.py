"""The configuration that a plan recommends, as a TOML file for `arriero serve --config` and as flags."""

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

from arriero.core.config import OPTIONS, ServeConfig
from arriero.core.option import Plain, plain, text
from arriero.core.option_kinds import Switch

_BY_NAME: Final = {option.name: option for option in OPTIONS}


def settings_of(config: ServeConfig, names: frozenset[str]) -> dict[str, Plain]:
    """What a file has to say so that a server is configured like this; defaults are left out.

    Args:
        config: to be had.
        names: settings that are said even where they are the default.
    """
    return {
        option.name: plain(value)
        for option in OPTIONS
        if (value := getattr(config, option.name)) is not None and (option.name in names or value != option.default)
    }


def as_toml(settings: Mapping[str, Plain], heading: tuple[str, ...]) -> str:
    """A file that `arriero serve --config` takes, with comments at its top."""
    lines = [*(f"# {line}" for line in heading), "", *(f"{name} = {_value(each)}" for name, each in settings.items())]
    return "\n".join(lines) + "\n"


def as_flags(config: ServeConfig, settings: Mapping[str, Plain]) -> str:
    """The same on a command line."""
    return shlex.join(_words(config, settings))


def _words(config: ServeConfig, settings: Mapping[str, Plain]) -> Iterator[str]:
    for name in settings:
        option = _BY_NAME[name]
        if isinstance(option.spec.kind, Switch):
            yield option.flag if getattr(config, name) else f"--no-{option.flag.removeprefix('--')}"
        else:
            yield from (option.flag, text(getattr(config, name)))


def _value(value: Plain) -> str:
    """A basic string of TOML takes what a JSON string is made of; so do numbers, booleans and lists of them."""
    return json.dumps(value, ensure_ascii=False)
