"""Do `arriero lab bench` through the binding and llama-bench tell the same of one key?

    python benchmarks/executors.py --llama-bench PATH --model FILE.gguf [--rounds 12] [--json FILE]

END-TO-END: whole processes, a fresh one for each run. Every round runs the worker twice and llama-bench once, in an
order drawn by chance; the worker against itself is the noise floor that the two are held against.

Where glibc's malloc puts llama.cpp's buffers depends on what the process allocated before, and moves a prompt's rate by
up to a fifth; `--same-layout` has both programs map each large buffer by itself, wherever it comes in their lives.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
from machine import machine_facts, refuse_busy_machine

from arriero.core.errors import ArrieroError, DataError
from arriero.lab.matrix.executors import Executor, Settings
from arriero.lab.matrix.in_process import InProcess
from arriero.lab.matrix.llama_bench import find_llama_bench
from arriero.metrics.paired import compare_pairs, noise_floor
from arriero.metrics.paired_verdict import NoiseFloor, PairedVerdict
from arriero.record.cpu_lab.matrix import MatrixCase

SETTINGS = Settings(mmap=True, cpu_only=True, flash_attention="auto")
TIMEOUT_S = 120.0
SEED = 8081
SAME_LAYOUT = "glibc.malloc.mmap_threshold=131072"
"""A threshold that is given does not grow with the blocks that are freed, as glibc's own does."""

WARM_ROUNDS = 1
KEYS = ((1, 128), (1, 512), (2, 128), (2, 512))
"""Threads and prompt tokens of the baseline."""


class Speeds(NamedTuple):
    """Tokens a second of one process."""

    prompt: float
    generation: float


class Found(NamedTuple):
    """One metric of one key.

    Attributes:
        metric: `prompt` or `generation`.
        floor: the worker against itself.
        verdict: llama-bench against the worker.
        within: whether the median ratio lies within the floor.
    """

    metric: str
    floor: NoiseFloor
    verdict: PairedVerdict
    within: bool


def case_of(threads: int, prompt_tokens: int) -> MatrixCase:
    """A case of the baseline."""
    return MatrixCase(
        threads=threads, prompt_tokens=prompt_tokens, generated_tokens=64, batch_size=2048, context_size=1024
    )


def speeds(executor: Executor, model: str, case: MatrixCase) -> Speeds:
    """Run one process.

    Raises:
        DataError: it failed, or left one of the figures out.
    """
    finished = executor.run(executor.command(model, case), TIMEOUT_S)
    if finished.return_code != 0:
        raise DataError(f"{executor.kind} ended with status {finished.return_code}: {finished.stderr[-300:]}")
    results = executor.read(finished, case).results
    prompt = next((r.prompt_tokens_per_second for r in results if r.prompt_tokens_per_second), None)
    generation = next((r.generation_tokens_per_second for r in results if r.generation_tokens_per_second), None)
    if prompt is None or generation is None:
        raise DataError(f"{executor.kind} told no rate of one phase")
    return Speeds(prompt, generation)


def measure(sides: Mapping[str, Executor], model: str, case: MatrixCase, rounds: int) -> list[dict[str, Speeds]]:
    """Rounds of all sides; the first ones are left out."""
    rng = Random(f"{SEED} {case.case_id}")
    found: list[dict[str, Speeds]] = []
    for _ in range(rounds + WARM_ROUNDS):
        names = list(sides)
        rng.shuffle(names)
        found.append({name: speeds(sides[name], model, case) for name in names})
    return found[WARM_ROUNDS:]


def judge(rounds: list[dict[str, Speeds]]) -> Iterator[Found]:
    """The two metrics of one key."""
    for metric in Speeds._fields:
        worker, again, program = (
            [getattr(each[side], metric) for each in rounds] for side in ("worker", "again", "program")
        )
        floor = noise_floor(list(zip(worker, again, strict=True)), seed=SEED)
        pairs = list(zip(worker, program, strict=True))
        verdict = compare_pairs(pairs, floor=floor.value, seed=SEED, higher_is_better=True)
        ratio = verdict.median_ratio or 0.0
        yield Found(metric, floor, verdict, 1 / (1 + floor.value) <= ratio <= 1 + floor.value)


def main() -> int:
    """Print the table, and write it if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--llama-bench", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--same-layout", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if (busy := refuse_busy_machine()) is not None:
        print(busy, file=sys.stderr)
        return 1
    try:
        return run(arguments)
    except ArrieroError as error:
        print(error, file=sys.stderr)
        return 2


def run(arguments: argparse.Namespace) -> int:
    """Measure every key."""
    if arguments.same_layout:
        os.environ["GLIBC_TUNABLES"] = SAME_LAYOUT  # of the processes that are started
    worker = InProcess(settings=SETTINGS, library={})
    program = find_llama_bench(arguments.llama_bench, SETTINGS)
    sides: dict[str, Executor] = {"worker": worker, "again": worker, "program": program}
    facts = machine_facts()
    for name, value in facts.items():
        print(f"{name}: {value}")
    print(f"\nEND-TO-END: llama-bench / the worker, medians of {arguments.rounds} interleaved rounds\n")
    print("| threads | prompt | metric | worker tok/s | llama-bench / worker | 95 % | noise floor | within |")
    print("| ---: | ---: | --- | ---: | ---: | --- | ---: | --- |")
    raw: dict[str, object] = {}
    for threads, prompt_tokens in KEYS:
        case = case_of(threads, prompt_tokens)
        rounds = measure(sides, arguments.model, case, arguments.rounds)
        raw[case.case_id] = [{name: each._asdict() for name, each in one.items()} for one in rounds]
        for found in judge(rounds):
            print(_row(threads, prompt_tokens, found), flush=True)
    if arguments.json is not None:
        command = " ".join(sys.argv)
        result = {"machine": facts, "command": command, "library": dict(program.library), "rounds": raw}
        arguments.json.write_text(json.dumps(result, indent=2, default=str) + "\n")
    return 0


def _row(threads: int, prompt_tokens: int, found: Found) -> str:
    verdict, side = found.verdict, found.verdict.a
    speed = "-" if side is None else f"{side.median:.1f}"
    interval = "-" if verdict.low is None or verdict.high is None else f"{verdict.low:.3f} ... {verdict.high:.3f}"
    return (
        f"| {threads} | {prompt_tokens} | {found.metric} | {speed} | {verdict.median_ratio or 0:.3f} | {interval} "
        f"| {found.floor.value:.1%} | {'yes' if found.within else 'no'} |"
    )


if __name__ == "__main__":
    sys.exit(main())
