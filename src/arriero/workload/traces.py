"""Published request traces: what all of them have in common, and how their lengths and times are scaled.

Real lengths do not fit a model with a short context, and cutting them off would change their distribution in silence.
So lengths are divided by one stated factor, rounded up, and times by another.
"""

import hashlib
import lzma
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from pathlib import Path
from typing import IO, Final, NamedTuple

from arriero.core.errors import BadWorkload
from arriero.workload.records import WorkloadClass

_CHUNK_BYTES: Final = 1 << 20


class TraceRow(NamedTuple):
    """One request of a trace, as published."""

    line: int  # in its file, from 1
    arrival_us: int  # from the first request
    prompt_length: int  # tokens
    output_length: int  # tokens
    blocks: tuple[int, ...] = ()  # ids of the prompt's blocks, if the trace knows them


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFormat:
    """A published trace and how to read it.

    Attributes:
        name: begins the request ids; block tokens are seeded by it.
        sha256: of the published file's bytes, decompressed.
        num_rows: of the published file.
        workload_class: the label of its requests.
        line_word: what a line is called in errors.
        block_tokens: prompt tokens in one block; 0 if the trace has no blocks.
        rows: reads the rows; errors name the line and the field.
    """

    name: str
    sha256: str
    num_rows: int
    workload_class: WorkloadClass
    line_word: str
    block_tokens: int
    rows: Callable[[Iterator[bytes]], Iterator[TraceRow]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """How a trace becomes a workload.

    Attributes:
        scale: prompt lengths become `max(1, ceil(length / scale))`.
        output_scale: the same for outputs; None: as `scale`.
        speed: arrivals become `floor(arrival / speed)`: 2 is twice the recorded rate.
        limit: only so many rows from the first on; None: all.
        context: rows whose scaled prompt and output together exceed this are left out and counted; None: keep all.
        verified: refuse a file that is not the published one.
    """

    scale: int = 1
    output_scale: int | None = None
    speed: Fraction = Fraction(1)
    limit: int | None = None
    context: int | None = None
    verified: bool = True

    def prompt(self, length: int) -> int:
        """A prompt length as it is sent."""
        return scaled(length, self.scale)

    def output(self, length: int) -> int:
        """An output length as it is sent."""
        return scaled(length, self.scale if self.output_scale is None else self.output_scale)

    def arrival_us(self, recorded_us: int) -> int:
        """An arrival as it is sent."""
        return floor(recorded_us / self.speed)

    def fits(self, prompt: int, output: int) -> bool:
        """Whether a request of these scaled lengths is kept."""
        return self.context is None or prompt + output <= self.context


def scaled(length: int, factor: int) -> int:
    """A length divided by the factor, rounded up, at least 1."""
    return max(1, -(-length // factor))


def check_order(earlier: int, later: int, field: str) -> None:
    """Whether time goes on from one row to the next.

    Raises:
        BadWorkload: it goes back.
    """
    if later < earlier:
        raise BadWorkload(f"{field}: earlier than the row before; sort the rows", field=field)


def check_trace(path: Path, trace: TraceFormat, *, verified: bool) -> str:
    """The SHA-256 of a trace's bytes, decompressed.

    Raises:
        BadWorkload: it cannot be read, or is not the published file although it has to be.
    """
    digest = hashlib.sha256()
    with _opened(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    found = digest.hexdigest()
    if verified and found != trace.sha256:
        raise BadWorkload(
            f"not the published trace (sha256 {found[:12]}..., published {trace.sha256[:12]}...); "
            "fetch it again, or take the file as it is with --unverified",
            file=str(path),
        )
    return found


def read_rows(path: Path, trace: TraceFormat) -> Iterator[TraceRow]:
    """The rows of a file, one at a time.

    Raises:
        BadWorkload: a row breaks the format; names the line and the field. The rows before it have been yielded.
    """
    with _opened(path) as file:
        try:
            yield from trace.rows(iter(file))
        except BadWorkload as error:
            message = f"{trace.line_word} line {error.line}: {error}"
            raise BadWorkload(message, file=str(path), line=error.line, field=error.field) from None


@contextmanager
def _opened(path: Path) -> Generator[IO[bytes]]:
    try:
        with path.open("rb") as raw, _unpacked(raw, path) as file:
            yield file
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise BadWorkload(f"{reason}; name a trace that can be read", file=str(path)) from None
    except (lzma.LZMAError, EOFError) as error:
        reason = " ".join(str(error).split()).lower()
        raise BadWorkload(f"damaged xz file ({reason}); fetch it again", file=str(path)) from None


def _unpacked(raw: IO[bytes], path: Path) -> IO[bytes]:
    return lzma.open(raw) if path.suffix == ".xz" else raw
