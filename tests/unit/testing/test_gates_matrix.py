"""The measured matrix: what varies is compared, a difference is named, and the tables say both."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from arriero.backend.models import WeightFormat
from arriero.backend.protocol import Backend
from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.backend.synthetic_memory import SyntheticStore
from arriero.core.config import BackendKind, ServeConfig
from arriero.core.errors import ConfigError
from arriero.core.events import KvOp, SaveSequence
from arriero.core.gate_args import ExactnessKnobs, GateArgs, GateVerb
from arriero.core.plan import PrefillChunk, Row
from arriero.testing.fakes import FaultyBackend
from arriero.testing.gates import main
from arriero.testing.gates.matrix import COLUMNS, PLAIN, THREADS, Column, FormatRow, Matrix, MatrixCell, measure_cells
from arriero.testing.gates.matrix_cases import CASES, SEQUENCES
from arriero.testing.gates.matrix_page import as_markdown
from arriero.testing.gates.matrix_page import main as matrix_main
from arriero.testing.kernels import CountingKernels

DOCUMENT = Path(__file__).parents[3] / "docs" / "exactness.md"


def synthetic(column: Column) -> SyntheticBackend:
    options = SyntheticOptions(
        num_sequences=SEQUENCES, num_rows=1024, micro_batch=1024, num_cells=SEQUENCES * 2048, unified=column.unified
    )
    return SyntheticBackend(options, store=SyntheticStore())


def measured(wrap: Callable[[Backend, Column, int], Backend]) -> dict[tuple[str, str], MatrixCell]:
    cells = measure_cells(lambda column, threads: wrap(synthetic(column), column, threads), lambda _: None)
    return {(cell.varies, cell.column): cell for cell in cells}


class HeedsThreads(FaultyBackend):
    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        return super().decode(rows) + np.float32(0.25)


class LongChunksDiffer(FaultyBackend):
    """A chunk of 64 rows or more takes another path, and its sequence remembers."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self._other: set[int] = set()

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        logits = super().decode(rows).copy()
        for row in rows:
            if row.start == 0:
                self._other.discard(row.sequence_id)
            if isinstance(row, PrefillChunk) and row.num_rows >= 64:
                self._other.add(row.sequence_id)
        for number, row in enumerate(row for row in rows if row.wants_logits):
            logits[number, 0] += 0.5 * (row.sequence_id in self._other)
        return logits


class SavesNothing(FaultyBackend):
    def apply(self, op: KvOp) -> bool:
        return not isinstance(op, SaveSequence) and super().apply(op)


def test_every_case_is_equal_in_every_column_where_bits_depend_on_nothing() -> None:
    cells = measured(lambda backend, *_: backend)
    assert len(cells) == (len(CASES) + 1) * len(COLUMNS)
    assert {cell.words for cell in cells.values()} == {"equal"}
    assert all(cell.tried for cell in cells.values())


def test_variations_that_differ_are_named_beside_those_that_do_not() -> None:
    cells = measured(lambda backend, *_: LongChunksDiffer(backend))
    cell = cells["prefill chunk size", PLAIN.name]
    assert cell.differing == ["7 rows", "32 rows", "63 rows"]
    assert cell.words.startswith("differs for 7 rows, 32 rows, 63 rows; equal for 64 rows")
    assert cell.largest == pytest.approx(0.5)


def test_kernels_that_count_rows_show_in_the_company_of_decode_rows() -> None:
    cells = measured(lambda backend, *_: CountingKernels(backend, 2))
    assert cells["decode rows in company", PLAIN.name].words == "differs"
    assert cells["swapped out, and in under another id", PLAIN.name].words == "equal"


def test_threads_are_two_backends() -> None:
    cells = measured(lambda backend, _, threads: HeedsThreads(backend) if threads == 1 else backend)
    assert {cells[THREADS, column.name].words for column in COLUMNS} == {"differs"}


