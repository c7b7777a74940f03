"""What llama-bench prints, as results: its Markdown table, its JSON, or JSON lines.

Rows of prompt processing (`pp512`) and of generation (`tg128 @ d256`) that share model, backend, threads, size and
depth become one result. Whatever is not understood is an error with the line that it is about: a number that was
guessed is worse than none.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, NoReturn

import msgspec
from msgspec import Meta

from arriero.core.errors import DataError
from arriero.record.cpu_lab.matrix import MatrixCase, ParsedResult
from arriero.record.strict import Count, Positive

_TEST: Final = re.compile(r"(?P<phase>pp|tg)(?P<tokens>[1-9][0-9]{0,9})(?: @ d(?P<depth>[0-9]{1,10}))?", re.ASCII)
_THREADS: Final = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)
_SHOWN: Final = 40  # characters of a cell in a complaint
_COLUMNS: Final = ("model", "size", "backend", "threads", "test", "t/s")
_RULE: Final = re.compile(r"\|(?:\s*:?-+:?\s*\|)+")


class _Row(NamedTuple):
    """One test."""

    model: str
    size: str
    backend: str
    threads: int
    phase: str  # `pp` or `tg`
    tokens: int
    depth: int
    rate: float
    test: str

    @property
    def key(self) -> tuple[str, str, int, str, int]:
        """What rows of one result share."""
        return (self.model, self.backend, self.threads, self.size, self.depth)


class _JsonTest(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a JSON object that are used; it has many more."""

    model_type: str
    model_size: Positive
    backends: str
    n_threads: Positive
    n_prompt: Count
    n_gen: Count
    n_depth: Count = 0
    avg_ts: Annotated[float, Meta(gt=0)]


def parse_llama_bench(text: str) -> tuple[ParsedResult, ...]:
    """The results in what llama-bench wrote to its standard output, in whichever of its formats.

    Raises:
        DataError: no table, a bad number, an unknown test, or a test that stands twice.
    """
    begin = text.lstrip()[:1]
    rows = list(_json_rows(text) if begin in {"[", "{"} else _table_rows(text))
    if not rows:
        _refuse("no table with the columns model and test; is this llama-bench's output?")
    return _merged(rows)


def check_result(results: Sequence[ParsedResult], case: MatrixCase) -> ParsedResult:
    """The one result, which must be about the case that was asked for.

    Raises:
        DataError: several results, or another number of threads or tokens, or another depth.
    """
    if len(results) != 1:
        _refuse(f"{len(results)} results for one case")
    found = results[0]
    pairs = (
        ("threads", found.thread_count, case.threads),
        ("prompt tokens", found.prompt_tokens, case.prompt_tokens),
        ("generated tokens", found.generated_tokens, case.generated_tokens),
        ("depth", found.depth, case.depth),
    )
    for name, has, wanted in pairs:
        if has != wanted:
            _refuse(f"{name}: it reports {'none' if has is None else has}, and was asked for {wanted}")
    return found


def _table_rows(text: str) -> Iterator[_Row]:
    header: list[str] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped.startswith("|"):
            header = None  # a table has ended
            continue
        cells = [cell.strip() for cell in stripped.strip("|").split("|")]
        if {"model", "test"} <= set(cells):
            header = _header(cells, number)
        elif header is not None and not _RULE.fullmatch(stripped):
            if len(cells) != len(header):
                _refuse(f"{len(cells)} cells below {len(header)} columns", number)
            yield _table_row(dict(zip(header, cells, strict=True)), number)


def _header(cells: list[str], number: int) -> list[str]:
    missing = [name for name in _COLUMNS if name not in cells]
    if missing:
        _refuse(f"the table has no column {missing[0]}", number)
    return cells


