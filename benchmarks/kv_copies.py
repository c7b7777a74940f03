"""What it costs to give a sequence the first tokens of another one, or of a saved run.

    python benchmarks/kv_copies.py [--model REF] [--tokens 100,900,1900] [--cells 2048,8192] [--rounds 15] [--json FILE]

MEASURED. A context for each way to copy, all of them at once over one model; rounds in which every way, length and
number of takers comes once, in an order that changes with the round. Timed are the operation and the next decode call
of one row, since llama.cpp's own copy between streams happens inside that call; a round without any copy says what the
call costs by itself. Medians, and the distance between the quartiles behind them.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from machine import machine_facts, refuse_busy_machine

from arriero.backend.context import ContextOptions, CopyChoice
from arriero.backend.host_store import HostStoreOptions
from arriero.backend.library import process_start
from arriero.backend.llama_cpp import LlamaCppBackend
from arriero.backend.llama_model import LlamaModel
from arriero.backend.models import resolve_model
from arriero.backend.run_files import read_payload, write_run
from arriero.core.config import FlashAttention
from arriero.core.events import (
    CopySequence,
    DropSequence,
    ForgetSaved,
    KvOp,
    RestoreSequence,
    SaveSequence,
    TrimSequence,
)
from arriero.core.ids import RequestId, SavedKey, SequenceId
from arriero.core.plan import DecodeRow, PrefillChunk
from arriero.core.request import Request

SOURCE, TAKERS = SequenceId(0), (1, 4)
NUM_SEQUENCES = 1 + max(TAKERS)
WHOLE, AGAIN = SavedKey(1), SavedKey(2)
MS = 1e6
NONE, SAVE, RESTORE, RESTORE_FILE = "nothing", "save", "restore from memory", "read a file back and check it"


@dataclass(frozen=True)
class Cell:
    """One thing that is measured in every round."""

    way: str
    layout: str
    cells: int
    tokens: int
    what: str
    takers: int = 1


Samples = dict[Cell, dict[str, list[float]]]


class Bench:
    """One context with a prompt computed once and saved, so that every length of it is there in a moment."""

    def __init__(self, model: LlamaModel, way: str, options: ContextOptions, tokens: list[int]) -> None:
        """Compute the longest prompt; `prefill_ms` is what that took."""
        self.way = way
        self.layout = "unified" if options.unified else "separate"
        self.cells = options.ctx_size // (1 if options.unified else options.num_sequences)
        self.backend = LlamaCppBackend(model, options, HostStoreOptions(max_bytes=4 << 30))
        length = max(tokens)
        self.tokens = tokens
        self.prompt = tuple(1000 + (31 * i) % 20_000 for i in range(length))
        self.request = Request(request_id=RequestId(1), prompt=self.prompt, max_tokens=9, arrival_at=0)
        began = time.perf_counter_ns()
        for start in range(0, length, options.num_rows):
            chunk = self.prompt[start : start + options.num_rows]
            self.backend.decode([PrefillChunk(self.request, SOURCE, start, chunk, wants_logits=False)])
        self.prefill_ms = (time.perf_counter_ns() - began) / MS
        self.must(SaveSequence(SOURCE, WHOLE, length, "bench", self.prompt))

    def must(self, op: KvOp) -> None:
        """Apply an operation that has to work."""
        if not self.backend.apply(op):
            message = f"{op} was refused"
            raise RuntimeError(message)

    def cells_to_measure(self) -> list[Cell]:
        """Copies to one and to several takers, saving, restoring, and nothing at all."""
        made: list[Cell] = []
        for tokens in self.tokens:
            one = Cell(self.way, self.layout, self.cells, tokens, "copy")
            made += [replace(one, takers=takers) for takers in TAKERS]
            made += [replace(one, what=what) for what in (NONE, SAVE, RESTORE)]
        return made

    def measure(self, cell: Cell, samples: Samples) -> None:
        """Bring the source to its length and to steady decoding, then time the operation and the next call."""
        for each in range(NUM_SEQUENCES):
            self.must(DropSequence(SequenceId(each)))
        self.must(RestoreSequence(SOURCE, WHOLE, cell.tokens))
        self.decode_ms(cell.tokens)
        takers = [SequenceId(1 + number) for number in range(cell.takers)]
        ops: dict[str, list[KvOp]] = {
            "copy": [CopySequence(SOURCE, taker, cell.tokens) for taker in takers],
            NONE: [],
            SAVE: [SaveSequence(SOURCE, AGAIN, cell.tokens)],
            RESTORE: [RestoreSequence(takers[0], AGAIN, cell.tokens)],
        }
        if cell.what == RESTORE:
            self.must(SaveSequence(SOURCE, AGAIN, cell.tokens))
        began = time.perf_counter_ns()
        for op in ops[cell.what]:
            self.must(op)
        op_ms = (time.perf_counter_ns() - began) / MS
        decode_ms = self.decode_ms(cell.tokens)
        self.must(ForgetSaved(AGAIN))
        samples[cell]["operation"].append(op_ms)
        samples[cell]["next call"].append(decode_ms)
        samples[cell]["both"].append(op_ms + decode_ms)

    def decode_ms(self, position: int) -> float:
        """One row on the source, taken back afterwards."""
        began = time.perf_counter_ns()
        self.backend.decode([DecodeRow(self.request, SOURCE, position, 5)])
        spent = time.perf_counter_ns() - began
        self.must(TrimSequence(SOURCE, position))
        return spent / MS


def measure_file(bench: Bench, folder: Path, rounds: int, samples: Samples) -> None:
    """Reading a run file back, its pages being in the system's cache."""
    store = bench.backend.store
    payload = None if store is None else store.load(WHOLE)
    if payload is None:
        raise RuntimeError("the saved prompt is gone")
    cell = Cell("file", bench.layout, bench.cells, len(bench.prompt), RESTORE_FILE)
    found = write_run(folder / "run.kv", "bench", "bench", bench.prompt, payload)
    for _ in range(rounds):
        samples[cell]["operation"].append(timed_ms(lambda: read_payload(found)))


