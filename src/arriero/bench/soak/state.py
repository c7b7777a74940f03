"""SoakState: everything that a soak knows, in one file that is whole at any moment."""

import os
from pathlib import Path
from typing import Final, Literal

import msgspec

from arriero.bench.soak.records import LegRecord, ServerRecord
from arriero.bench.soak.settings import SoakSettings
from arriero.core.errors import ConfigError, DataError
from arriero.record.strict import convert, parse_object

SCHEMA: Final = "arriero-soak-v1"
STATE: Final = "state.json"


class SoakState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was planned and what has been so far.

    Attributes:
        settings: of all of it; never change.
        legs: that were run to their end, in order.
        servers: that were started, in order.
        failures: what ended a leg before its end, a sentence each.
        num_resumed: how often it went on after it had been stopped or killed.
    """

    schema: Literal["arriero-soak-v1"] = "arriero-soak-v1"
    settings: SoakSettings
    legs: tuple[LegRecord, ...] = ()
    servers: tuple[ServerRecord, ...] = ()
    failures: tuple[str, ...] = ()
    num_resumed: int = 0

    @property
    def is_over(self) -> bool:
        """Whether every leg was run."""
        return len(self.legs) >= self.settings.num_legs


class StateFile:
    """The state in a folder; written anew after each change, and never seen half written."""

    def __init__(self, folder: Path, state: SoakState) -> None:
        """Take over a state that is on disk, or is now put there."""
        self._folder = folder
        self._state = state

    @property
    def state(self) -> SoakState:
        """What is on disk."""
        return self._state

    def put(self, state: SoakState) -> None:
        """Write a state; when this returns it survives a kill.

        Raises:
            ConfigError: it cannot be written.
        """
        draft = self._folder / f".{STATE}.part"
        data = msgspec.json.format(msgspec.json.encode(state), indent=1) + b"\n"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with draft.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._folder / STATE)
        except OSError as error:
            reason = (error.strerror or "an error of the system").lower()
            raise ConfigError(f"{self._folder}: cannot be written ({reason}); name another with --out") from None
        self._state = state


def read_state(folder: Path) -> SoakState | None:
    """The state in a folder; None if there is none.

    Raises:
        DataError: it is no state of a soak, or of another version.
    """
    path = folder / STATE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise DataError(f"{reason}; name a folder of a soak", file=str(path)) from None
    state = convert(parse_object(data, file=str(path)), SoakState, file=str(path))
    if any(leg.number != number for number, leg in enumerate(state.legs)):
        raise DataError("legs: out of order; take the file away and begin again", file=str(path), field="legs")
    return state
