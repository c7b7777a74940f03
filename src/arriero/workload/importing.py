"""From a published trace to a workload with a manifest, and an account of what was taken."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from arriero.workload.azure import AZURE
from arriero.workload.manifest import Manifest, make_manifest
from arriero.workload.mooncake import MOONCAKE, BlockTokens, block_length
from arriero.workload.records import SCHEMA, WorkloadRecord
from arriero.workload.settings import Vocabulary
from arriero.workload.traces import TraceFormat, TraceOptions, TraceRow, check_trace, read_rows

TRACES: Final = MappingProxyType({"azure": AZURE, "mooncake": MOONCAKE})
SEED: Final = 0
"""A trace has no chance in it; manifests need a number."""

_COUNTS: Final = ("num_rows", "last_recorded_us", "prompt_tokens", "output_tokens", "reusable_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What was taken of a trace; lengths in tokens, as scaled.

    Attributes:
        num_rows: rows that were read.
        num_taken, num_left_out: requests of the workload; rows that do not fit the context asked for.
        last_recorded_us: arrival of the last row read, as recorded.
        span_us: arrival of the last request taken, at the speed asked for.
        prompt_tokens, output_tokens: of all requests taken.
        block_tokens: of one block; 0 if the trace has none.
        reusable_tokens: prompt tokens that a cache without limit would not compute again, in the order of arrival.
    """

    num_rows: int
    num_taken: int
    num_left_out: int
    last_recorded_us: int
    span_us: int
    prompt_tokens: int
    output_tokens: int
    block_tokens: int
    reusable_tokens: int


class TraceImport:
    """One import: its records once, then its manifest and its account."""

    def __init__(self, kind: str, path: Path, options: TraceOptions, vocabulary: Vocabulary | None = None) -> None:
        """Check the file.

        Args:
            kind: a key of `TRACES`.
            path: the trace, plain or ending in `.xz`.
            options: scale, speed and choice.
            vocabulary: what block ids become; not used by a trace without blocks.

        Raises:
            BadWorkload: it cannot be read, is not the published file, or the scale does not suit its blocks.
        """
        self._trace: TraceFormat = TRACES[kind]
        self._path = path
        self._options = options
        self._block = block_length(options.scale) if self._trace.block_tokens else 0
        self._tokens = BlockTokens(self._trace.name, self._block, vocabulary or Vocabulary()) if self._block else None
        self._sha256 = check_trace(path, self._trace, verified=options.verified)
        self._kind = kind
        self._seen: set[int] = set()
        self._arrivals: list[int] = []
        self._counts = dict.fromkeys(_COUNTS, 0)

    def records(self) -> Iterator[WorkloadRecord]:
        """The requests in the order of the trace; to be read once and to the end.

        Raises:
            BadWorkload: a row breaks the format.
        """
        for row in islice(read_rows(self._path, self._trace), self._options.limit):
            self._counts["num_rows"] += 1
            self._counts["last_recorded_us"] = row.arrival_us
            prompt, output = self._options.prompt(row.prompt_length), self._options.output(row.output_length)
            if self._options.fits(prompt, output):
                self._count(row, prompt, output)
                yield self._record(row, self._counts["num_rows"] - 1, prompt, output)
        if self._sha256 == self._trace.sha256 and self._options.limit is None:
            assert self._counts["num_rows"] == self._trace.num_rows, "the published bytes have this many rows"

    def account(self) -> Account:
        """What was taken by the records read so far."""
        return Account(
            num_taken=len(self._arrivals),
            num_left_out=self._counts["num_rows"] - len(self._arrivals),
            span_us=self._arrivals[-1] if self._arrivals else 0,
            block_tokens=self._block,
            **self._counts,
        )

    def manifest(self, sha256: str) -> Manifest:
        """The manifest of a workload that holds the records read so far; its arrivals are listed one by one."""
        options = self._options
        config: dict[str, Any] = {
            "schema_version": SCHEMA,
            "workload_class": str(self._trace.workload_class),
            "request_count": len(self._arrivals),
            "seed": SEED,
            "arrival": {"mode": "manual", "timestamps_us": self._arrivals},
            "trace": {"name": self._trace.name, "sha256": self._sha256},
            "import": {
                "scale": options.scale,
                "output_scale": options.output_scale or options.scale,
                "speed": str(options.speed),
                "limit": options.limit,
                "context": options.context,
            },
        }
        return make_manifest(f"arriero-import-{self._kind}-v1", config, sha256)

    def _count(self, row: TraceRow, prompt: int, output: int) -> None:
        num_hits = 0
        for block in row.blocks:
            if block not in self._seen:
                break
            num_hits += 1
        self._seen.update(row.blocks)
        self._counts["prompt_tokens"] += prompt
        self._counts["output_tokens"] += output
        self._counts["reusable_tokens"] += min(num_hits * self._block, prompt)

    def _record(self, row: TraceRow, index: int, prompt: int, output: int) -> WorkloadRecord:
        arrival_time_us = self._options.arrival_us(row.arrival_us)
        self._arrivals.append(arrival_time_us)
        return WorkloadRecord(
            request_id=f"{self._trace.name}-{index:06d}",
            arrival_time_us=arrival_time_us,
            prompt_token_count=prompt,
            max_new_tokens=output,
            workload_class=self._trace.workload_class,
            prompt_tokens=self._tokens.prompt(row.blocks, prompt) if self._tokens else None,
        )
