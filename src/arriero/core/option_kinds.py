"""Which values an option takes, and how they are written.

A kind reads a value from text (`parse`: flags and variables) and from a TOML file (`accept`). Both raise `BadValue`
with what is wrong and the remedy; whoever knows the origin puts it before that.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, cast

_SUFFIXES: Final = (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10))
_TRUE: Final = ("1", "true", "yes", "on")
_FALSE: Final = ("0", "false", "no", "off")


class BadValue(ValueError):
    """What is wrong with a value, and the remedy."""


class Kind(Protocol):
    """Which values an option takes, and how they are written."""

    @property
    def metavar(self) -> str:
        """The placeholder in the help text; empty for a switch."""
        ...

    @property
    def range(self) -> str:
        """The values it takes, as a phrase."""
        ...

    def parse(self, text: str) -> object:
        """Read a flag or a variable; BadValue says what is wrong and the remedy."""
        ...

    def accept(self, value: object) -> object:
        """Read a value of a TOML file; BadValue says what is wrong and the remedy."""
        ...


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number.

    Attributes:
        minimum: the lowest one.
        maximum: the highest one, or None.
        why: the reason for the maximum, said to whoever exceeds it.
    """

    minimum: int = 0
    maximum: int | None = None
    why: str = ""

    @property
    def metavar(self) -> str:
        """A number."""
        return "N"

    @property
    def range(self) -> str:
        """Both bounds."""
        return f"{self.minimum} or more" if self.maximum is None else f"{self.minimum} to {self.maximum}"

    def parse(self, text: str) -> int:
        """Decimal digits with an optional sign."""
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip()):
            raise BadValue(f"not a whole number; give one of {self.range}")
        return self._bounded(int(text))

    def accept(self, value: object) -> int:
        """A TOML integer."""
        if not isinstance(value, int) or isinstance(value, bool):
            raise BadValue(f"not a whole number; give one of {self.range}, without quotes")
        return self._bounded(value)

    def _bounded(self, number: int) -> int:
        if number < self.minimum:
            raise BadValue(f"too low; use {self.minimum} or more")
        if self.maximum is not None and number > self.maximum:
            raise BadValue(f"{self.why or 'too high'}; use {self.maximum} or fewer")
        return number


@dataclass(frozen=True, slots=True)
class Cap:
    """A limit that can be off: 0 is written for None."""

    metavar: str = "N"
    range: str = "0 (no limit) or more"

    def parse(self, text: str) -> int | None:
        """Digits; 0 is no limit."""
        return Whole().parse(text) or None

    def accept(self, value: object) -> int | None:
        """A TOML integer; 0 is no limit."""
        return Whole().accept(value) or None


@dataclass(frozen=True, slots=True)
class Bytes:
    """A size, with an optional suffix K, M or G (powers of 1,024)."""

    minimum: int
    metavar: str = "BYTES"

    @property
    def range(self) -> str:
        """The bound and the suffixes."""
        return f"{self.minimum} or more; K, M and G may follow the number"

    def parse(self, text: str) -> int:
        """Digits, then perhaps a suffix."""
        number, factor = text.strip().upper(), 1
        for suffix, size in _SUFFIXES:
            if number.endswith(suffix):
                number, factor = number.removesuffix(suffix), size
        if not re.fullmatch(r"[0-9]{1,15}", number):
            raise BadValue("not a size; give bytes, such as 1048576 or 1M")
        return Whole(self.minimum).accept(int(number) * factor)

    def accept(self, value: object) -> int:
        """A TOML integer, or a string with a suffix."""
        return self.parse(value) if isinstance(value, str) else Whole(self.minimum).accept(value)


@dataclass(frozen=True, slots=True)
class Real:
    """A number that may have a fraction.

    Attributes:
        minimum: the lowest one.
        maximum: the highest one, or None.
    """

    minimum: float = 0
    maximum: float | None = None
    metavar: str = "X"

    @property
    def range(self) -> str:
        """Both bounds."""
        return f"{self.minimum:g} or more" if self.maximum is None else f"{self.minimum:g} to {self.maximum:g}"

    def parse(self, text: str) -> float:
        """A decimal number."""
        try:
            number = float(text)
        except ValueError:
            raise BadValue(f"not a number; give one of {self.range}, such as 0.5") from None
        return self.accept(number)

    def accept(self, value: object) -> float:
        """A TOML number."""
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise BadValue(f"not a number; give one of {self.range}, without quotes")
        if not math.isfinite(value):
            raise BadValue(f"not a finite number; give one of {self.range}")
        if value < self.minimum:
            raise BadValue(f"too low; use {self.minimum:g} or more")
        if self.maximum is not None and value > self.maximum:
            raise BadValue(f"too high; use {self.maximum:g} or less")
        return float(value)


@dataclass(frozen=True, slots=True)
class RealCap:
    """A limit with a fraction that can be off: 0 is written for None."""

    metavar: str = "X"
    range: str = "0 (no limit) or more"

    def parse(self, text: str) -> float | None:
        """A decimal number; 0 is no limit."""
        return Real().parse(text) or None

    def accept(self, value: object) -> float | None:
        """A TOML number; 0 is no limit."""
        return Real().accept(value) or None


@dataclass(frozen=True, slots=True)
class Switch:
    """On or off."""

    metavar: str = ""
    range: str = "true or false"

    def parse(self, text: str) -> bool:
        """One of the usual words."""
        word = text.strip().lower()
        if word not in _TRUE + _FALSE:
            raise BadValue(f"neither on nor off; use one of {', '.join(_TRUE + _FALSE)}")
        return word in _TRUE

    def accept(self, value: object) -> bool:
        """A TOML boolean."""
        if not isinstance(value, bool):
            raise BadValue("neither on nor off; use true or false, without quotes")
        return value


