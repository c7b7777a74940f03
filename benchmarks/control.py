"""What choosing and predicting cost: 16 sequences run, 1,000 requests wait, under every policy.

    python benchmarks/control.py --profile FILE [--model REF] [--json FILE]

MICROBENCHMARK: the scheduler and the step control of an engine, without a model; each step's plan, prediction, commit
and what the cost model learns from it, in the time of this machine, against what the steps take by the cost profile.
MEASURED: a decode step of 16 sequences on the model, the shortest that such an engine has; steps in which nothing was
prefilled are held against it.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
from engine import step_overhead
from machine import machine_facts, refuse_busy_machine

from arriero.backend.library import process_start
from arriero.backend.llama_model import LlamaModel
from arriero.backend.models import resolve_model
from arriero.backend.protocol import BackendLimits
from arriero.core.choices import PolicyWord
from arriero.core.events import Event, Finished
from arriero.core.ids import RequestId, Time
from arriero.core.plan import BatchPlan, Sampled
from arriero.core.request import GREEDY, Request
from arriero.costmodel.calibrated import CalibratedCost
from arriero.engine.building import build_scheduler
from arriero.engine.options import EngineOptions
from arriero.engine.step_control import Measured, StepControl, build_control, build_interrupter
from arriero.kv.reuse import ReuseRules
from arriero.record.cost_profile import cost_of, read_cost_profile
from arriero.scheduler.policy_spec import PolicySpec
from arriero.scheduler.scheduler import Scheduler

SEQUENCES = 16
WAITING = 1000
STEPS = 3000
WARM_STEPS = 200
TARGET_MS = 100.0
SPREAD = 0.05  # of the pretended step times about their prediction
ANSWER = 7  # what every row's next token is
SHARED = 40  # tokens that a tenth of the prompts begin with, so that prefixes are looked for and found
TENANTS = 8
PARTS = ("plan", "predict", "commit", "learn")

LIMITS = BackendLimits(
    num_sequences=SEQUENCES + 8,
    num_rows=512,
    micro_batch=512,
    num_cells=(SEQUENCES + 8) * 2048,
    sequence_limit=2048,
    unified=False,
    vocab_size=49_152,
)


@dataclass
class Asks:
    """Requests without end, of a seed: lengths, tenants, urgency and deadlines by chance."""

    rng: Random
    number: int = 0

    def next(self, now: Time) -> Request:
        """The next one."""
        rng, self.number = self.rng, self.number + 1
        shared = [5] * SHARED if rng.random() < 0.1 else []
        own = [rng.randrange(1000, 40_000) for _ in range(rng.randint(16, 256))]
        return Request(
            request_id=RequestId(self.number),
            prompt=shared + own,
            max_tokens=rng.randint(16, 128),
            arrival_at=now,
            cache_scope="all",
            priority=rng.randint(-3, 3),
            deadline_at=now + rng.randint(10, 600) * 1_000_000,
            tenant=f"tenant {rng.randrange(TENANTS)}",
        )


class StepTimes(NamedTuple):
    """Nanoseconds of one step's parts; what the step takes, in microseconds; whether it only decodes."""

    plan: int
    predict: int
    commit: int
    learn: int
    took: int
    only_decodes: bool

    @property
    def whole(self) -> int:
        """All parts."""
        return self.plan + self.predict + self.commit + self.learn


@dataclass
class Bench:
    """A scheduler and its step control, driven through steps that nobody computes."""

    scheduler: Scheduler
    control: StepControl
    asks: Asks
    rng: Random
    now: Time = 1

    def step(self) -> StepTimes:
        """One step, and new requests in the places of those that ended."""
        began = time.perf_counter_ns()
        plan = self.scheduler.plan(self.now)
        planned = time.perf_counter_ns()
        _, foreseen = self.control.begin(plan, self.now, self.now)
        predicted = time.perf_counter_ns()
        took = round((foreseen.predicted or 1) * (1 + SPREAD * self.rng.uniform(-1, 1)))
        outcome, self.now = answers(plan), self.now + took
        answered = time.perf_counter_ns()
        events = self.scheduler.commit(outcome, self.now)
        committed = time.perf_counter_ns()
        self.control.end(foreseen, Measured(plan, outcome, self.now, took, 1))
        change = self.control.due(self.now)
        learned = time.perf_counter_ns()
        if change is not None:
            self.scheduler.recalibrate(change, self.now)
            self.control.apply(change)
        self.ask(ended(events))
        parts = (planned - began, predicted - planned, committed - answered, learned - committed)
        return StepTimes(*parts, took, not plan.shape.prefill_rows)

    def ask(self, number: int) -> None:
        """So many new requests."""
        for _ in range(number):
            self.scheduler.submit(self.asks.next(self.now), self.now)


