"""RunLog: the durable log of a measurement that may take hours and may be killed at any moment.

    manifest.json      what is measured: contents by hash, files by base name; its fingerprint; once, before all else
    run.jsonl          one line for each finished invocation, appended and on disk before the next one starts
    run-summary.json   how far it has come; replaced as a whole

An invocation that was killed with us left no line, so a resumed run does it again: nothing is lost, and since only
finished ones are written, nothing is counted twice. Where an invocation was repeated on purpose, both lines stay, and
`latest_per_id` decides for every reader which one counts.
"""

import errno
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, Generic, Protocol, Self, TypeAlias, TypeVar

import msgspec

from arriero.core.errors import DataError
from arriero.record.cpu_lab.pretty_json import pretty_json
from arriero.record.strict import Name, Sha256, convert, parse_object

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"

MANIFEST: Final = "manifest.json"
LINES: Final = "run.jsonl"
SUMMARY: Final = "run-summary.json"
TORN: Final = "run.jsonl.torn"
SCHEMA: Final = "arriero-lab-run-v1"


class Status(StrEnum):
    """How an invocation ended; whatever it was, it is a record."""

    SUCCESS = "success"
    FAILED = "failed"  # ended with a status that is not 0, or could not be started
    TIMED_OUT = "timed_out"  # ended by us; what it had written is kept
    PARSE_ERROR = "parse_error"  # ended well, and what it wrote is not understood


class Recorded(Protocol):
    """What every record has, whatever else it holds; records are frozen `msgspec.Struct`s with closed keys."""

    @property
    def run_id(self) -> str:
        """Of the run that it belongs to."""
        ...

    @property
    def invocation_id(self) -> str:
        """What was done; the same word when it is done again."""
        ...

    @property
    def status(self) -> Status:
        """How it ended."""
        ...


R = TypeVar("R", bound=Recorded)


class RunManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file that says what is measured.

    Attributes:
        schema: of this file.
        run_id: drawn when the run began; stays when it is resumed.
        created_at: wall clock in UTC, ISO 8601.
        fingerprint: of `manifest`.
        manifest: what must be equal for two invocations to belong together.
        forced_over: fingerprints of earlier manifests that somebody overruled.
    """

    schema: Name
    run_id: Name
    created_at: Name
    fingerprint: Sha256
    manifest: dict[str, Any]
    forced_over: tuple[Sha256, ...] = ()


class StoredRun(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
    """A folder that was read.

    Attributes:
        manifest: of the run.
        records: every line in its order, repeated invocations too.
    """

    manifest: RunManifest
    records: tuple[R, ...]

    @property
    def latest(self) -> Mapping[str, R]:
        """The records that count."""
        return latest_per_id(self.records)


def fingerprint(manifest: Mapping[str, JsonValue]) -> str:
    """SHA-256 over sorted JSON. Give it contents' hashes and base names, never paths: a run may move."""
    text = json.dumps(_plain(manifest), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def latest_per_id(records: Iterable[R]) -> Mapping[str, R]:
    """Invocation id -> its latest record, in the order in which the ids came first; the one rule for every reader."""
    found: dict[str, R] = {}
    for record in records:
        found[record.invocation_id] = record
    return MappingProxyType(found)


def holds_run(folder: Path) -> bool:
    """Whether a run has begun in this folder."""
    return (folder / MANIFEST).exists() or (folder / LINES).exists()


def read_run(folder: Path, kind: type[R]) -> StoredRun[R]:
    """A run as it is on disk, finished or not.

    Raises:
        DataError: there is none, or a line is bad, cut off or of another run.
    """
    return StoredRun(
        manifest=(manifest := read_manifest(folder)), records=tuple(_read_lines(folder / LINES, kind, manifest.run_id))
    )


def read_manifest(folder: Path) -> RunManifest:
    """What a folder's run measures.

    Raises:
        DataError: no run, or a manifest that was changed.
    """
    path = folder / MANIFEST
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        message = f"holds no run (no readable {MANIFEST}); name the folder of a run"
        raise DataError(message, file=str(folder)) from None
    found = convert(parse_object(text, file=str(path)), RunManifest, file=str(path))
    if found.schema != SCHEMA:
        raise DataError(f"schema {found.schema!r} is not {SCHEMA!r}; use the arriero that wrote it", file=str(path))
    if fingerprint(found.manifest) != found.fingerprint:
        message = "the fingerprint does not fit the manifest: somebody changed it; begin in another folder"
        raise DataError(message, file=str(path), field="fingerprint")
    return found


class RunLog(Generic[R]):
    """The log while it is written: one writer at a time, which a lock on the lines makes sure of."""

    def __init__(self, folder: Path, manifest: RunManifest, records: Sequence[R], *, sync: bool) -> None:
        """Use `create` or `resume`.

        Raises:
            DataError: another process writes this run.
        """
        self._folder = folder
        self._manifest = manifest
        self._latest = dict(latest_per_id(records))
        self._sync = sync
        self._fd = os.open(folder / LINES, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            message = "another process writes this run; wait for its end, or name another folder"
            raise DataError(message, file=str(folder)) from None

    @classmethod
    def create(cls, folder: Path, kind: type[R], manifest: Mapping[str, JsonValue], *, sync: bool = True) -> Self:
        """Begin a run.

        Args:
            folder: made if it is missing.
            kind: of the records.
            manifest: what is measured; see `fingerprint`.
            sync: wait after each line until the disk has it.

        Raises:
            DataError: the folder holds a run already, or cannot be written.
        """
        del kind  # tells the checker what R is
        if holds_run(folder):
            raise DataError("holds a run already; go on with --resume, or name another folder", file=str(folder))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            begun = _begun(manifest, run_id=secrets.token_hex(8), created_at=_now())
            replace_file(folder / MANIFEST, pretty_json(begun))
            return cls(folder, begun, (), sync=sync)
        except OSError as error:
            raise _unwritable(folder, error) from None

    @classmethod
    def resume(
        cls,
        folder: Path,
        kind: type[R],
        manifest: Mapping[str, JsonValue],
        *,
        force: bool = False,
        repair: bool = False,
        sync: bool = True,
    ) -> Self:
        """Go on with a run.

        Args:
            folder: that holds it.
            kind: of the records.
            manifest: what is measured now.
            force: go on although the manifest differs; the old fingerprint is kept in the file.
            repair: move a last line that was cut off into a file of its own; its invocation is then done again.
            sync: as in `create`.

        Raises:
            DataError: no run, a bad line, another fingerprint, another process writes it, or the disk refuses.
        """
        stored = read_manifest(folder)
        try:
            if repair:
                set_torn_line_aside(folder)
            records = list(_read_lines(folder / LINES, kind, stored.run_id))
            if fingerprint(manifest) != stored.fingerprint:
                stored = _taken_over(stored, manifest, folder, force=force)
                replace_file(folder / MANIFEST, pretty_json(stored))
            return cls(folder, stored, records, sync=sync)
        except OSError as error:
            raise _unwritable(folder, error, "read and written") from None

    @property
    def run_id(self) -> str:
        """The word that every record of this run carries."""
        return self._manifest.run_id

    @property
    def latest(self) -> Mapping[str, R]:
        """Invocation id -> the record that counts."""
        return MappingProxyType(self._latest)

    def append(self, record: R) -> None:
        """Put a record on disk; when this returns, a killed process does not lose it.

        Raises:
            DataError: the disk does not take it; the half line is taken back.
        """
        assert record.run_id == self.run_id, "a record belongs to the run that it is written to"
        line = msgspec.json.encode(record) + b"\n"
        size = os.fstat(self._fd).st_size
        try:
            is_whole = os.write(self._fd, line) == len(line)
            if is_whole and self._sync:
                os.fsync(self._fd)
        except OSError as error:
            os.ftruncate(self._fd, size)
            raise _unwritable(self._folder / LINES, error) from None
        if not is_whole:  # the disk is full: it took a part, and would refuse the rest
            os.ftruncate(self._fd, size)
            raise _unwritable(self._folder / LINES, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        self._latest[record.invocation_id] = record

    def summarise(self, summary: msgspec.Struct) -> None:
        """Replace the summary; a reader sees the old one or the new one.

        Raises:
            DataError: it cannot be written.
        """
        path = self._folder / SUMMARY
        try:
            replace_file(path, pretty_json(summary), sync=self._sync)
        except OSError as error:
            raise _unwritable(path, error) from None

    def close(self) -> None:
        """Let others write; once."""
        os.close(self._fd)

    def __enter__(self) -> Self:
        """Write for the length of a block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Close."""
        self.close()


def _taken_over(stored: RunManifest, manifest: Mapping[str, JsonValue], folder: Path, *, force: bool) -> RunManifest:
    """The stored manifest with what is measured now, if that is wanted.

    Raises:
        DataError: it is not.
    """
    if not force:
        names = ", ".join(differences(stored.manifest, manifest)) or "its content"
        message = f"holds a run of something else ({names}); repeat its own settings, or use --force"
        raise DataError(message, file=str(folder), field="fingerprint")
    forced = (*stored.forced_over, stored.fingerprint)
    return _begun(manifest, run_id=stored.run_id, created_at=stored.created_at, forced_over=forced)


def differences(stored: Mapping[str, JsonValue], given: Mapping[str, JsonValue]) -> list[str]:
    """The names of the entries that differ, the stored ones first."""
    names = [*stored, *(name for name in given if name not in stored)]
    return [name for name in names if _plain(stored.get(name)) != _plain(given.get(name))]


def set_torn_line_aside(folder: Path) -> bool:
    """Move a last line without an end, left by a killed process, to `run.jsonl.torn`; whether there was one."""
    path = folder / LINES
    data = path.read_bytes() if path.exists() else b""
    end = data.rfind(b"\n") + 1
    if end == len(data):
        return False
    with (folder / TORN).open("ab") as file:
        file.write(data[end:] + b"\n")
    os.truncate(path, end)
    return True


def replace_file(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Write a file aside and let it take its name, so that nobody sees half of it; an `OSError` is the caller's."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _read_lines(path: Path, kind: type[R], run_id: str) -> Iterable[R]:
    """Every record; a run that was killed before its first line has none."""
    data = path.read_bytes() if path.exists() else b""
    for number, line in enumerate(data.splitlines(keepends=True), start=1):
        if not line.endswith(b"\n"):
            message = f"line {number}: is cut off, its writer was killed; --repair sets it aside and runs it again"
            raise DataError(message, file=str(path), line=number)
        values = parse_object(_text(line, path, number), file=str(path), line=number)
        record = convert(values, kind, file=str(path), line=number)
        if record.run_id != run_id:
            message = f"line {number}: run_id: belongs to run {record.run_id}, not to {run_id}; take the line out"
            raise DataError(message, file=str(path), line=number, field="run_id")
        yield record


def _text(line: bytes, path: Path, number: int) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        message = f"line {number}: is not UTF-8; mend it"
        raise DataError(message, file=str(path), line=number) from None


def _begun(
    manifest: Mapping[str, JsonValue], *, run_id: str, created_at: str, forced_over: tuple[str, ...] = ()
) -> RunManifest:
    plain: dict[str, Any] = json.loads(json.dumps(_plain(manifest), allow_nan=False))
    return RunManifest(
        schema=SCHEMA,
        run_id=run_id,
        created_at=created_at,
        fingerprint=fingerprint(plain),
        manifest=plain,
        forced_over=forced_over,
    )


def _plain(value: JsonValue) -> Any:  # noqa: ANN401 - JSON
    """Mappings and sequences of any kind as those that JSON has."""
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(inner) for inner in value]
    return value


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _unwritable(path: Path, error: OSError, what: str = "written") -> DataError:
    reason = (error.strerror or "an error of the system").lower()
    return DataError(f"cannot be {what} ({reason}); make room, or name another folder", file=str(path))