def _table_row(cells: Mapping[str, str], number: int) -> _Row:
    test = _TEST.fullmatch(cells["test"])
    if test is None:
        _refuse(f"the test {cells['test'][:_SHOWN]!r} is neither ppN nor tgN, with or without @ dN", number)
    threads = cells["threads"]
    if not _THREADS.fullmatch(threads):
        _refuse(f"threads: {threads[:_SHOWN]!r} is no number", number)
    return _Row(
        model=cells["model"],
        size=cells["size"],
        backend=cells["backend"],
        threads=int(threads),
        phase=test["phase"],
        tokens=int(test["tokens"]),
        depth=int(test["depth"] or 0),
        rate=_rate(cells["t/s"], number),
        test=cells["test"],
    )


def _rate(cell: str, number: int) -> float:
    """Tokens per second: what stands before the sign of the deviation."""
    text = cell.partition("±")[0].strip()
    try:
        rate = float(text)
    except ValueError:
        _refuse(f"t/s: {text[:_SHOWN]!r} is no number", number)
    if not math.isfinite(rate) or rate <= 0:
        _refuse(f"t/s: {text} is no rate", number)
    return rate


def _json_rows(text: str) -> Iterator[_Row]:
    for values in _json_objects(text):
        try:
            test = msgspec.convert(values, _JsonTest)
        except (msgspec.ValidationError, OverflowError) as error:
            _refuse(f"JSON: {error}")
        if not math.isfinite(test.avg_ts):  # JSON of others has words for infinity, and records have none
            _refuse(f"JSON: avg_ts {test.avg_ts} is no rate")
        if (test.n_prompt == 0) == (test.n_gen == 0):
            _refuse(f"JSON: a test of {test.n_prompt} prompt and {test.n_gen} generated tokens is neither pp nor tg")
        phase, tokens = ("pp", test.n_prompt) if test.n_prompt else ("tg", test.n_gen)
        yield _Row(
            model=test.model_type,
            size=shown_size(test.model_size),
            backend=test.backends,
            threads=test.n_threads,
            phase=phase,
            tokens=tokens,
            depth=test.n_depth,
            rate=test.avg_ts,
            test=named_test(phase, tokens, test.n_depth),
        )


def _json_objects(text: str) -> list[Any]:
    """An array, or an object a line."""
    try:
        if text.lstrip().startswith("["):
            values: list[Any] = json.loads(text)
            return values
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        _refuse(f"JSON: {error}")


def named_test(phase: str, tokens: int, depth: int) -> str:
    """A test as llama-bench names it."""
    return f"{phase}{tokens} @ d{depth}" if depth else f"{phase}{tokens}"


def shown_size(num_bytes: int) -> str:
    """Bytes of weights as llama-bench shows them."""
    if num_bytes < 1 << 30:
        return f"{num_bytes / (1 << 20):.2f} MiB"
    return f"{num_bytes / (1 << 30):.2f} GiB"


def _merged(rows: Sequence[_Row]) -> tuple[ParsedResult, ...]:
    groups: dict[tuple[str, str, int, str, int], dict[str, _Row]] = {}
    for row in rows:
        phases = groups.setdefault(row.key, {})
        if row.phase in phases:
            _refuse(f"the tests {phases[row.phase].test} and {row.test} are both there for one model and thread count")
        phases[row.phase] = row
    return tuple(_result(phases) for phases in groups.values())


def _result(phases: Mapping[str, _Row]) -> ParsedResult:
    prompt, answer = phases.get("pp"), phases.get("tg")
    first = next(iter(phases.values()))
    return ParsedResult(
        model_name=first.model,
        model_size=first.size,
        backend=first.backend,
        thread_count=first.threads,
        prompt_tokens=None if prompt is None else prompt.tokens,
        generated_tokens=None if answer is None else answer.tokens,
        depth=first.depth,
        prompt_tokens_per_second=None if prompt is None else prompt.rate,
        generation_tokens_per_second=None if answer is None else answer.rate,
        test_identifier="; ".join(row.test for row in (prompt, answer) if row is not None),
    )


def _refuse(what: str, line: int | None = None) -> NoReturn:
    raise DataError(what if line is None else f"line {line}: {what}", line=line)
