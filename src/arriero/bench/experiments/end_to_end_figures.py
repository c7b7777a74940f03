"""What cells of the end-to-end experiment come to."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.end_to_end_cells import Cell
from arriero.bench.experiments.experiment import Statement, Table, Value
from arriero.bench.experiments.samples import (
    NS_PER_MS,
    SAMPLE_HEADS,
    http_label,
    median,
    ratio,
    rounded,
    samples,
    stable,
)
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.record.diagnostics import ServerRequestRow

US_PER_MS: Final = 1_000
DECODE_STEPS: Final = 3
"""A probe may wait for the step that runs, one in which the cancel is seen, and one in which its slot rests."""


def decode_step_ms(cell: Cell) -> float | None:
    """The median pass of the loop with one decode row."""
    rows = (row for row in cell.log.computed if row.decode_rows_in_iter == 1 and not row.prefill_rows_in_iter)
    return ratio(median(row.iter_wall_us for row in rows), US_PER_MS)


def prefill_step_ms(cell: Cell) -> float | None:
    """The median pass of the loop with one whole prompt."""
    rows = (row for row in cell.log.computed if row.prefill_rows_in_iter and not row.decode_rows_in_iter)
    return ratio(median(row.iter_wall_us for row in rows), US_PER_MS)


def judge(cells: Sequence[Cell]) -> Iterator[Statement]:
    """The acceptance statements."""
    failed = [life for cell in cells for life in _whole_lives(cell) if life.outcome is not Outcome.LENGTH]
    seen = f"{len(failed)}" + (f", such as {failed[0].request_id}: {failed[0].outcome}" if failed else "")
    yield Statement.so("requests that failed, were rejected or ended early", seen, "none", holds=not failed)
    yield Statement.equal("cells with incomplete records", sum(bool(cell.problems) for cell in cells), 0)
    texts: dict[object, set[str]] = {}
    for cell in cells:
        for life in (cell.gate, *cell.lives):
            texts.setdefault(f"{life.asked_tokens} tokens", set()).add(life.text_sha256 or "none")
    yield stable("an answer alone on a fresh server is the same in every cell", texts)
    yield from _judge_left([cell for cell in cells if cell.kind == "left"])


def _judge_left(cells: Sequence[Cell]) -> Iterator[Statement]:
    left = [each for cell in cells for each in cell.left]
    planned = sum(each.life.outcome is Outcome.CANCELLED_BY_CLIENT for each in left)
    others = sorted({each.life.outcome.value for each in left} - {Outcome.CANCELLED_BY_CLIENT.value})
    yield Statement.so(
        "streams their client left as planned",
        f"{planned} of {len(left)}" + (f", others: {', '.join(others)}" if others else ""),
        "all",
        holds=0 < len(left) == planned,
    )
    answered = sum(each.probe.outcome is Outcome.LENGTH for each in left)
    yield Statement.so("probes answered", f"{answered} of {len(left)}", "all", holds=0 < len(left) == answered)
    held = sum(each.in_flight != 0 for each in left)
    yield Statement.equal("left streams after which the door did not come back to 0 places taken", held, 0)
    for cell in cells:
        decode, prefill = decode_step_ms(cell), prefill_step_ms(cell)
        longest = max(map(_wait_ms, (each.probe for each in cell.left)), default=None)
        text = f"{cell.placement}: longest wait of a probe, ms"
        if decode is None or prefill is None:
            yield Statement.undecided(text, f"{DECODE_STEPS} decode steps and a prefill", "no step was written down")
        else:
            yield Statement.at_most(text, rounded(longest), round(DECODE_STEPS * decode + prefill, 3), " ms")
    changed = sum(cell.sanity is None or cell.sanity.text_sha256 != cell.gate.text_sha256 for cell in cells)
    yield Statement.equal("cells whose answer after the left streams is not the one before", changed, 0)


def _whole_lives(cell: Cell) -> Iterator[ClientLife]:
    """Requests that were to be answered in full."""
    yield cell.gate
    yield from cell.lives
    if cell.sanity is not None:
        yield cell.sanity


def _wait_ms(life: ClientLife) -> float:
    return (life.closed_at - life.sent_at) / NS_PER_MS if life.closed_at and life.sent_at else float("inf")


def answer_table(cells: Sequence[Cell], model: ModelSettings) -> Table:
    """Times of whole bodies and streams, and what HTTP adds to them."""
    rows: list[tuple[Value, ...]] = []
    for cell in (each for each in cells if each.kind != "left"):
        totals = samples(map(_wait_ms, cell.lives))
        rows.append((cell.name, "answer", *totals.cells(), rounded(_overhead(cell))))
        if cell.kind == "stream":
            firsts = (life.chunk_at[0] - life.sent_at for life in cell.lives if life.chunk_at and life.sent_at)
            gaps = (later - earlier for life in cell.lives for earlier, later in pairwise(life.chunk_at))
            rows.append((cell.name, "first token", *samples(firsts, NS_PER_MS).cells(), None))
            rows.append((cell.name, "gap", *samples(gaps, NS_PER_MS).cells(), None))
    return Table(
        title="One client over HTTP, milliseconds",
        label=http_label(model),
        heads=("cell", "what", *SAMPLE_HEADS, "HTTP overhead"),
        rows=tuple(rows),
        note=(
            "HTTP overhead: (client's time - engine's time) / engine's time, median; the engine's time is from "
            "submission to the end of its last step. Both are durations, each of its own clock."
        ),
    )


def left_table(cells: Sequence[Cell], model: ModelSettings) -> Table:
    """How soon a cancel was handled, and what the next request felt of it."""
    rows: list[tuple[Value, ...]] = []
    for cell in (each for each in cells if each.kind == "left"):
        beyond = [steps for each in cell.left if (steps := _steps_beyond(cell, each.life)) is not None]
        waits = samples(_wait_ms(each.probe) for each in cell.left)
        decode = decode_step_ms(cell)
        rows.append((
            cell.placement,
            len(cell.left),
            sum(each.probe.outcome is Outcome.LENGTH for each in cell.left),
            rounded(median(beyond)),
            max(beyond, default=None),
            rounded(decode),
            rounded(prefill_step_ms(cell)),
            rounded(waits.p50),
            rounded(waits.most),
            rounded(ratio(waits.most, decode)),
            max((each.looks for each in cell.left), default=None),
        ))  # fmt: skip
    return Table(
        title="Streams that their client left, each followed by a probe for one token",
        label=http_label(model),
        heads=(
            "placement", "streams", "probes answered", "decode steps until handled, p50", "max", "decode step, ms",
            "prefill step, ms", "probe p50, ms", "probe max, ms", "probe max / decode step", "looks at the door, max",
        ),
        rows=tuple(rows),
        note=(
            "Decode steps until handled: tokens that the engine made for a stream beyond those its client had read "
            "when it left; a count, so that no two clocks are compared."
        ),
    )  # fmt: skip


def _overhead(cell: Cell) -> float | None:
    """The median share that HTTP adds to the engine's own time."""
    shares = [
        (_wait_ms(life) - inside) / inside
        for life in cell.lives
        if (row := cell.log.of(life.request_id)) is not None and (inside := _inside_ms(row)) > 0
    ]
    return median(shares)


def _inside_ms(row: ServerRequestRow) -> float:
    return (row.completion_us - row.submit_us) / US_PER_MS


def _steps_beyond(cell: Cell, life: ClientLife) -> int | None:
    row = cell.log.of(life.request_id)
    return None if row is None else row.n_decoded - sum(life.chunk_tokens)
