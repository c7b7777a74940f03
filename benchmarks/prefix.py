"""What prefix reuse and exact mode cost where nothing is shared.

    python benchmarks/prefix.py [--model FILE.gguf] [--rounds 6] [--only tree|exact] [--json FILE]

MEASURED, in process, rounds interleaved. Unique prompts of 120 tokens, 64 output tokens, a closed loop of 8.

    tree    a step outside of the decode call with reuse on, less that with reuse off, as a share of the whole step
    exact   output tokens a second in exact mode, as a share of fast mode's with its own defaults
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from machine import machine_facts, refuse_busy_machine

from arriero.backend.context import ContextOptions
from arriero.backend.library import process_start
from arriero.backend.llama_cpp import LlamaCppBackend
from arriero.backend.llama_model import LlamaModel
from arriero.backend.models import resolve_model
from arriero.bench.ask import Ask
from arriero.bench.experiments.holes_load import tokens_per_s
from arriero.bench.experiments.steps import StepLog
from arriero.bench.in_process import InProcessTarget
from arriero.core.config import RETAINED_UNIFIED, FlashAttention
from arriero.engine.engine import Engine
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated
from arriero.kv.reuse import ReuseRules
from arriero.metrics.client_life import ClientLife

CLIENTS = 8
PROMPT_TOKENS = 120
OUTPUT_TOKENS = 64
SLOT_TOKENS = 256
TREE_SHARE = 0.01
EXACT_SHARE = 0.8


@dataclass(frozen=True, kw_only=True)
class Side:
    """One way of serving."""

    name: str
    engine: EngineOptions
    unified: bool = False
    retained: int = 0
    flash_attention: FlashAttention = FlashAttention.AUTO


@dataclass(frozen=True, kw_only=True)
class Load:
    """One round of one side; microseconds are means over steps with rows."""

    tokens_per_s: float
    step_us: float
    outside_us: float


def sides_of(question: str) -> list[list[Side]]:
    """The pairs: first what is compared with, then what is asked about."""
    if question == "exact":
        fast = Side(name="fast", engine=EngineOptions())
        exact = Side(name="exact", engine=EngineOptions(exact=True), flash_attention=FlashAttention.OFF)
        return [[fast, exact]]
    pairs: list[list[Side]] = []
    for unified in (False, True):
        layout = "unified" if unified else "separate"
        retained = RETAINED_UNIFIED if unified else 0
        off = Side(name=f"{layout}, reuse off", engine=EngineOptions(), unified=unified)
        on = Side(
            name=f"{layout}, reuse on",
            engine=EngineOptions(reuse=ReuseRules(), retained=retained),
            unified=unified,
            retained=retained,
        )
        pairs.append([off, on])
    return pairs


def load(model: LlamaModel, side: Side, requests: int, number: int) -> Load:
    """One round on a fresh context."""
    cells = CLIENTS * SLOT_TOKENS * (4 if side.retained else 1)
    options = ContextOptions(
        ctx_size=cells,
        num_sequences=CLIENTS + side.retained,
        num_rows=512,
        micro_batch=512,
        unified=side.unified,
        flash_attention=side.flash_attention,
    )
    log = StepLog()
    backend = LlamaCppBackend(model, options)
    engine = Engine(backend, side.engine, observers=[log])
    engine.start(Dedicated())
    try:
        lives = asyncio.run(closed_loop(engine, asks(requests, number)))
    finally:
        engine.shutdown()
        engine.join()
        backend.close()
    computed = log.computed()
    wall = [record.ended_at - record.began_at for record in computed]
    outside = [record.ended_at - record.began_at - record.decode_us for record in computed]
    speed = tokens_per_s(lives)
    assert speed is not None, "requests were sent"
    return Load(tokens_per_s=speed, step_us=statistics.fmean(wall), outside_us=statistics.fmean(outside))


def asks(requests: int, number: int) -> list[Ask]:
    """Prompts that begin unlike one another, in no two rounds the same."""
    rng = random.Random(f"unique {number}")
    firsts = rng.sample(range(1000, 31_000), requests)
    return [
        Ask(
            request_id=f"{number}-{index}",
            prompt=(first, *rng.choices(range(1000, 31_000), k=PROMPT_TOKENS - 1)),
            max_tokens=OUTPUT_TOKENS,
            fields={"ignore_eos": True},
        )
        for index, first in enumerate(firsts)
    ]


async def closed_loop(engine: Engine, every: Sequence[Ask]) -> list[ClientLife]:
    """Each client sends one after the other."""
    target = InProcessTarget(engine)
    waiting = iter(every)
    lives: list[ClientLife] = []

    async def client() -> None:
        for ask in waiting:
            lives.append(await target.ask(ask, None))  # noqa: PERF401 - they take turns

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return lives


def measure(model: LlamaModel, pair: Sequence[Side], rounds: int, requests: int) -> dict[str, Any]:
    """All rounds of a pair; every second one the other way round."""
    loads: dict[str, list[Load]] = {side.name: [] for side in pair}
    for side in pair:
        load(model, side, CLIENTS, -1)  # warm-up
    for number in range(rounds):
        for side in pair if number % 2 == 0 else pair[::-1]:
            loads[side.name].append(load(model, side, requests, number))
    base, asked = (loads[side.name] for side in pair)
    return {
        "sides": [side.name for side in pair],
        "tokens_per_s": [statistics.median(one.tokens_per_s for one in each) for each in (base, asked)],
        "outside_us": [statistics.median(one.outside_us for one in each) for each in (base, asked)],
        "step_us": [statistics.median(one.step_us for one in each) for each in (base, asked)],
        "speeds": [b.tokens_per_s / a.tokens_per_s for a, b in zip(base, asked, strict=True)],
        "shares": [(b.outside_us - a.outside_us) / a.step_us for a, b in zip(base, asked, strict=True)],
    }


def tell(question: str, found: dict[str, Any]) -> bool:
    """One row of the table; whether the goal is reached."""
    values = found["shares" if question == "tree" else "speeds"]
    figure = statistics.median(values)
    holds = figure < TREE_SHARE if question == "tree" else figure >= EXACT_SHARE
    base, asked = found["sides"]
    (a_speed, b_speed), (a_out, b_out) = found["tokens_per_s"], found["outside_us"]
    print(
        f"| {question} | {asked} / {base} | {b_speed:.1f} / {a_speed:.1f} | {b_out:.0f} / {a_out:.0f} "
        f"| {figure:.4f} ({min(values):.4f} ... {max(values):.4f}) | {'reached' if holds else 'MISSED'} |",
        flush=True,
    )
    return holds


def main() -> int:
    """Print the table, and write it if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--requests", type=int, default=32, help="of a round")
    parser.add_argument("--only", choices=["tree", "exact"])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if (busy := refuse_busy_machine()) is not None:
        print(busy, file=sys.stderr)
        return 1
    process_start()
    facts = machine_facts()
    print("\n".join(f"{name}: {value}" for name, value in facts.items()))
    model = LlamaModel(resolve_model(arguments.model), num_gpu_layers=0)
    print("\nMEASURED\n\n| question | sides | tok/s | outside decode us | median (min ... max) | goal |")
    print("| --- | --- | ---: | ---: | --- | --- |")
    results: list[dict[str, Any]] = []
    reached = True
    for question in ("tree", "exact"):
        if arguments.only not in {None, question}:
            continue
        for pair in sides_of(question):
            found = measure(model, pair, arguments.rounds, arguments.requests)
            reached = tell(question, found) and reached
            results.append({"question": question, **found})
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"machine": facts, "results": results}, indent=2, default=str) + "\n")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
