"""Variant: one side of a comparison, as an object that can be run again and again and says what it is.

    Worker     the bench worker, in a process of its own for each run; rates by its own clock
    Program    any command, timed by the wall clock, or with metrics parsed from the JSON that it prints

A further kind is a further `Target`. Environment variables and another build of llama.cpp go with either kind.
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol, cast

import msgspec

from arriero.core.errors import DataError
from arriero.lab.process import Finished
from arriero.lab.worker_process import decode_result, worker_command
from arriero.record.cpu_lab.ab_run import DURATION, PEAK_RSS
from arriero.record.cpu_lab.worker import WorkerOptions

LIBRARY_VARIABLE: Final = "LLAMA_CPP_LIB_PATH"
PROMPT_RATE: Final = "prompt_tokens_per_s"
GENERATION_RATE: Final = "generated_tokens_per_s"


class Reading(NamedTuple):
    """What one run that ended well has given."""

    values: Mapping[str, float]
    text_sha256: str | None = None
    text_tokens: tuple[int, ...] = ()
    library: Mapping[str, str] = {}
    peak_rss_kib: int | None = None  # that it measured itself


class Target(Protocol):
    """What a variant runs."""

    @property
    def kind(self) -> Literal["worker", "command"]:
        """For the file."""
        ...

    @property
    def command(self) -> tuple[str, ...]:
        """The words of one run."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """What it is asked, without paths; then it stands as JSON at the end of its command. Empty for none."""
        ...

    @property
    def inputs(self) -> tuple[str, ...]:
        """Files that it reads and that are no word of the command."""
        ...

    def read(self, finished: Finished) -> Reading:
        """Understand a run that ended with status 0.

        Raises:
            DataError: what it wrote is not understood.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One side.

    Attributes:
        name: as in tables.
        target: what it runs.
        environment: variables on top of ours.
        library: folder of another build of llama.cpp.
    """

    name: str
    target: Target
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    library: Path | None = None

    @property
    def variables(self) -> dict[str, str]:
        """All variables that are set for a run."""
        own = {} if self.library is None else {LIBRARY_VARIABLE: str(self.library.resolve())}
        return {**self.environment, **own}


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """The bench worker.

    Attributes:
        options: what it measures; the model as an absolute path.
        python: the interpreter that it runs on.
    """

    options: WorkerOptions
    python: str = sys.executable

    @property
    def kind(self) -> Literal["worker", "command"]:
        """See `Target`."""
        return "worker"

    @property
    def command(self) -> tuple[str, ...]:
        """See `Target`."""
        return worker_command(self.options, self.python)

    @property
    def settings(self) -> Mapping[str, Any]:
        """See `Target`."""
        own = cast("dict[str, Any]", msgspec.to_builtins(self.options))
        return {**own, "model": Path(self.options.model).name}

    @property
    def inputs(self) -> tuple[str, ...]:
        """See `Target`."""
        return (self.options.model,)

    def read(self, finished: Finished) -> Reading:
        """See `Target`."""
        result = decode_result(finished.stdout)
        rates = {PROMPT_RATE: result.prompt_tokens_per_s, GENERATION_RATE: result.generated_tokens_per_s}
        values = {name: rate for name, rate in rates.items() if rate is not None}
        return Reading(
            values={**values, DURATION: finished.elapsed_s},
            text_sha256=result.text_sha256,
            text_tokens=result.text_tokens,
            library=result.library,
            peak_rss_kib=result.peak_rss_kib,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Any command.

    Attributes:
        words: program and arguments; never a shell.
        keys: metrics that are read from the JSON that it prints, as dotted keys; numbers select members of lists.
    """

    words: tuple[str, ...]
    keys: tuple[str, ...] = ()

    @property
    def kind(self) -> Literal["worker", "command"]:
        """See `Target`."""
        return "command"

    @property
    def command(self) -> tuple[str, ...]:
        """See `Target`."""
        return self.words

    @property
    def settings(self) -> Mapping[str, Any]:
        """See `Target`."""
        return {}

    @property
    def inputs(self) -> tuple[str, ...]:
        """See `Target`."""
        return ()

    def read(self, finished: Finished) -> Reading:
        """See `Target`."""
        values = {DURATION: finished.elapsed_s}
        if self.keys:
            printed = printed_json(finished.stdout)
            values |= {key: number_at(printed, key) for key in self.keys}
        return Reading(values=values)


def printed_json(stdout: str) -> dict[str, Any]:
    """The last line that is a JSON object, else the whole output as one.

    Raises:
        DataError: neither is.
    """
    lines = [line for line in stdout.splitlines() if line.strip()]
    for text in (lines[-1] if lines else "", stdout):
        try:
            return msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError:
            continue
    raise DataError("the command printed no JSON object; let its last line be one, or compare its duration")


def number_at(printed: Mapping[str, Any], key: str) -> float:
    """The number under a dotted key.

    Raises:
        DataError: there is none, or it is no finite number.
    """
    found: object = printed
    way: list[str] = []
    for word in key.split("."):
        way.append(word)
        match found:
            case dict() if word in found:
                found = cast("dict[str, object]", found)[word]
            case list() if word.isdecimal() and int(word) < len(cast("list[object]", found)):
                found = cast("list[object]", found)[int(word)]
            case _:
                raise DataError(f"the JSON that the command printed has no {'.'.join(way)}; mend --metric {key}")
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        raise DataError(f"{key} is {found!r} in the JSON that the command printed, no number; mend --metric {key}")
    return float(found)


def with_memory(reading: Reading, finished: Finished) -> dict[str, float]:
    """The figures of a run with its peak of memory among them, where that is known."""
    peak = reading.peak_rss_kib or finished.peak_rss_kib
    return dict(reading.values) if peak is None else {**reading.values, PEAK_RSS: float(peak)}
