"""NullOptions: what a null server does, and its command line."""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

DEFAULT_CHUNKS: Final = 20
MOST: Final = 1_000_000
MOST_PORT: Final = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """One time during which nothing leaves; what is due in it leaves at its end.

    Attributes:
        at_s: when it begins, from the first request on.
        for_s: how long it lasts.
    """

    at_s: float
    for_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NullOptions:
    """What every answer of a null server is like.

    Attributes:
        first_s: from the receipt of a whole request to its first chunk.
        gap_s: between two chunks; 0: all leave together.
        num_chunks: content chunks of an answer; None: as many as `max_tokens` allows.
        tokens_per_chunk: what usage counts for each.
        stall: the one stall, or None.
        keeps_times: keep when each chunk really left, for `GET /times`; for calibration only, it takes memory.
    """

    first_s: float = 0.0
    gap_s: float = 0.0
    num_chunks: int | None = DEFAULT_CHUNKS
    tokens_per_chunk: int = 1
    stall: Stall | None = None
    keeps_times: bool = False

    def words(self) -> list[str]:
        """The command line that says the same."""
        found = [
            "--first-s", repr(self.first_s), "--gap-s", repr(self.gap_s),
            "--chunks", "max_tokens" if self.num_chunks is None else str(self.num_chunks),
            "--tokens-per-chunk", str(self.tokens_per_chunk),
        ]  # fmt: skip
        if self.stall is not None:
            found += ["--stall-at-s", repr(self.stall.at_s), "--stall-for-s", repr(self.stall.for_s)]
        return [*found, "--keep-times"] if self.keeps_times else found


@dataclass(frozen=True, slots=True, kw_only=True)
class NullCommand:
    """The command line, read.

    Attributes:
        port: 0: any free one.
        until_stdin_closes: end when whoever started it has gone.
    """

    options: NullOptions
    host: str
    port: int
    until_stdin_closes: bool


def read_words(words: Sequence[str] | None) -> NullCommand:
    """Read a command line; ends the process with status 2 and one line for a wrong one."""
    parser = argparse.ArgumentParser(
        prog="python -m arriero.bench.null_server",
        description="A server of OpenAI's interface that computes nothing: known delays, known chunks.",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=_port, default=0, help="0: any free one; the first line on stdout says which")
    parser.add_argument("--first-s", type=_seconds, default=0.0, help="from a request to its first chunk")
    parser.add_argument("--gap-s", type=_seconds, default=0.0, help="between two chunks; 0: all leave together")
    parser.add_argument("--chunks", type=_chunks, default=DEFAULT_CHUNKS, metavar="N|max_tokens")
    parser.add_argument("--tokens-per-chunk", type=_positive, default=1)
    parser.add_argument("--stall-at-s", type=_seconds, help="begin of the one stall, from the first request on")
    parser.add_argument("--stall-for-s", type=_seconds, help="how long it lasts")
    parser.add_argument("--keep-times", action="store_true", help="keep when each chunk left, for GET /times")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end with whoever started it")
    found = parser.parse_args(words)
    if (found.stall_at_s is None) != (found.stall_for_s is None):
        parser.error("--stall-at-s and --stall-for-s belong together: give both or none")
    stall = None if found.stall_at_s is None else Stall(at_s=found.stall_at_s, for_s=found.stall_for_s)
    options = NullOptions(
        first_s=found.first_s,
        gap_s=found.gap_s,
        num_chunks=found.chunks,
        tokens_per_chunk=found.tokens_per_chunk,
        stall=stall,
        keeps_times=found.keep_times,
    )
    return NullCommand(options=options, host=found.host, port=found.port, until_stdin_closes=found.until_stdin_closes)


def _seconds(word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{word} is no time; give 0 or more seconds, such as 0.05")
    return value


def _port(word: str) -> int:
    return _whole(word, 0, MOST_PORT, "port")


def _positive(word: str) -> int:
    return _whole(word, 1, MOST, "number")


def _chunks(word: str) -> int | None:
    return None if word == "max_tokens" else _whole(word, 1, MOST, "number of chunks", " or max_tokens")


def _whole(word: str, least: int, most: int, what: str, remedy: str = "") -> int:
    value = int(word) if word.isascii() and word.isdigit() and len(word) <= len(str(most)) else -1
    if not least <= value <= most:
        raise argparse.ArgumentTypeError(f"{word} is no {what}; give a whole number from {least} to {most}{remedy}")
    return value