@dataclass(frozen=True, slots=True)
class Text:
    """Any text that is not empty."""

    metavar: str
    range: str = "any text"

    def parse(self, text: str) -> str:
        """The text as it is."""
        if not text.strip():
            raise BadValue("empty; give a value or leave it out")
        return text

    def accept(self, value: object) -> str:
        """A TOML string."""
        if not isinstance(value, str):
            raise BadValue("not a text; put it in quotes")
        return self.parse(value)


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a closed set."""

    words: type[StrEnum]

    @property
    def metavar(self) -> str:
        """The words."""
        return "|".join(self.words)

    @property
    def range(self) -> str:
        """The words."""
        return ", ".join(self.words)

    def parse(self, text: str) -> StrEnum:
        """The word, in any case."""
        try:
            return self.words(text.strip().lower())
        except ValueError:
            raise BadValue(f"not one of the choices; use {' or '.join(self.words)}") from None

    def accept(self, value: object) -> StrEnum:
        """A TOML string."""
        return self.parse(value if isinstance(value, str) else "")


@dataclass(frozen=True, slots=True)
class WordOrClass:
    """One word of a closed set, or a class of the user's own as `module:Class`."""

    words: type[StrEnum]

    @property
    def metavar(self) -> str:
        """The words, then the other form."""
        return "|".join([*self.words, "MODULE:CLASS"])

    @property
    def range(self) -> str:
        """The words, then the other form."""
        return ", ".join([*self.words, "or module:Class"])

    def parse(self, text: str) -> str:
        """The word, in any case, or the two names; whether there is such a class is seen when it is loaded."""
        name = text.strip()
        if (word := name.lower()) in tuple(self.words):
            return word
        module, _, owner = name.partition(":")
        if owner.isidentifier() and all(part.isidentifier() for part in module.split(".")):
            return name
        raise BadValue(f"not one of the choices; use {' or '.join(self.words)}, or a class of yours as MODULE:CLASS")

    def accept(self, value: object) -> str:
        """A TOML string."""
        return self.parse(value if isinstance(value, str) else "")


@dataclass(frozen=True, slots=True)
class Threads:
    """How many threads compute.

    Attributes:
        decode: for micro-batches of one row.
        prefill: for all others.
    """

    decode: int
    prefill: int

    def __str__(self) -> str:
        """As it is written: `N`, or `N,M`."""
        return str(self.decode) if self.decode == self.prefill else f"{self.decode},{self.prefill}"


@dataclass(frozen=True, slots=True)
class ThreadCounts:
    """`N` for both counts, or `N,M`."""

    metavar: str = "N[,M]"
    range: str = "1 to 512, once or twice"

    def parse(self, text: str) -> Threads:
        """One or two numbers with a comma between."""
        parts = text.split(",")
        if len(parts) > 2:
            raise BadValue("more than two numbers; give N, or N,M for decode and prefill")
        numbers = [Whole(1, 512).parse(part) for part in parts]
        return Threads(numbers[0], numbers[-1])

    def accept(self, value: object) -> Threads:
        """A TOML integer or a string."""
        return self.parse(value if isinstance(value, str) else str(Whole(1, 512).accept(value)))


@dataclass(frozen=True, slots=True)
class Numbers:
    """A list of whole numbers in any order; `2-5` is 2,3,4,5.

    Attributes:
        minimum: the lowest number allowed.
        may_be_empty: whether `none` is an answer.
    """

    minimum: int = 0
    may_be_empty: bool = False
    metavar: str = "LIST"

    @property
    def range(self) -> str:
        """What the list is made of."""
        return f"numbers of {self.minimum} or more, such as 1,4-6" + (", or none" if self.may_be_empty else "")

    def parse(self, text: str) -> tuple[int, ...]:
        """Numbers and ranges with commas between."""
        if text.strip().lower() in {"", "none"}:
            return self._checked([])
        numbers: list[int] = []
        for part in text.split(","):
            found = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part.strip())
            if found is None:
                raise BadValue(f"{part.strip() or 'an empty entry'} is no number; write a list such as 0,2-3")
            first = int(found[1])
            numbers.extend(range(first, int(found[2] or first) + 1))
        return self._checked(numbers)

    def accept(self, value: object) -> tuple[int, ...]:
        """A TOML array of integers, or a string."""
        if isinstance(value, str):
            return self.parse(value)
        return self._checked([Whole().accept(number) for number in as_list(value, "numbers")])

    def _checked(self, numbers: Sequence[int]) -> tuple[int, ...]:
        if not numbers and not self.may_be_empty:
            raise BadValue("an empty list; give at least one number, or leave it out")
        if min(numbers, default=self.minimum) < self.minimum:
            raise BadValue(f"{min(numbers)} is too low; use {self.minimum} or more")
        return tuple(numbers)


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts, each given on its own: a flag may be repeated, a variable separates them with commas."""

    metavar: str
    range: str = "any text, repeatable; @FILE reads one a line"

    def parse(self, text: str) -> tuple[str, ...]:
        """One text, or several with commas between."""
        return self.accept([part.strip() for part in text.split(",")])

    def accept(self, value: object) -> tuple[str, ...]:
        """A TOML array of strings."""
        entries = as_list(value, "texts")
        return tuple(Text(self.metavar).accept(entry) for entry in entries)


def as_list(value: object, what: str) -> Sequence[object]:
    """A TOML array as a sequence; BadValue for anything else."""
    if not isinstance(value, list | tuple):
        raise BadValue(f"not a list of {what}; put them in [ ]")
    return cast("Sequence[object]", value)
