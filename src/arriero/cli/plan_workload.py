"""What a plan is asked to serve: a workload, a published trace with its lengths scaled, or a journal of one's own."""

import os
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from arriero.bench.schedule_work import load_work
from arriero.core.errors import ConfigError
from arriero.record.capacity_plan import Arrivals, PlanWorkload
from arriero.sim.asked import Asked, asked_of, by_chance, own_rate
from arriero.sim.recorded_run import read_recorded_run
from arriero.workload.files import write_records
from arriero.workload.importing import TraceImport
from arriero.workload.manifest import sha256_of
from arriero.workload.records import WorkloadRecord
from arriero.workload.traces import TraceOptions

OWN: Final[Arrivals] = "own"
POISSON: Final[Arrivals] = "poisson"


class PlannedWork(NamedTuple):
    """What is asked.

    Attributes:
        asked: the requests.
        facts: what the plan's file says of them.
    """

    asked: tuple[Asked, ...]
    facts: PlanWorkload

    @property
    def longest(self) -> int:
        """Prompt and output of the longest request."""
        return self.facts.longest


class _Source(NamedTuple):
    name: str
    sha256: str
    asked: tuple[Asked, ...]
    num_left_out: int
    is_file: bool


def load_planned(flags: Namespace) -> PlannedWork:
    """The requests that the flags name.

    Raises:
        ConfigError: flags that do not go together, nothing is left, or arrivals have no rate.
        DataError: a file cannot be used.
    """
    source = _source(flags)
    asked = source.asked[: flags.requests]
    if not asked:
        raise ConfigError(f"{source.name}: no request is left to plan for; take --context away, or name another file")
    arrivals = _arrivals(flags, source, asked)
    facts = PlanWorkload(
        name=source.name,
        sha256=source.sha256,
        requests=len(asked),
        left_out=source.num_left_out + len(source.asked) - len(asked),
        prompt_tokens=sum(len(each.request.prompt) for each in asked),
        output_tokens=sum(_output(each) for each in asked),
        longest=max(len(each.request.prompt) + each.request.max_tokens for each in asked),
        own_rate_per_s=own_rate(asked),
        arrivals=arrivals,
        seed=flags.seed,
        scale=flags.scale or 1,
    )
    return PlannedWork(by_chance(asked, flags.seed) if arrivals == POISSON else asked, facts)


def _arrivals(flags: Namespace, source: _Source, asked: Sequence[Asked]) -> Arrivals:
    """Their own, unless they come out of a generator or have no rate; what was asked for wins."""
    given: Arrivals | None = flags.arrivals
    if given is not None:
        return given
    return OWN if source.is_file and own_rate(asked) is not None else POISSON


def is_journal(path: Path) -> bool:
    """Whether a file begins as a journal does.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            line = file.readline()
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise ConfigError(f"{path}: {reason}; name a workload, a trace or a journal") from None
    try:
        return _FIRST.decode(line).kind == "start"
    except msgspec.DecodeError:
        return False


class _First(msgspec.Struct):
    """The first line of a journal; its other fields are not looked at."""

    kind: str | None = None


_FIRST: Final = msgspec.json.Decoder(_First)


def _source(flags: Namespace) -> _Source:
    path = Path(flags.workload)
    if flags.trace is not None:
        return _of_trace(flags, path)
    for name in ("scale", "output_scale", "context", "unverified"):
        if getattr(flags, name):
            raise ConfigError(f"--{name.replace('_', '-')}: goes with --trace; leave it out")
    if path.is_file() and path.suffix.lower() not in {".toml", ".json"} and is_journal(path):
        run = read_recorded_run(path)
        return _Source(path.name, sha256_of(path), run.asked, run.num_rejected, is_file=True)
    work = load_work(flags.workload, count=None if path.is_file() else flags.requests, seed=flags.seed or None)
    return _Source(work.name, work.sha256, _asked(work.records), 0, is_file=path.is_file())


def _of_trace(flags: Namespace, path: Path) -> _Source:
    options = TraceOptions(
        scale=flags.scale or 1,
        output_scale=flags.output_scale,
        limit=None,
        context=flags.context,
        verified=not flags.unverified,
    )
    trace = TraceImport(flags.trace, path, options)
    records = tuple(trace.records())
    with Path(os.devnull).open("wb") as nowhere:
        written = write_records(nowhere, records)  # the hash of the file that `workload import` writes
    account = trace.account()
    return _Source(path.name, written.sha256, _asked(records), account.num_left_out, is_file=True)


def _asked(records: Iterable[WorkloadRecord]) -> tuple[Asked, ...]:
    kept = tuple(records)
    return asked_of(kept, with_tokens=any(record.prompt_tokens is not None for record in kept))


def _output(each: Asked) -> int:
    """Tokens of the answer; as many as may be where an end token does not come earlier."""
    return len(each.answer) - 1 if each.request.end_tokens else each.request.max_tokens
