"""The parts that results of the load generator are made of: who ran what, where, when, and with which schedule."""

from enum import StrEnum
from typing import Any, Literal

import msgspec

from arriero.metrics.client_figures import ClientSummary, Loop
from arriero.metrics.client_life import ClientLife
from arriero.metrics.validity import Validity
from arriero.record.machine_load import LoadFacts
from arriero.record.strict import Count, Name, Sha256


class Evidence(StrEnum):
    """What a figure is; figures of two kinds never stand in one column."""

    MEASURED = "MEASURED"
    PROFILED = "PROFILED"
    MICROBENCHMARK = "MICROBENCHMARK"
    END_TO_END = "END-TO-END"
    SIMULATED = "SIMULATED"


class BenchPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a result file: closed keys, nothing left over."""


class RunFacts(BenchPart, frozen=True, kw_only=True):
    """How the run came about.

    Attributes:
        command: the words that started it, without absolute paths.
        started_at: wall clock in UTC, ISO 8601, for reading only.
        seconds: from the first step to the last, warm-ups and pauses included.
        was_interrupted: somebody stopped it; what was not sent is an outcome.
        version: of arriero.
        code_sha256: of its code.
        revision: of its checkout; null for an installed package.
        is_dirty: the checkout differs from its revision, or it cannot be told.
        python: version and implementation.
        packages: name -> version of what the figures depend on.
    """

    command: tuple[str, ...]
    started_at: Name
    seconds: float
    was_interrupted: bool
    version: Name
    code_sha256: Sha256
    revision: str | None
    is_dirty: bool
    python: Name
    packages: dict[str, str]


class TargetFacts(BenchPart, frozen=True, kw_only=True):
    """What was measured.

    Attributes:
        name: as in tables.
        kind: `http`, `in-process` or `simulated`.
        command: the words that started the server, without absolute paths; null if it ran already.
        model: name of the model's file or of the model.
        facts: whatever the target says of itself: version, slots, threads, context, hashes.
    """

    name: Name
    kind: Literal["http", "in-process", "simulated"]
    command: tuple[str, ...] | None = None
    model: str | None = None
    facts: dict[str, Any] = {}

    @property
    def has_connections(self) -> bool:
        """Whether requests reach it over connections, of which something can be told."""
        return self.kind == "http"


class ScheduleFacts(BenchPart, frozen=True, kw_only=True):
    """The schedule, fixed before the run.

    Attributes:
        sha256: over all that it plans: times, prompts, lengths, cancellations.
        loop: open, closed, or some of each.
        seed: it was made from.
        num_requests: planned, without warm-ups.
        num_warm_up: declared warm-ups, in no figure.
        settings: of workload, arrivals and limits.
    """

    sha256: Sha256
    loop: Loop
    seed: int | None
    num_requests: Count
    num_warm_up: Count
    settings: dict[str, Any]


class Offset(BenchPart, frozen=True, kw_only=True):
    """What the instrument adds to a known time, in ns; printed and never subtracted."""

    n: Count
    p50_ns: float
    p99_ns: float
    max_ns: float


class CalibrationFacts(BenchPart, frozen=True, kw_only=True):
    """The instrument against a null server whose delays are known.

    Attributes:
        delay_ns: between request and first chunk, as the null server was told.
        gap_ns: between chunks, same.
        num_requests: asked.
        ttft_ns: measured TTFT - delay.
        itl_ns: measured gap - gap.
        longest_block_ns: of the generator's event loop meanwhile.
        settings: rate, chunks and whatever else describes it.
    """

    delay_ns: Count
    gap_ns: Count
    num_requests: Count
    ttft_ns: Offset
    itl_ns: Offset | None
    longest_block_ns: Count | None
    settings: dict[str, Any] = {}


class Point(BenchPart, frozen=True, kw_only=True):
    """One run at one setting; a sweep has several.

    Attributes:
        validity: comes first.
        setting: what is different from the other points, such as `{"rate_per_s": 4.0}`; empty for a single run.
        schedule: of this point.
        summary: under arriero's definitions.
        load_before: of the machine; null where it was not read.
        load_during: same.
        lives: the raw log, from which every figure can be made again; moments count from the point's own origin.
            Empty if it was not kept, which `keeps_lives` tells from a run without requests.
        keeps_lives: see there.
    """

    validity: Validity
    setting: dict[str, Any]
    schedule: ScheduleFacts
    summary: ClientSummary
    load_before: LoadFacts | None
    load_during: LoadFacts | None
    keeps_lives: bool
    lives: tuple[ClientLife, ...] = ()
