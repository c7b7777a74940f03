"""How a run of the load generator came about: command, code, versions, time."""

import importlib.metadata
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from arriero.core.version import VERSION
from arriero.record.bench_parts import RunFacts
from arriero.record.machine import python_version
from arriero.record.provenance import code_sha256, portable_command, revision

_PACKAGES: Final = ("httptools", "llama-cpp-python", "msgspec", "numpy", "uvicorn", "uvloop")
"""What the figures depend on; one that is not installed is left out."""


def run_facts(
    command: Sequence[str], *, started_at: datetime, seconds: float, was_interrupted: bool = False
) -> RunFacts:
    """Facts for a result file.

    Args:
        command: the words that started the run; absolute paths are cut here.
        started_at: wall clock, with a time zone.
        seconds: from the first step to the last.
        was_interrupted: somebody stopped it.
    """
    state = revision()
    return RunFacts(
        command=tuple(portable_command(command)),
        started_at=started_at.astimezone(UTC).isoformat(timespec="seconds"),
        seconds=seconds,
        was_interrupted=was_interrupted,
        version=VERSION,
        code_sha256=code_sha256(),
        revision=state.revision,
        is_dirty=state.is_dirty,
        python=python_version(),
        packages=dict(_versions()),
    )


def _versions() -> Iterator[tuple[str, str]]:
    for name in _PACKAGES:
        try:
            yield name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
