"""Reads a journal back, strictly: what a writer would not have written is refused, with the number of its line.

A file may hold several runs, one after another, since a server that starts again appends to it. Each begins with a
start record; one whose process died has no end record.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from arriero.core.errors import BadJournal
from arriero.record.journal import chained_crc, encode_record
from arriero.record.journal_parts import Number
from arriero.record.journal_schema import (
    SCHEMA,
    EndRecord,
    JournalRecord,
    StartRecord,
    StepRecord,
)

_DECODER: Final = msgspec.json.Decoder(JournalRecord)


class JournalLine(NamedTuple):
    """One record and where it stands."""

    number: int  # counted from 1
    record: JournalRecord


class _Version(msgspec.Struct):
    """What every schema has; other fields are not looked at."""

    kind: str
    schema: int


_VERSION_DECODER: Final = msgspec.json.Decoder(_Version)


def read_journal(path: Path) -> Iterator[JournalLine]:
    """The records of a file, one at a time.

    Raises:
        BadJournal: the file cannot be read, or a line breaks the format; those before it have been yielded.
    """
    try:
        with path.open("rb") as file:
            yield from read_lines(file)
    except BadJournal as error:
        error.file = str(path)
        raise
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise BadJournal(f"{reason}; name a journal that can be read", file=str(path)) from None


def read_lines(lines: Iterable[bytes]) -> Iterator[JournalLine]:
    """The records of lines, which may end in a line feed or not.

    Raises:
        BadJournal: see `read_journal`.
    """
    check = _Check()
    for number, line in enumerate(lines, start=1):
        try:
            record = _decode(line.removesuffix(b"\n"))
            check.follow(record)
        except BadJournal as error:
            raise BadJournal(f"line {number}: {error}", line=number, field=error.field) from None
        yield JournalLine(number, record)
    if check.last is None:
        raise BadJournal("is empty; name a file that `arriero serve --journal` has written")


def _decode(text: bytes) -> JournalRecord:
    try:
        record: JournalRecord = _DECODER.decode(text)
    except msgspec.ValidationError as error:
        _check_version(text)
        raise BadJournal(f"no record of a journal ({_one_line(error)}); restore the file") from None
    except (msgspec.DecodeError, RecursionError) as error:
        message = f"damaged ({_one_line(error)}); cut the file before this line to use what comes earlier"
        raise BadJournal(message) from None
    if isinstance(record, StartRecord) and record.schema != SCHEMA:
        raise _other_version(record.schema)
    if encode_record(record) != text:
        raise BadJournal("was not written by arriero in this form; restore the file")
    return record


def _check_version(text: bytes) -> None:
    """Say the version, if that is what is wrong."""
    try:
        found = _VERSION_DECODER.decode(text)
    except msgspec.DecodeError:
        return
    if found.kind == "start" and found.schema != SCHEMA:
        raise _other_version(found.schema)


def _other_version(schema: int) -> BadJournal:
    return BadJournal(f"schema {schema}, and only {SCHEMA} can be read; use the arriero that wrote it", field="schema")


class _Check:
    """What holds from line to line."""

    def __init__(self) -> None:
        self.last: JournalRecord | None = None
        self._now = float("-inf")

    def follow(self, record: JournalRecord) -> None:
        """Look at the next record.

        Raises:
            BadJournal: it cannot follow the last one.
        """
        starts = isinstance(record, StartRecord)
        if not starts and (self.last is None or isinstance(self.last, EndRecord)):
            where = "a journal" if self.last is None else "what comes after an end"
            raise BadJournal(f"{where} begins with a record of kind start; restore the file", field="kind")
        if chained_crc(record, 0 if starts or self.last is None else self.last.crc) != record.crc:
            message = "the check sum is wrong: this line was changed, or one before it is missing; restore the file"
            raise BadJournal(message, field="crc")
        if starts:
            self._now = float("-inf")
        self._check_times(record)
        self.last = record

    def _check_times(self, record: JournalRecord) -> None:
        times: tuple[Number | None, ...] = ()
        if isinstance(record, StepRecord):
            if not bool(record.plan.rows) == (record.outcome is not None) == (record.committed_at is not None):
                raise BadJournal("rows, outcome and committed_at go together; restore the file", field="outcome")
            times = (record.began_at, record.committed_at, record.ended_at)
        elif isinstance(record, EndRecord):
            times = (record.given_up_at, record.ended_at)
        for time in times:
            if time is not None and time < self._now:
                raise BadJournal(f"time goes back from {self._now} to {time}; restore the file")
            self._now = self._now if time is None else time


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text[:1].lower() + text[1:]
