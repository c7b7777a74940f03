"""What the engine adds to llama.cpp: the time of a step outside the decode call, and memory over many requests.

    python benchmarks/engine.py [--model REF] [--json FILE]

MEASURED. Every figure is of whole steps of a running engine, as its observers see them: from the begin of one step to
the begin of the next, less the decode call.
"""

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from machine import machine_facts, refuse_busy_machine

from arriero.backend.context import ContextOptions
from arriero.backend.library import process_start
from arriero.backend.llama_cpp import LlamaCppBackend
from arriero.backend.llama_model import LlamaModel
from arriero.backend.models import resolve_model
from arriero.core.config import FlashAttention
from arriero.core.ids import Time
from arriero.core.plan import Sampled
from arriero.core.request import GREEDY, Request, SamplingParams
from arriero.engine.engine import Engine
from arriero.engine.handle import Result
from arriero.engine.observer import EngineSummary, StepRecord
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated
from arriero.kv.cells import CellLayout, CellManager
from arriero.scheduler.planners import DecodeFirst
from arriero.scheduler.policies import FirstComeFirstServed
from arriero.scheduler.scheduler import Scheduler, SchedulerLimits

SEQUENCES = (1, 4, 8, 16)
PROMPT_TOKENS = 32
OUTPUT_TOKENS = 120
STOCHASTIC = SamplingParams(temperature=0.8, top_k=40, top_p=0.95, seed=7)


@dataclass
class StepTimes:
    """Observer: begin and decode time of each step that only decoded."""

    num_running: int
    steps: list[tuple[Time, int]] = field(default_factory=list)

    def on_start(self, at: Time) -> None:
        """Nothing to note."""

    def on_step(self, record: StepRecord) -> None:
        """Note a step in which every sequence had one decode row."""
        full = record.plan.shape.decode_rows == self.num_running and not record.plan.shape.prefill_rows
        self.steps.append((record.began_at, record.decode_us if full else -1))

    def on_end(self, result: Result) -> None:
        """Nothing to note."""

    def on_close(self, summary: EngineSummary) -> None:
        """Nothing to note."""

    def outside(self) -> list[tuple[float, float]]:
        """(step, outside the decode call) in microseconds, for consecutive full steps."""
        pairs = zip(self.steps, self.steps[1:], strict=False)
        return [
            (float(second[0] - first[0]), float(second[0] - first[0] - first[1]))
            for first, second in pairs
            if first[1] > 0 and second[1] > 0
        ]


@contextmanager
def running(model: LlamaModel, num_sequences: int, observers: Sequence[StepTimes] = ()) -> Iterator[Engine]:
    """An engine on its own thread, closed at the end of the block."""
    options = ContextOptions(
        ctx_size=num_sequences * 512,
        num_sequences=num_sequences,
        num_rows=512,
        micro_batch=512,
        unified=False,
        flash_attention=FlashAttention.ON,
    )
    backend = LlamaCppBackend(model, options)
    engine = Engine(backend, EngineOptions(), observers=observers)
    engine.start(Dedicated())
    try:
        yield engine
    finally:
        engine.shutdown()
        engine.join()
        backend.close()


def step_overhead(model: LlamaModel, num_sequences: int, sampling: SamplingParams) -> dict[str, float]:
    """Median step and median time outside the decode call, in microseconds, and their ratio."""
    times = StepTimes(num_sequences)
    with running(model, num_sequences, [times]) as engine:
        handles = [
            engine.submit(prompt(index), OUTPUT_TOKENS, sampling=sampling, end_tokens=frozenset())
            for index in range(num_sequences)
        ]
        for handle in handles:
            handle.wait()
    outside = times.outside()
    step_us = statistics.median(step for step, _ in outside)
    outside_us = statistics.median(rest for _, rest in outside)
    return {"steps": len(outside), "step_us": step_us, "outside_us": outside_us, "share": outside_us / step_us}


def plan_and_commit(num_sequences: int, num_steps: int = 2000) -> float:
    """Median microseconds of `plan` + `commit` with every sequence decoding; MICROBENCHMARK."""
    layout = CellLayout(num_sequences=num_sequences, num_cells=1 << 16, sequence_limit=4096, unified=False)
    scheduler = Scheduler(
        kv=CellManager(layout),
        planner=DecodeFirst(),
        policy=FirstComeFirstServed(),
        limits=SchedulerLimits(num_rows=512),
    )
    for index in range(num_sequences):
        scheduler.submit(Request(request_id=index, prompt=(1,) * 20, max_tokens=4000, arrival_at=0), 0)
    samples: list[int] = []
    for now in range(1, num_steps):
        began = time.perf_counter_ns()
        plan = scheduler.plan(now)
        planned = time.perf_counter_ns()
        outcome = Sampled(tokens={row.sequence_id: 7 for row in plan.rows})
        answered = time.perf_counter_ns()
        scheduler.commit(outcome, now)
        samples.append(planned - began + time.perf_counter_ns() - answered)
    return statistics.median(samples[10:]) / 1000


def memory(model: LlamaModel, early: int = 200, late: int = 2000) -> dict[str, float]:
    """Resident memory in MiB after `early` and after `late` short requests on 8 sequences."""
    figures: dict[str, float] = {}
    with running(model, 8) as engine:
        done = 0
        for goal in (early, late):
            serve_all(engine, range(done, goal))
            done = goal
            gc.collect()
            figures[f"after {goal} requests"] = resident_mib()
    figures["ratio"] = figures[f"after {late} requests"] / figures[f"after {early} requests"]
    return figures


def serve_all(engine: Engine, numbers: range, at_once: int = 40) -> None:
    """Serve one short request for each number, `at_once` at a time."""
    for start in range(numbers.start, numbers.stop, at_once):
        burst = range(start, min(start + at_once, numbers.stop))
        for handle in [engine.submit(prompt(number), 4, want_stream=True) for number in burst]:
            handle.wait()


def resident_mib() -> float:
    """Resident set of this process."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def prompt(index: int) -> list[int]:
    """Token ids that no other index shares from the first on."""
    return [1000 + index % 40_000, *(2000 + (index * 31 + k * 7) % 40_000 for k in range(PROMPT_TOKENS - 1))]


def main() -> int:
    """Print the table, and write it if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if (busy := refuse_busy_machine()) is not None:
        print(busy, file=sys.stderr)
        return 1
    process_start()
    facts = machine_facts()
    model = LlamaModel(resolve_model(arguments.model), num_gpu_layers=0)
    result: dict[str, object] = {"machine": facts, "model": arguments.model, "command": " ".join(sys.argv)}
    for name, value in facts.items():
        print(f"{name}: {value}")
    print("\nMEASURED: a step outside llama_decode\n\n| sequences | sampling | step ms | outside us | share |")
    print("| ---: | --- | ---: | ---: | ---: |")
    for label, sampling in (("greedy", GREEDY), ("top-k 40", STOCHASTIC)):
        for num_sequences in SEQUENCES:
            row = step_overhead(model, num_sequences, sampling)
            result[f"{label} {num_sequences}"] = row
            print(
                f"| {num_sequences} | {label} | {row['step_us'] / 1000:.2f} | {row['outside_us']:.0f} "
                f"| {row['share']:.2%} |",
                flush=True,
            )
    result["plan_and_commit_us"] = {n: plan_and_commit(n) for n in SEQUENCES}
    print(f"\nMICROBENCHMARK: plan + commit, us by sequences: {result['plan_and_commit_us']}")
    result["memory_mib"] = memory(model)
    print(f"MEASURED: resident MiB: {result['memory_mib']}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(result, indent=2, default=str) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
