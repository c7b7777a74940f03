"""Lines of progress where nobody can overwrite one: the first at once, then one now and then."""

from collections.abc import Callable
from typing import Final, TextIO

EVERY_S: Final = 10.0


def now_and_then(stream: TextIO, clock: Callable[[], float]) -> Callable[[str], None]:
    """Give a function that writes a line, unless it wrote one just before."""
    told_at = clock() - EVERY_S

    def say(line: str) -> None:
        nonlocal told_at
        if clock() - told_at >= EVERY_S:
            told_at = clock()
            stream.write(f"{line}\n")
            stream.flush()

    return say
