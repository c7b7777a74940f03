"""Executor: who measures a case. One protocol, so that the runner is the same for all.

InProcess     the binding, in a worker process for each repetition      in_process.py
LlamaBench    the program, one process for each repetition              llama_bench.py
Smoke         nobody: a captured output is parsed                       smoke.py
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from arriero.lab.process import Finished
from arriero.record.cpu_lab.matrix import ExecutorKind, MatrixCase, MemorySource, ParsedResult


class Settings(NamedTuple):
    """What holds for every case of a matrix.

    Attributes:
        mmap: map model files.
        cpu_only: offload nothing.
        flash_attention: `auto`, `on` or `off`.
    """

    mmap: bool
    cpu_only: bool
    flash_attention: str


class Reading(NamedTuple):
    """What a program that ended well has said.

    Attributes:
        results: at least one.
        peak_rss_kib: that it measured itself, or None.
        memory_source: of that peak.
        kv_cache_bytes: as llama.cpp printed it, or None.
        library: base name -> SHA-256 of what it ran on; empty if the executor knows better.
        reasons: name of a record's field that is null -> why.
    """

    results: tuple[ParsedResult, ...]
    peak_rss_kib: int | None = None
    memory_source: MemorySource = MemorySource.NONE
    kv_cache_bytes: int | None = None
    library: Mapping[str, str] = {}
    reasons: Mapping[str, str] = {}


class Executor(Protocol):
    """Runs one case at a time."""

    @property
    def kind(self) -> ExecutorKind:
        """Which one it is."""
        ...

    @property
    def library(self) -> Mapping[str, str]:
        """Base name -> SHA-256 of the program and of the libraries that it runs on."""
        ...

    def command(self, model: str, case: MatrixCase) -> tuple[str, ...]:
        """The words for one repetition; `model` is put in as it stands."""
        ...

    def run(self, command: tuple[str, ...], timeout_s: float) -> Finished:
        """Run words that `command` gave, perhaps wrapped."""
        ...

    def read(self, finished: Finished, case: MatrixCase) -> Reading:
        """Understand what a program wrote that ended with status 0.

        Raises:
            DataError: it is not understood, or is not about this case.
        """
        ...
