"""ServerCommand: how a server is started, with names in braces for what is known only then."""

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Final

from arriero.bench.prompts import PromptForm
from arriero.core.errors import ConfigError

HOST: Final = "127.0.0.1"
_TELLS_VERSION: Final = "llama-server"  # this program does, whatever command it stands in
_NAME: Final = re.compile(r"\{([a-z_]+)\}")  # JSON in a command has quotes or spaces after its braces


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerValues:
    """What the braces of a command stand for.

    Attributes:
        model: the model file; None if there is none, and then no command may ask for it.
        threads: compute threads.
        slots: requests that run at once.
        slot_context: KV cells of each slot.
        host, port: where it is to listen; the port is chosen at its start.
    """

    model: str | None
    threads: int
    slots: int
    slot_context: int
    host: str = HOST
    port: int | None = None

    def by_name(self) -> dict[str, str | None]:
        """Each name that may stand in braces."""
        return {
            "python": sys.executable,
            "model": self.model,
            "threads": str(self.threads),
            "slots": str(self.slots),
            "slot_context": str(self.slot_context),
            "context": str(self.slots * self.slot_context),
            "host": self.host,
            "port": None if self.port is None else str(self.port),
        }


NAMES: Final = ("python", "model", "threads", "slots", "slot_context", "context", "host", "port")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCommand:
    """A command line, and what has to be known about the server behind it.

    Attributes:
        name: for people: of the server, not of the side that it is on.
        words: the command with names in braces; see `NAMES`.
        health: the path that answers 200 as soon as requests are taken.
        body: fields that every request to it carries besides the usual ones.
        prompt_form: what it takes as a prompt.
        takes_request_ids: it lets a client name its requests by any `x-request-id`.
        version: a command that prints its version and ends, with names in braces; empty if none is known.
        origin: the flag it was given by, for complaints.
    """

    name: str
    words: tuple[str, ...]
    health: str = "/health"
    body: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    prompt_form: PromptForm = PromptForm.TOKENS
    takes_request_ids: bool = True
    version: tuple[str, ...] = ()
    origin: str = "the command"

    def filled(self, values: ServerValues) -> tuple[str, ...]:
        """The words as they are executed.

        Raises:
            ConfigError: a name is unknown, or its value was not given.
        """
        known = values.by_name()
        return tuple(_NAME.sub(lambda match: self._value(match[1], known), word) for word in self.words)

    def check(self, values: ServerValues) -> None:
        """Refuse before anything is started what would be refused then.

        Raises:
            ConfigError: see `filled`; or nothing says where the port goes.
        """
        if not any("{port}" in word for word in self.words):
            raise ConfigError(f"{self.origin}: no {{port}} in it; write {{port}} where the server reads its port")
        for name in dict.fromkeys(name for word in self.words for name in _NAME.findall(word)):
            if name != "port":
                self._value(name, values.by_name())

    def _value(self, name: str, known: Mapping[str, str | None]) -> str:
        if name not in known:
            raise ConfigError(f"{self.origin}: {{{name}}} is no name; use {', '.join(NAMES)}")
        value = known[name]
        if value is None:
            raise ConfigError(f"{self.origin}: {{{name}}} has no value; give --{name}")
        return value


def split_command(text: str, *, name: str, origin: str, health: str = "/health") -> ServerCommand:
    """A command as a person writes it, with the quoting of a shell and without one.

    Raises:
        ConfigError: a quote is left open, or nothing is there.
    """
    words = split_words(text, origin)
    if not words:
        raise ConfigError(f"{origin}: empty; give a command")
    program = next((word for word in words if PurePath(word).name == _TELLS_VERSION), None)
    version = () if program is None else version_words(program)
    return ServerCommand(name=name, words=words, health=health, version=version, origin=origin)


def version_words(program: str) -> tuple[str, ...]:
    """What asks a program for its version, as most have it."""
    return (program, "--version")


def split_words(text: str, origin: str) -> tuple[str, ...]:
    """The words of a text, with the quoting of a shell.

    Raises:
        ConfigError: a quote is left open.
    """
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise ConfigError(f"{origin}: {str(error).lower()}; close the quote") from None


def with_flags(command: ServerCommand, flags: Sequence[str]) -> ServerCommand:
    """The same server with further flags at the end of its command."""
    return replace(command, words=(*command.words, *flags))
