"""Result files of arriero's own mode: read strictly, a row at a time, so that a long one needs little memory.

    run row, step rows, request rows by internal id, summary row

A file is read to its end before it may be believed: the summary, which is last, is made again from all the rows.
"""

import hashlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from arriero.core.errors import DataError
from arriero.metrics.served import Served
from arriero.record.lab_place import Place
from arriero.record.sim_check import SimChecker
from arriero.record.sim_rows import SCHEMA, SimRequestRow, SimRow, StepRow, encode_sim_row
from arriero.record.sim_run import SimRunRow, decode_sim_run
from arriero.record.strict import parse_object, refusal


class SimSummaryRow(NamedTuple):
    """What the run says about itself; see `metrics.run_summary`."""

    values: dict[str, Any]


SimFileRow: TypeAlias = SimRunRow | StepRow | SimRequestRow | SimSummaryRow


class SimResult(NamedTuple):
    """A whole file, checked."""

    run: SimRunRow
    num_steps: int  # step rows; 0 where they were not recorded
    requests: tuple[Served, ...]
    summary: dict[str, Any]  # without the two fields that every row has


class _Kind(msgspec.Struct):
    record_type: str


_KIND: Final = msgspec.json.Decoder(_Kind)
_STEP: Final = msgspec.json.Decoder(StepRow)
_REQUEST: Final = msgspec.json.Decoder(SimRequestRow)
_ORDER: Final = ("run", "step", "request", "summary")
_AGAIN: Final = "run again"
_EVERYWHERE: Final = frozenset({"record_type", "schema_version"})

T = TypeVar("T", bound=SimRow)


def read_sim_result(path: Path) -> SimResult:
    """Read a file and make every figure in it again.

    Raises:
        DataError: names file, line and field.
    """
    with _opened(path) as file:
        reader = _Reader(str(path))
        summary: dict[str, Any] = {}
        for row in reader.rows(file):
            if isinstance(row, SimSummaryRow):
                summary = {name: each for name, each in row.values.items() if name not in _EVERYWHERE}
        run, checker = reader.whole
        return SimResult(run, checker.num_steps, tuple(checker.tally.requests), summary)


def read_sim_rows(path: Path) -> Iterator[SimFileRow]:
    """The rows of a file, in its order.

    Raises:
        DataError: the file cannot be read, or a row breaks the format; those before it have been yielded.
    """
    with _opened(path) as file:
        yield from decode_sim_rows(file, str(path))


def decode_sim_rows(lines: Iterable[bytes], name: str) -> Iterator[SimFileRow]:
    """The rows of lines; `name` is that of their file in errors.

    Raises:
        DataError: see `read_sim_rows`.
    """
    return _Reader(name).rows(lines)


def file_sha256(path: Path) -> str:
    """The hash of a file's bytes.

    Raises:
        DataError: it cannot be read.
    """
    with _opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _opened(path: Path) -> Generator[BufferedReader]:
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise DataError(f"{reason}; name a result file that can be read", file=str(path)) from None


class _Reader:
    """Decodes the rows of one file and checks each against those before it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._stage = ""
        self._run: SimRunRow | None = None
        self._checker: SimChecker | None = None

    @property
    def whole(self) -> tuple[SimRunRow, SimChecker]:
        """The run row, and what was checked below it, once all rows were read."""
        assert self._run is not None, "a file without a run row is refused"
        assert self._checker is not None, "it is made with the run row"
        return self._run, self._checker

    def rows(self, lines: Iterable[bytes]) -> Iterator[SimFileRow]:
        """All rows, each checked."""
        number = 0
        for number, line in enumerate(lines, start=1):
            place = Place(self._name, number)
            if not line.endswith(b"\n"):
                raise place.broken("row", f"the line does not end, so the file is cut off; {_AGAIN}")
            yield self._row(line[:-1], place)
        if self._stage != "summary":
            what = "the file is empty; name a result file" if not self._stage else f"the summary is missing; {_AGAIN}"
            raise Place(self._name, max(number, 1)).broken("record_type", what)

    def _row(self, text: bytes, place: Place) -> SimFileRow:
        kind = _kind_of(text, place)
        self._enter(kind, place)
        if kind == "run":
            self._run = decode_sim_run(text, place)
            self._checker = SimChecker(self._run.config)
            return self._run
        _, checker = self.whole
        match kind:
            case "step":
                step = _decode(_STEP, text, StepRow, place)
                checker.add_step(step, place)
                return step
            case "request":
                request = _decode(_REQUEST, text, SimRequestRow, place)
                checker.add_request(request, place)
                return request
            case _:
                values = parse_object(text, file=place.file, line=place.line)
                checker.check_summary(values, text, place)
                return SimSummaryRow(values)

    def _enter(self, kind: str, place: Place) -> None:
        before = self._stage
        repeats = kind in {"step", "request"} and kind == before
        if not before and kind != "run":
            raise place.broken("record_type", f"the first row is of kind {kind}, not run; name a result file")
        if before and not repeats and _ORDER.index(kind) <= _ORDER.index(before):
            raise place.broken("record_type", f"a row of kind {kind} comes after one of kind {before}; {_AGAIN}")
        self._stage = kind


def _kind_of(text: bytes, place: Place) -> str:
    try:
        kind = _KIND.decode(text).record_type
    except (msgspec.DecodeError, RecursionError) as error:
        parse_object(text, file=place.file, line=place.line)  # says what is wrong with the JSON, if it is that
        raise refusal(str(error), _Kind, file=place.file, line=place.line) from None
    if kind not in _ORDER:
        raise place.broken("record_type", f"{kind!a} is no row of {SCHEMA}; use {', '.join(_ORDER)}")
    return kind


def _decode(decoder: "msgspec.json.Decoder[T]", text: bytes, kind: type[T], place: Place) -> T:
    try:
        row = decoder.decode(text)
    except (msgspec.DecodeError, RecursionError, OverflowError) as error:
        parse_object(text, file=place.file, line=place.line)
        raise refusal(str(error), kind, file=place.file, line=place.line) from None
    if encode_sim_row(row) != text:
        raise place.broken("row", f"is not written in the one way: sorted keys, no spaces; {_AGAIN}")
    return row
