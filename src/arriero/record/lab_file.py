"""Result files of the published serving lab: read strictly, reconciled, and turned into what metrics need."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from arriero.core.errors import DataError
from arriero.metrics.goodput import Slos
from arriero.metrics.lab_summary import LabLife, lab_summary
from arriero.metrics.latency import Life
from arriero.record.lab_check import LabChecker
from arriero.record.lab_config import LabConfig
from arriero.record.lab_envelope import Envelope, check_envelope
from arriero.record.lab_place import Place
from arriero.record.lab_rows import IterationRow, LabRow, RequestRow, SummaryRow, encode_row
from arriero.record.lab_run import RunRow, decode_run
from arriero.record.strict import parse_object, refusal


class LabResult(NamedTuple):
    """A whole file, checked."""

    run: RunRow
    config: LabConfig
    num_iterations: int
    requests: tuple[LabLife, ...]
    summary: SummaryRow

    @property
    def has_iterations(self) -> bool:
        """Whether every iteration of the run has its row; serving one at a time has none."""
        return self.num_iterations == (self.summary.scheduling_iterations or 0)

    def metrics(self) -> dict[str, Any]:
        """The published metrics of this run."""
        num_iterations = self.num_iterations if self.has_iterations else None
        return lab_summary(self.requests, num_iterations, msgspec.structs.asdict(self.summary), slos_of(self.config))


_KINDS: Final[Mapping[str, type[LabRow]]] = {
    "iteration": IterationRow, "request": RequestRow, "summary": SummaryRow,
}  # fmt: skip


class _Kind(msgspec.Struct):
    record_type: str


_KIND: Final = msgspec.json.Decoder(_Kind)
_DECODERS: Final = {name: msgspec.json.Decoder(kind) for name, kind in _KINDS.items()}


def slos_of(config: LabConfig) -> Slos:
    """The objectives of a configuration."""
    bounds = config.slos.ttft_slo_us, config.slos.tpot_slo_us, config.slos.e2e_slo_us
    return Slos(*(None if bound is UNSET else bound for bound in bounds))


def lab_life(row: RequestRow) -> LabLife:
    """What metrics need of a request row."""
    life = Life(
        row.arrival_time_us, row.admitted_time_us, row.first_token_time_us, row.finish_time_us, row.generated_tokens
    )
    return LabLife(life, row.prompt_tokens_scheduled)


def read_lab_result(
    path: Path,
    workload: Sequence[Envelope] | None = None,
    *,
    with_iterations: bool = True,
    on_row: Callable[[LabRow], None] | None = None,
) -> LabResult:
    """Read a result file and reconcile every figure in it.

    Args:
        path: the file.
        workload: the requests by (arrival, id), to compare with; None compares with the manifest only.
        with_iterations: whether the file is meant to hold iteration rows.
        on_row: is shown every native row once it has been checked.

    Raises:
        DataError: names file, line and field.
    """
    name = str(path)
    try:
        with path.open("rb") as file:
            return _read(file, name, workload, with_iterations=with_iterations, on_row=on_row)
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise DataError(f"{reason}; name a result file that can be read", file=name) from None


def has_iterations(path: Path) -> bool:
    """Whether iteration rows follow the run row; False for a file that cannot be read, which reading it will say."""
    try:
        with path.open("rb") as file:
            file.readline()
            return _KIND.decode(file.readline()).record_type == "iteration"
    except (OSError, msgspec.DecodeError):
        return False


def decode_row(text: bytes, place: Place) -> LabRow:
    """One native row, in exactly the bytes of its writer.

    Raises:
        DataError: names line and field.
    """
    kind: type[LabRow] | None = None
    try:
        word = _KIND.decode(text).record_type
        kind = _KINDS.get(word)
        if kind is None:
            raise place.broken("record_type", f"{word!a} is no native row; use {', '.join(_KINDS)}")
        row: LabRow = _DECODERS[word].decode(text)
    except (msgspec.DecodeError, RecursionError, OverflowError) as error:
        parse_object(text, file=place.file, line=place.line)  # says what is wrong with the JSON, if it is that
        raise refusal(str(error), kind, file=place.file, line=place.line) from None
    if encode_row(row) != text:
        what = "is not written in the one way: sorted keys, no spaces, whole ratios without a fraction; run again"
        raise place.broken("row", what)
    return row


def _read(
    lines: Iterable[bytes],
    name: str,
    workload: Sequence[Envelope] | None,
    *,
    with_iterations: bool,
    on_row: Callable[[LabRow], None] | None,
) -> LabResult:
    numbered = enumerate(lines, start=1)
    _, first = next(numbered, (0, b""))
    if not first:
        raise Place(name, 1).broken("record_type", "the file is empty; name a result file")
    run, config = decode_run(_line(first, Place(name, 1)), file=name)
    checker = LabChecker(config, name, with_iterations=with_iterations)
    requests: list[LabLife] = []
    num_iterations, number = 0, 1
    for number, line in numbered:
        place = Place(name, number)
        row = decode_row(_line(line, place), place)
        checker.add(row, number)
        if isinstance(row, IterationRow):
            num_iterations += 1
        elif isinstance(row, RequestRow):
            if workload is not None and len(requests) < len(workload):
                check_envelope(row, workload[len(requests)], place)
            elif row.workload_class != run.workload_manifest.workload_class:
                raise place.broken("workload_class", f"the manifest says {run.workload_manifest.workload_class}")
            requests.append(lab_life(row))
        if on_row is not None:
            on_row(row)
    summary = checker.finish(number)
    expected = len(workload) if workload is not None else run.workload_manifest.request_count
    if {expected, run.workload_manifest.request_count} != {len(requests)}:
        what = f"{len(requests)} rows of requests, but the workload has {expected}; run again"
        raise Place(name, number).broken("submitted", what)
    return LabResult(run, config, num_iterations, tuple(requests), summary)


def _line(text: bytes, place: Place) -> bytes:
    if not text.endswith(b"\n"):
        raise place.broken("row", "the line does not end, so the file is cut off; run again")
    return text[:-1]
