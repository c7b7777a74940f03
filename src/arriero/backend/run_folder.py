"""RunFolder: a directory of run files that belongs to one model, one kind of KV memory and one process at a time."""

import contextlib
import fcntl
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import msgspec

from arriero.backend.fingerprint import Fingerprint
from arriero.backend.run_files import PARTIAL, SUFFIX, FoundRun, RunFileError, read_head
from arriero.core.errors import ConfigError

LOGGER: Final = logging.getLogger("arriero.host_store")
MANIFEST: Final = "manifest.json"
LOCK: Final = "lock"
FOLDER_MODE: Final = 0o700


class Manifest(msgspec.Struct, frozen=True):
    """What stands in the manifest: the facts of a `Fingerprint`."""

    fingerprint: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A folder that was found fit, and is locked until `close`; see `open_folder`."""

    path: Path
    fingerprint: Fingerprint
    lock: IO[bytes]

    def scan(self, longest: int) -> list[FoundRun]:
        """Every sound run file of at most `longest` tokens, the oldest first; the others are told in the log."""
        found: list[FoundRun] = []
        for path in sorted(self.path.glob(f"*{SUFFIX}"), key=lambda path: (path.stat().st_mtime_ns, path.name)):
            try:
                found.append(self._checked(path, longest))
            except (RunFileError, OSError) as problem:
                LOGGER.warning("%s is ignored: %s", path, problem)
        return found

    def close(self) -> None:
        """Let another process have the folder."""
        self.lock.close()

    def _checked(self, path: Path, longest: int) -> FoundRun:
        run = read_head(path)
        if run.head.fingerprint != self.fingerprint.digest:
            raise RunFileError("it was made with another model or another KV memory")
        if len(run.tokens) > longest:
            message = f"its {len(run.tokens)} tokens are more than the {longest} of a sequence here"
            raise RunFileError(message)
        return run


def open_folder(path: Path, fingerprint: Fingerprint) -> RunFolder:
    """Make the folder if it is not there, lock it, and compare fingerprints.

    Raises:
        ConfigError: it belongs to another model or another KV memory, or another process uses it; nothing is changed
            then. Or it cannot be made or written.
    """
    with contextlib.ExitStack() as undo:
        try:
            path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            lock = undo.enter_context((path / LOCK).open("ab"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _compare_manifest(path, fingerprint)
        except BlockingIOError as problem:
            message = f"--cache-dir {path}: another process uses it; give each server a directory of its own"
            raise ConfigError(message) from problem
        except OSError as problem:
            message = f"--cache-dir {path}: cannot be used ({problem.strerror}); give a directory that can be written"
            raise ConfigError(message) from problem
        undo.pop_all()
    for leftover in path.glob(f"*{SUFFIX}{PARTIAL}"):
        with contextlib.suppress(OSError):
            leftover.unlink()
    return RunFolder(path, fingerprint, lock)


def _compare_manifest(path: Path, fingerprint: Fingerprint) -> None:
    """Refuse a folder of another fingerprint; write the manifest of one that has none."""
    manifest = path / MANIFEST
    try:
        known = Fingerprint(msgspec.json.decode(manifest.read_bytes(), type=Manifest).fingerprint)
    except FileNotFoundError:
        known = None
    except (msgspec.DecodeError, UnicodeDecodeError):
        LOGGER.warning("%s is damaged and written anew; runs of another model are told by their own files", manifest)
        known = None
    if known is None:
        partial = manifest.with_name(MANIFEST + PARTIAL)
        partial.write_bytes(msgspec.json.encode(Manifest(fingerprint.facts)))
        partial.replace(manifest)
    elif differences := fingerprint.differences(known):
        message = (
            f"--cache-dir {path}: its runs cannot be used with this model and KV memory ({'; '.join(differences)}); "
            "start with what they were made with, or give another directory"
        )
        raise ConfigError(message)
