"""`arriero gate exactness --matrix`: what changes the bits of logits in this build, on this machine, with this model.

    first table    what varies  x  KV layout and flash attention
    second table   weight format  x  what exact mode is made of, and the multiple of rows with which it passes

Every format is made from the given file, tried, and removed again.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from arriero.backend.canonical_rows import open_canonical
from arriero.backend.context import ContextOptions
from arriero.backend.host_store import HostStoreOptions
from arriero.backend.library import BINDING_VERSION, process_start, process_stop
from arriero.backend.llama_model import LlamaModel
from arriero.backend.models import WeightFormat, quantize, resolve_model
from arriero.backend.protocol import Backend
from arriero.core.config import FlashAttention
from arriero.core.errors import ConfigError
from arriero.engine.exact_check import ExactShapes, open_exact
from arriero.engine.logit_bench import LogitBench, made_up_request, unlike
from arriero.record.machine import machine_facts
from arriero.testing.gates.matrix_cases import CASES, CHUNKING, COMPANY, POSITIONS, REUSE, SEQUENCES, Case, Compared

SCHEMA: Final = 1
STREAM_CELLS: Final = 2048
NUM_ROWS: Final = 1024
STORE_BYTES: Final = 1 << 30
THREADS: Final = "1 or 2 threads"
MEBIBYTE: Final = 1 << 20

assert POSITIONS <= STREAM_CELLS, "a stream holds the longest prompt of a case"


class Column(NamedTuple):
    """A KV layout with flash attention on or off."""

    name: str
    unified: bool
    flash: FlashAttention


COLUMNS: Final = (
    Column("separate, off", unified=False, flash=FlashAttention.OFF),
    Column("separate, on", unified=False, flash=FlashAttention.ON),
    Column("unified, off", unified=True, flash=FlashAttention.OFF),
    Column("unified, on", unified=True, flash=FlashAttention.ON),
)
PLAIN: Final = COLUMNS[0]
"""The one that exact mode is made of."""

Open = Callable[[Column, int], Backend]
"""A fresh backend of a column, with so many threads; closed by whoever asked for it."""


class MatrixCell(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that varied, in one column.

    Attributes:
        varies: what.
        column: KV layout and flash attention.
        tried: every variation.
        differing: those that changed bits.
        largest: the largest difference of two logits, or null.
        impossible: why it could not be tried, or null.
    """

    varies: str
    column: str
    tried: list[str]
    differing: list[str]
    largest: float | None
    impossible: str | None = None

    @property
    def words(self) -> str:
        """As the table has it."""
        if self.impossible is not None:
            return "-"
        if not self.differing:
            return "equal"
        if self.differing == self.tried:
            return "differs"
        same = [each for each in self.tried if each not in self.differing]
        return f"differs for {', '.join(self.differing)}; equal for {', '.join(same)}"


