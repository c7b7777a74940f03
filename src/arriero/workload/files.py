"""Workload files: JSONL, read strictly and written byte for byte in one way."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from arriero.core.errors import BadWorkload
from arriero.workload.lines import decode_line, encode_line
from arriero.workload.records import WorkloadRecord
from arriero.workload.staging import staged


class Workload(NamedTuple):
    """A whole file in memory."""

    records: tuple[WorkloadRecord, ...]  # in the order of the file
    sha256: str  # of its bytes, lower case


class Written(NamedTuple):
    """What was written."""

    num_records: int
    sha256: str  # of the bytes, lower case


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


def read_workload(path: Path) -> Workload:
    """Read a whole file.

    Raises:
        BadWorkload: the first line that breaks a rule; the text starts with `JSONL line N: `.
    """
    digest = hashlib.sha256()
    return Workload(tuple(iter_records(path, digest)), digest.hexdigest())


def iter_records(path: Path, digest: _Digest | None = None) -> Iterator[WorkloadRecord]:
    """The records of a file in its order, one at a time; only the ids are kept.

    Args:
        path: the file.
        digest: is fed the bytes of the lines that were read.

    Raises:
        BadWorkload: see `read_workload`; the records before that line have been yielded.
    """
    try:
        with path.open("rb") as file:
            yield from _decode(file, str(path), digest)
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise BadWorkload(f"{reason}; name a workload file that can be read", file=str(path)) from None


def write_workload(path: Path, records: Iterable[WorkloadRecord], *, replace: bool = False) -> Written:
    """Write a file in the order given; it appears whole or not at all.

    Raises:
        BadWorkload: a record breaks a rule of the format, or the records could not be made.
        ConfigError: the file cannot be written, or exists and `replace` is False.
    """
    with staged(path, replace=replace) as file:
        return write_records(file, records)


def write_records(file: BinaryIO, records: Iterable[WorkloadRecord]) -> Written:
    """Write the lines into an open file.

    Raises:
        BadWorkload: see `write_workload`.
    """
    digest = hashlib.sha256()
    seen: set[str] = set()
    for number, record in enumerate(records, start=1):
        try:
            line = encode_line(record) + b"\n"
            _note_id(record.request_id, seen)
        except BadWorkload as error:
            raise _at(number, error, None) from None
        digest.update(line)
        file.write(line)
    return Written(len(seen), digest.hexdigest())


def _decode(file: BinaryIO, name: str, digest: _Digest | None) -> Iterator[WorkloadRecord]:
    seen: set[str] = set()
    for number, line in enumerate(file, start=1):  # a binary file cuts at \n and nowhere else
        if digest is not None:
            digest.update(line)
        try:
            record = decode_line(line.removesuffix(b"\n"))
            _note_id(record.request_id, seen)
        except BadWorkload as error:
            raise _at(number, error, name) from None
        yield record


def _note_id(request_id: str, seen: set[str]) -> None:
    if request_id in seen:
        shown = ascii(request_id) if len(request_id) <= 60 else f"{request_id[:57]!a}..."
        raise BadWorkload(f"request_id: {shown} was used before; give each its own", field="request_id")
    seen.add(request_id)


def _at(number: int, error: BadWorkload, file: str | None) -> BadWorkload:
    return BadWorkload(f"JSONL line {number}: {error}", file=file, line=number, field=error.field)
