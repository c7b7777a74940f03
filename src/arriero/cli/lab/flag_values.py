"""Values of flags that the verbs of the lab read themselves, by the kinds that the server's options have."""

from typing import Protocol, TypeVar

from arriero.core.errors import ConfigError
from arriero.core.option_kinds import BadValue, Whole

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Reader(Protocol[T_co]):
    """Reads a value; see `arriero.core.option_kinds`."""

    def parse(self, text: str) -> T_co:
        """The value of a text; BadValue says what is wrong and the remedy."""
        ...


def flag_value(flag: str, text: str, kind: Reader[T]) -> T:
    """What a flag says.

    Raises:
        ConfigError: names the flag, what is wrong, and the remedy.
    """
    try:
        return kind.parse(text)
    except BadValue as error:
        raise ConfigError(f"{flag} {text}: {error}") from None


def whole_or(flag: str, given: str | None, least: int, default: int) -> int:
    """A whole number of at least `least`; the default, whatever it is, where the flag was left out.

    Raises:
        ConfigError: see `flag_value`.
    """
    return default if given is None else flag_value(flag, given, Whole(least))