def timed_ms(call: Callable[[], object]) -> float:
    """How long a call takes."""
    began = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - began) / MS


def open_benches(model: LlamaModel, cells: int, tokens: list[int], stack: ExitStack) -> list[Bench]:
    """A context for each way to copy, with so many cells a stream; the pool has as many in all."""
    held = [each for each in tokens if each < cells]
    separate = ContextOptions(
        ctx_size=cells * NUM_SEQUENCES, num_sequences=NUM_SEQUENCES, flash_attention=FlashAttention.OFF
    )
    ways = {
        "state": separate,
        "stream": replace(separate, copy=CopyChoice.STREAM),
        "marks": replace(separate, unified=True, ctx_size=max(cells, (NUM_SEQUENCES + 1) * max(held))),
    }
    made: list[Bench] = []
    for way, options in ways.items():
        bench = Bench(model, way, options, held)
        stack.enter_context(closing(bench.backend))
        made.append(bench)
    return made


def run(model: LlamaModel, cells: int, tokens: list[int], rounds: int) -> tuple[Samples, dict[str, float]]:
    """All rounds of one size of streams."""
    samples: Samples = defaultdict(lambda: defaultdict(list))
    with ExitStack() as stack:
        benches = open_benches(model, cells, tokens, stack)
        prefill = {f"{bench.way}, {len(bench.prompt)} tokens": bench.prefill_ms for bench in benches}
        work = [(bench, cell) for bench in benches for cell in bench.cells_to_measure()]
        for number in range(rounds):
            random.Random(number).shuffle(work)
            for bench, cell in work:
                bench.measure(cell, samples)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        measure_file(benches[0], folder, rounds, samples)
    return samples, prefill


def spread(values: list[float]) -> str:
    """Median and distance of the quartiles."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.2f} ± {high - low:.2f}"


def rows_of(samples: Samples) -> Iterable[list[str]]:
    """The table, sorted so that what competes stands together."""
    order = sorted(samples.items(), key=lambda item: (item[0].cells, item[0].tokens, item[0].what, item[0].takers))
    for cell, times in order:
        figures = [spread(times[name]) if name in times else "-" for name in ("operation", "next call", "both")]
        yield [str(cell.cells), str(cell.tokens), cell.what, str(cell.takers), cell.way, cell.layout, *figures]


def main() -> int:
    """Print the table, and write it if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--tokens", default="100,900,1900")
    parser.add_argument("--cells", default="2048,8192")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if (busy := refuse_busy_machine()) is not None:
        print(busy, file=sys.stderr)
        return 1
    process_start()
    facts = machine_facts()
    model = LlamaModel(resolve_model(arguments.model), num_gpu_layers=0)
    tokens = [int(each) for each in arguments.tokens.split(",")]
    result: dict[str, object] = {"machine": facts, "model": arguments.model, "command": " ".join(sys.argv)}
    for name, value in facts.items():
        print(f"{name}: {value}")
    print("\nMEASURED: ms, median ± distance of the quartiles\n")
    heads = ["cells", "tokens", "what", "takers", "way", "layout", "operation", "next call", "both"]
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for cells in (int(each) for each in arguments.cells.split(",")):
        samples, prefill = run(model, cells, tokens, arguments.rounds)
        rows = list(rows_of(samples))
        print("\n".join(f"| {' | '.join(row)} |" for row in rows), flush=True)
        result[f"{cells} cells"] = {"columns": heads, "rows": rows, "prefill_ms": prefill}
        print(f"| {cells} | prefill, ms | {prefill} |", file=sys.stderr)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