def overhead(word: PolicyWord, cost: CalibratedCost, num_steps: int = STEPS) -> dict[str, float]:
    """What a step spends on choosing and predicting, with `WAITING` requests that wait at every moment."""
    options = EngineOptions(
        backlog=None,
        retained=LIMITS.num_sequences - SEQUENCES,
        reuse=ReuseRules(),
        cost=cost,
        itl_target_ms=TARGET_MS,
        policy=PolicySpec(word=word.value),
    )
    bench = Bench(
        scheduler=build_scheduler(LIMITS, options, num_preloaded=0),
        control=build_control(options, build_interrupter(lambda: None, options)),
        asks=Asks(Random(2)),
        rng=Random(1),
    )
    bench.ask(SEQUENCES + WAITING)
    return figures([bench.step() for _ in range(num_steps)][WARM_STEPS:])


def figures(steps: Sequence[StepTimes]) -> dict[str, float]:
    """Means in microseconds, and the 99th percentile of the whole; the mean has every step's share in it."""
    wholes = [step.whole for step in steps]
    decoding = [step.whole for step in steps if step.only_decodes]
    parts = {name: [getattr(step, name) for step in steps] for name in PARTS}
    return {
        **{f"{name}_us": statistics.mean(values) / 1000 for name, values in parts.items()},
        "all_us": statistics.mean(wholes) / 1000,
        "all_p99_us": sorted(wholes)[len(wholes) * 99 // 100] / 1000,
        "step_us": statistics.mean(step.took for step in steps),
        "share": sum(wholes) / 1000 / sum(step.took for step in steps),
        "decode_steps": len(decoding),
        "decode_us": statistics.mean(decoding) / 1000 if decoding else 0.0,
    }


def answers(plan: BatchPlan) -> Sampled:
    """The same next token for every row that wants one."""
    return Sampled(tokens={row.sequence_id: ANSWER for row in plan.rows if row.wants_logits})


def ended(events: Sequence[Event]) -> int:
    """Requests that are to be replaced."""
    return sum(isinstance(event, Finished) for event in events)


def main() -> int:
    """Print the table, and write it if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", type=Path, required=True)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if (busy := refuse_busy_machine()) is not None:
        print(busy, file=sys.stderr)
        return 1
    process_start()
    cost = cost_of(read_cost_profile(arguments.profile))
    model = LlamaModel(resolve_model(arguments.model), num_gpu_layers=0)
    facts = machine_facts()
    step = step_overhead(model, SEQUENCES, GREEDY)
    for name, value in facts.items():
        print(f"{name}: {value}")
    print(f"\nMEASURED: a decode step of {SEQUENCES} sequences takes {step['step_us'] / 1000:.2f} ms\n")
    print(f"MICROBENCHMARK: {SEQUENCES} run, {WAITING:,} wait, target {TARGET_MS:.0f} ms; means in us\n")
    print(f"| policy | {' | '.join(PARTS)} | all | p99 | mean step, ms | all / step | decoding only | / step |")
    print("| --- |" + " ---: |" * 10)
    rows = {}
    for word in PolicyWord:
        row = rows[word.value] = overhead(word, cost)
        row["decode_share"] = row["decode_us"] / step["step_us"]
        print(
            f"| {word.value} | {row['plan_us']:.0f} | {row['predict_us']:.0f} | {row['commit_us']:.0f} "
            f"| {row['learn_us']:.0f} | {row['all_us']:.0f} | {row['all_p99_us']:.0f} | {row['step_us'] / 1000:.1f} "
            f"| {row['share']:.2%} | {row['decode_us']:.0f} | {row['decode_share']:.2%} |",
            flush=True,
        )
    if arguments.json is not None:
        command = " ".join(sys.argv)
        result = {"machine": facts, "model": arguments.model, "command": command, "step": step, "policies": rows}
        arguments.json.write_text(json.dumps(result, indent=2, default=str) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
