"""Option: one setting, as flag, environment variable, TOML key and line of the manual.

Reading and writing agree: `kind.parse(text(value)) == value` and `kind.accept(plain(value)) == value`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, cast

from arriero.core.option_kinds import Kind

Plain: TypeAlias = bool | int | float | str | list["Plain"] | None


@dataclass(frozen=True, slots=True)
class Spec:
    """What the author of an option says about it; the field that carries it gives name and default.

    Attributes:
        section: the heading that it stands under.
        kind: which values it takes.
        says: one sentence for help and manual.
        unit: what a number counts.
        unset: what a default of None means.
        secret: never shown.
    """

    section: str
    kind: Kind
    says: str
    unit: str = ""
    unset: str = ""
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """One setting.

    Attributes:
        name: the field, and the key of a TOML file.
        default: used when nobody sets it.
        spec: everything else.
    """

    name: str
    default: object
    spec: Spec

    @property
    def flag(self) -> str:
        """On the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """In the environment."""
        return "ARRIERO_" + self.name.upper()

    @property
    def shown_default(self) -> str:
        """The default as a person reads it."""
        if self.default in {None, ()}:
            return self.spec.unset or "none"
        return text(self.default)


def text(value: object) -> str:
    """A value as flags and variables write it: what `Kind.parse` reads back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        entries = cast("tuple[object, ...]", value)
        return ",".join(str(entry) for entry in entries) or "none"
    return "0" if value is None else str(value)


def plain(value: object) -> Plain:
    """A value as JSON and TOML hold it: what `Kind.accept` reads back, None excepted."""
    if isinstance(value, StrEnum):
        return value.value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        entries = cast("tuple[object, ...]", value)
        return [plain(entry) for entry in entries]
    return str(value)
