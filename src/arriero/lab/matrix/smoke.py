"""Smoke: no program runs; a captured output is parsed for each case, to try a configuration and its files."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from arriero.core.errors import ConfigError
from arriero.lab.matrix.bench_output import parse_llama_bench
from arriero.lab.matrix.executors import Reading
from arriero.lab.process import CpuUsage, Finished
from arriero.record.cpu_lab.matrix import ExecutorKind, MatrixCase


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoke:
    """An `Executor`.

    Attributes:
        name: base name of the captured output.
        text: its content.
        library: base name -> SHA-256 of it.
    """

    name: str
    text: str
    library: Mapping[str, str]

    @property
    def kind(self) -> ExecutorKind:
        """Which one it is."""
        return ExecutorKind.SMOKE

    def command(self, model: str, case: MatrixCase) -> tuple[str, ...]:
        """What it stands for; nothing of it is run."""
        return ("smoke", self.name, model, case.case_id)

    def run(self, command: tuple[str, ...], timeout_s: float) -> Finished:
        """The captured output as if a program had written it, in no time."""
        del timeout_s
        return Finished(
            command=command,
            return_code=0,
            stdout=self.text,
            stderr="",
            elapsed_s=0.0,
            timed_out=False,
            interrupted=False,
            peak_rss_kib=None,
            launch_error=None,
            usage=CpuUsage(0.0, 0.0),
        )

    def read(self, finished: Finished, case: MatrixCase) -> Reading:
        """Understand it; whatever case it is about, since it is the same for all.

        Raises:
            DataError: it is not understood.
        """
        del case
        reason = "no program ran"
        return Reading(
            results=parse_llama_bench(finished.stdout)[:1],
            reasons={"reported_kv_cache_bytes": reason, "peak_rss_kib": reason},
        )


def read_fixture(path: Path) -> Smoke:
    """The executor of a captured output.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise ConfigError(f"smoke_fixture {path}: {reason}; name a captured output of llama-bench") from None
    return Smoke(
        name=path.name,
        text=data.decode(errors="replace"),
        library={path.name: hashlib.sha256(data).hexdigest()},
    )
