"""The measured matrix as Markdown, and the command that writes it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console

from arriero.backend.models import WeightFormat
from arriero.core.config import BackendKind
from arriero.core.errors import ConfigError
from arriero.core.gate_args import GateArgs
from arriero.testing.gates.matrix import COLUMNS, FormatRow, Matrix, measure_matrix

Measure = Callable[[str, tuple[WeightFormat, ...], Callable[[str], None]], Matrix]

FORMATS: Final = tuple(WeightFormat)


def main(args: GateArgs, measure: Measure = measure_matrix) -> int:
    """Measure, print, and write what was asked for; the status is 0, since a table has no promise to break.

    Raises:
        ConfigError: there is no real model to measure, or a file cannot be written.
    """
    if args.config.backend is BackendKind.SYNTHETIC:
        raise ConfigError("--matrix: a formula has no kernels to compare; leave out --backend synthetic")
    with Console(stderr=True).status("loading the model") as status:
        matrix = measure(args.config.model, FORMATS, status.update)
    text = as_markdown(matrix)
    Console(highlight=False, soft_wrap=True).print(text, markup=False, end="")
    if args.exactness.markdown is not None:
        _write(Path(args.exactness.markdown), "--markdown", text.encode())
    if args.json_file is not None:
        _write(Path(args.json_file), "--json", msgspec.json.format(msgspec.json.encode(matrix), indent=2) + b"\n")
    return 0


def as_markdown(matrix: Matrix) -> str:
    """Both tables, with what they were measured on."""
    machine = matrix.cpu or "an unknown CPU"
    blocks = (
        f"{matrix.model} ({matrix.weights}), {matrix.library}, {machine}.",
        "\n".join(_first_table(matrix)),
        "Weight formats, made from that file; separate streams, flash attention off:",
        "\n".join(_second_table(matrix)),
    )
    return "\n\n".join(blocks) + "\n"


def _first_table(matrix: Matrix) -> Iterator[str]:
    yield f"| what varies | {' | '.join(column.name for column in COLUMNS)} |"
    yield "| --- " * (1 + len(COLUMNS)) + "|"
    for varies in dict.fromkeys(cell.varies for cell in matrix.cells):
        words = [cell.words for cell in matrix.cells if cell.varies == varies]
        yield f"| {varies} | {' | '.join(words)} |"


def _second_table(matrix: Matrix) -> Iterator[str]:
    yield "| weights | MiB | chunking | decode rows in company | copy, trim, swap, neighbours | exact mode |"
    yield "| --- | ---: | --- | --- | --- | --- |"
    for row in matrix.formats:
        parts = (row.weights, f"{row.mebibytes:g}", row.chunking.words, row.company.words, row.reuse.words, _exact(row))
        yield f"| {' | '.join(parts)} |"


def _exact(row: FormatRow) -> str:
    if row.multiple is None:
        return "refused"
    shapes = f"{row.num_shapes} shapes equal"
    return shapes if row.multiple == 1 else f"{shapes}, calls filled up to multiples of {row.multiple} rows"


def _write(path: Path, flag: str, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        message = f"{flag} {path}: cannot be written ({error.strerror}); name a file in a folder that exists"
        raise ConfigError(message) from error