class FormatRow(msgspec.Struct, frozen=True, kw_only=True):
    """One weight format, in separate streams without flash attention.

    Attributes:
        weights: the format.
        mebibytes: size of all tensors.
        chunking, company, reuse: the cells of what exact mode is made of.
        multiple: rows of every call with which the self-test passes; null if none does.
        num_shapes: that the self-test compared.
        refusal: what the server says where none passes, or null.
    """

    weights: str
    mebibytes: float
    chunking: MatrixCell
    company: MatrixCell
    reuse: MatrixCell
    multiple: int | None
    num_shapes: int
    refusal: str | None = None


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` writes.

    Attributes:
        schema: grows when a field changes its meaning.
        model: the file's name.
        weights: its format.
        library: the binding and its version.
        cpu: the model's name, or null.
        cells: of the first table, row by row.
        formats: the second table.
    """

    schema: int
    model: str
    weights: str
    library: str
    cpu: str | None
    cells: list[MatrixCell]
    formats: list[FormatRow]


def measure_matrix(reference: str, formats: Sequence[WeightFormat], tell: Callable[[str], None]) -> Matrix:
    """Measure both tables on a model file.

    Raises:
        ConfigError: the model cannot be read, or memory does not suffice.
    """
    process_start()
    try:
        path = resolve_model(reference)
        model = LlamaModel(path)
        try:
            cells = list(measure_cells(lambda column, threads: open_column(model, column, threads), tell))
            weights = model.capabilities.weight_format
        finally:
            model.close()
        return Matrix(
            schema=SCHEMA,
            model=path.name,
            weights=weights,
            library=f"llama-cpp-python {BINDING_VERSION}",
            cpu=machine_facts().cpu,
            cells=cells,
            formats=[_measure_format(path, each, tell) for each in formats],
        )
    finally:
        process_stop()


def open_column(model: LlamaModel, column: Column, threads: int, *, multiple: int = 1) -> Backend:
    """A context of a column, with a host store."""
    options = ContextOptions(
        ctx_size=SEQUENCES * STREAM_CELLS,
        num_sequences=SEQUENCES,
        num_rows=NUM_ROWS,
        micro_batch=NUM_ROWS,
        num_threads=threads,
        unified=column.unified,
        flash_attention=column.flash,
    )
    return open_canonical(model, options, multiple, HostStoreOptions(max_bytes=STORE_BYTES))


def measure_cells(open_backend: Open, tell: Callable[[str], None]) -> Iterator[MatrixCell]:
    """The first table, row by row."""
    by_place: dict[tuple[str, str], MatrixCell] = {}
    for column in COLUMNS:
        with ExitStack() as stack:
            backend = open_backend(column, 2)
            stack.callback(backend.close)
            for varies, case in CASES:
                tell(f"{column.name}: {varies}")
                by_place[varies, column.name] = cell_of(LogitBench(backend), varies, column, (case,))
            tell(f"{column.name}: {THREADS}")
            other = open_backend(column, 1)
            stack.callback(other.close)
            by_place[THREADS, column.name] = _threads(backend, other, column)
    for varies in (*(varies for varies, _ in CASES), THREADS):
        yield from (by_place[varies, column.name] for column in COLUMNS)


def cell_of(bench: LogitBench, varies: str, column: Column, cases: Sequence[Case]) -> MatrixCell:
    """All variations of some cases on one backend, which is emptied before each case."""
    tried: list[str] = []
    differences: dict[str, float] = {}
    try:
        for words, largest in _variations(bench, cases):
            tried.append(words)
            if largest is not None:
                differences[words] = largest
    except ConfigError as problem:
        return MatrixCell(
            varies=varies, column=column.name, tried=[], differing=[], largest=None, impossible=str(problem)
        )
    return MatrixCell(
        varies=varies,
        column=column.name,
        tried=tried,
        differing=list(differences),
        largest=max(differences.values(), default=None),
    )


def _variations(bench: LogitBench, cases: Sequence[Case]) -> Compared:
    for case in cases:
        bench.clear()
        yield from case(bench)


def _threads(backend: Backend, other: Backend, column: Column) -> MatrixCell:
    """The same request on two backends that differ in their threads."""
    benches = [LogitBench(backend), LogitBench(other)]
    request = made_up_request(1, benches[0].fits(300))
    for bench in benches:
        bench.clear()
    pairs = zip(*(bench.solo(request) for bench in benches), strict=True)
    differences = {
        words: largest
        for words, pair in zip(("prompt", "decode row"), pairs, strict=True)
        if (largest := unlike(*pair)) is not None
    }
    return MatrixCell(
        varies=THREADS,
        column=column.name,
        tried=["prompt", "decode row"],
        differing=list(differences),
        largest=max(differences.values(), default=None),
    )


def _measure_format(source: Path, weights: WeightFormat, tell: Callable[[str], None]) -> FormatRow:
    """One format: made, tried, removed."""
    with tempfile.TemporaryDirectory(prefix="arriero-matrix-") as folder, ExitStack() as stack:
        tell(f"{weights}: making the file")
        model = LlamaModel(quantize(source, Path(folder) / f"{weights}.gguf", weights))
        stack.callback(model.close)
        with ExitStack() as inner:
            backend = open_column(model, PLAIN, 2)
            inner.callback(backend.close)
            cells: list[MatrixCell] = []
            for varies, cases in (("chunking", CHUNKING), ("company", COMPANY), ("reuse", REUSE)):
                tell(f"{weights}: {varies}")
                cells.append(cell_of(LogitBench(backend), varies, PLAIN, cases))
        tell(f"{weights}: self-test of exact mode")
        multiple, num_shapes, refusal = None, 0, None
        try:
            proven = open_exact(lambda rows: open_column(model, PLAIN, 2, multiple=rows), ExactShapes())
        except ConfigError as problem:
            refusal = str(problem)
        else:
            stack.callback(proven.backend.close)
            multiple, num_shapes = proven.multiple, proven.proof.num_shapes
        return FormatRow(
            weights=weights,
            mebibytes=round(model.capabilities.weight_bytes / MEBIBYTE, 1),
            chunking=cells[0],
            company=cells[1],
            reuse=cells[2],
            multiple=multiple,
            num_shapes=num_shapes,
            refusal=refusal,
        )