def test_what_memory_refuses_is_not_possible_and_says_why() -> None:
    cell = measured(lambda backend, *_: SavesNothing(backend))["swapped out, and in under another id", PLAIN.name]
    assert cell.words == "-"
    assert "refuses SaveSequence" in (cell.impossible or "")


# ── pages ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def cell_of(words: str) -> MatrixCell:
    differing = [] if words == "equal" else ["8 rows"]
    return MatrixCell(varies="x", column=PLAIN.name, tried=["2 rows", "8 rows"], differing=differing, largest=None)


def a_matrix() -> Matrix:
    cells = list(measured(lambda backend, *_: backend).values())
    equal, other = cell_of("equal"), cell_of("other")
    formats = [
        FormatRow(
            weights="Q8_0", mebibytes=138.1, chunking=equal, company=equal, reuse=equal, multiple=1, num_shapes=27
        ),
        FormatRow(weights="F16", mebibytes=258, chunking=equal, company=other, reuse=equal, multiple=2, num_shapes=27),
        FormatRow(
            weights="Q4_K_M", mebibytes=100, chunking=other, company=other, reuse=equal, multiple=None, num_shapes=0,
            refusal="--exact: no",
        ),
    ]  # fmt: skip
    return Matrix(schema=1, model="m.gguf", weights="Q4_1", library="l 1", cpu=None, cells=cells, formats=formats)


def test_both_tables_are_markdown() -> None:
    lines = as_markdown(a_matrix()).splitlines()
    assert lines[0] == "m.gguf (Q4_1), l 1, an unknown CPU."
    assert "| what varies | separate, off | separate, on | unified, off | unified, on |" in lines
    assert "| chunks of one row | equal | equal | equal | equal |" in lines
    assert "| Q8_0 | 138.1 | equal | equal | equal | 27 shapes equal |" in lines
    assert lines[-2].endswith("| differs for 8 rows; equal for 2 rows | equal | 27 shapes equal, " + MULTIPLE_OF_2)
    assert lines[-1].endswith("| refused |")


MULTIPLE_OF_2 = "calls filled up to multiples of 2 rows |"


def test_the_command_prints_and_writes_what_was_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[tuple[str, tuple[WeightFormat, ...]]] = []

    def measure(reference: str, formats: tuple[WeightFormat, ...], tell: Callable[[str], None]) -> Matrix:
        tell("working")
        asked.append((reference, formats))
        return a_matrix()

    table, data = tmp_path / "table.md", tmp_path / "matrix.json"
    args = GateArgs(
        verb=GateVerb.EXACTNESS,
        exactness=ExactnessKnobs(matrix=True, markdown=str(table)),
        json_file=str(data),
        config=ServeConfig(model="m.gguf"),
    )
    assert matrix_main(args, measure) == 0
    assert asked == [("m.gguf", tuple(WeightFormat))]
    assert capsys.readouterr().out == table.read_text(encoding="utf-8") == as_markdown(a_matrix())
    assert json.loads(data.read_text(encoding="utf-8"))["formats"][1]["multiple"] == 2
    with pytest.raises(ConfigError, match="--markdown /nowhere/table"):
        matrix_main(replace(args, exactness=ExactnessKnobs(matrix=True, markdown="/nowhere/table.md")), measure)


def test_a_formula_has_no_matrix() -> None:
    config = ServeConfig(backend=BackendKind.SYNTHETIC)
    with pytest.raises(ConfigError, match="--matrix: a formula has no kernels"):
        main(GateArgs(verb=GateVerb.EXACTNESS, exactness=ExactnessKnobs(matrix=True), config=config))


def test_the_document_explains_every_row_column_and_format_of_the_tables() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    for varies in (*(varies for varies, _ in CASES), THREADS):
        assert f"| {varies} |" in text
    for words in (*(column.name for column in COLUMNS), *WeightFormat):
        assert words in text
