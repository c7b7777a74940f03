"""Where settings come from: a flag wins over an `ARRIERO_...` variable, that over a TOML file, that over the default.

Whatever is wrong with a value is told as one line: where it stands, what is wrong, and the remedy.
"""

import argparse
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NoReturn, cast

from arriero.core.config import OPTIONS, ServeConfig
from arriero.core.config_rules import resolve
from arriero.core.errors import ConfigError
from arriero.core.option import Option
from arriero.core.option_kinds import BadValue, Switch, Texts

CONFIG_VARIABLE: Final = "ARRIERO_CONFIG"
PROFILES_VARIABLE: Final = "ARRIERO_PROFILES"  # the folder where cost profiles are kept
RECOMMENDATIONS_VARIABLE: Final = "ARRIERO_RECOMMENDATIONS"  # that of recommendations, or `off`
_ABSENT: Final = argparse.SUPPRESS


class LineParser(argparse.ArgumentParser):
    """A parser whose complaints are one line with the remedy."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(f"{message[:1].lower()}{message[1:]}; see {self.prog} --help")


def make_parser(command: str, says: str) -> LineParser:
    """A parser for one command."""
    return LineParser(prog=f"arriero {command}", description=says, allow_abbrev=False)


def add_options(
    parser: argparse.ArgumentParser, options: Sequence[Option] = OPTIONS, *, with_file: bool = True
) -> None:
    """Give the parser a flag for each option, in groups, and perhaps `--config`."""
    if with_file:
        parser.add_argument("--config", metavar="FILE", help=f"read settings from a TOML file [{CONFIG_VARIABLE}]")
    groups = {section: parser.add_argument_group(section) for section in dict.fromkeys(o.spec.section for o in options)}
    for option in options:
        group = groups[option.spec.section]
        says = f"{option.spec.says} (default: {option.shown_default})".replace("%", "%%").replace("`", "")
        match option.spec.kind:
            case Switch():
                group.add_argument(option.flag, help=says, action=argparse.BooleanOptionalAction, default=_ABSENT)
            case Texts():
                metavar = option.spec.kind.metavar
                group.add_argument(option.flag, help=says, metavar=metavar, action="append", default=_ABSENT)
            case kind:
                group.add_argument(option.flag, help=says, metavar=kind.metavar, default=_ABSENT)


def configure(
    flags: argparse.Namespace,
    environment: Mapping[str, str],
    options: Sequence[Option] = OPTIONS,
    defaults: ServeConfig | None = None,
) -> ServeConfig:
    """Read all sources and make one configuration of them.

    Raises:
        ConfigError: one line that names the flag, variable or key and the remedy.
    """
    file = getattr(flags, "config", None) or environment.get(CONFIG_VARIABLE)
    settings = {
        **(from_toml(Path(file)) if file else {}),
        **from_environment(environment),
        **from_flags(flags, options),
    }
    taken = {option.name for option in options}
    return resolve({name: value for name, value in settings.items() if name in taken}, defaults)


def from_flags(flags: argparse.Namespace, options: Sequence[Option] = OPTIONS) -> dict[str, object]:
    """The settings that stand on the command line."""
    given = vars(flags)
    return {option.name: _flag_value(option, given[option.name]) for option in options if option.name in given}


def from_environment(environment: Mapping[str, str]) -> dict[str, object]:
    """The settings that stand in `ARRIERO_...` variables; those that are no settings are left to others."""
    return {
        option.name: _parse(option, text, f"{option.variable}={text}")
        for option in OPTIONS
        if (text := environment.get(option.variable))  # an empty one counts as not set
    }


def misspelled(environment: Mapping[str, str]) -> list[str]:
    """A line for each variable that looks like a setting of ours and is none."""
    known = [option.variable for option in OPTIONS] + [CONFIG_VARIABLE, PROFILES_VARIABLE, RECOMMENDATIONS_VARIABLE]
    strange = sorted(name for name in environment if name.startswith("ARRIERO_") and name not in known)
    close = ((name, get_close_matches(name, known, n=1, cutoff=0.85)) for name in strange)
    return [f"{name}: no setting; did you mean {match[0]}?" for name, match in close if match]


def from_toml(path: Path) -> dict[str, object]:
    """The settings of a TOML file; its keys are the names of the fields.

    Raises:
        ConfigError: names the file, the key and the remedy.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"--config {path}: {_reason(error)}; name a TOML file that can be read") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config {path}: no TOML ({error}); write lines such as: port = 8080") from None
    known = {option.name: option for option in OPTIONS}
    return {key: _accept(known, key, value, path) for key, value in table.items()}


def _accept(known: Mapping[str, Option], key: str, value: object, path: Path) -> object:
    option = known.get(key)
    if option is None:
        match = get_close_matches(key.replace("-", "_"), known, n=1)
        remedy = f"did you mean {match[0]}?" if match else "take it out; the keys are in docs/configuration.md"
        raise ConfigError(f"{path}: {key}: no setting; {remedy}")
    try:
        accepted = option.spec.kind.accept(value)
    except BadValue as error:
        shown = "" if option.spec.secret else f" = {value!r}"
        raise ConfigError(f"{path}: {key}{shown}: {error}") from None
    return _read_files(option, accepted)


def _flag_value(option: Option, given: object) -> object:
    if isinstance(given, bool):  # a switch: the parser has read it already
        return given
    if isinstance(given, list):
        texts = tuple(str(text) for text in cast("list[object]", given))
        return _read_files(option, texts if all(text.strip() for text in texts) else _empty(option))
    return _parse(option, str(given), f"{option.flag} {given}")


def _parse(option: Option, text: str, origin: str) -> object:
    try:
        return _read_files(option, option.spec.kind.parse(text))
    except BadValue as error:
        raise ConfigError(f"{option.variable if option.spec.secret else origin}: {error}") from None


def _empty(option: Option) -> NoReturn:
    raise ConfigError(f"{option.flag}: empty; give a value or leave it out")


def _read_files(option: Option, value: object) -> object:
    """For options made of texts: put the lines of `@FILE` in its place; a line that starts with # is a comment."""
    if not isinstance(option.spec.kind, Texts):
        return value
    texts: list[str] = []
    for text in _texts(value):
        texts.extend(_lines(option, Path(text[1:])) if text.startswith("@") else [text])
    return tuple(texts)


def _lines(option: Option, path: Path) -> list[str]:
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{option.flag} @{path}: {_reason(error)}; name a text file that can be read") from None
    found = [line for line in lines if line and not line.startswith("#")]
    if not found:
        raise ConfigError(f"{option.flag} @{path}: holds nothing; write one a line")
    return found


def _texts(value: object) -> tuple[str, ...]:
    assert isinstance(value, tuple), "a kind made of texts returns a tuple"
    return tuple(str(text) for text in cast("tuple[object, ...]", value))


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or "cannot be read").lower() if isinstance(error, OSError) else "not UTF-8 text"
