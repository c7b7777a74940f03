"""How fast the simulator is: whole processes of `arriero sim run --preset serving-lab`, with all reading and writing.

    python benchmarks/simulator.py [--counts 10000,100000] [--rows 10000] [--json FILE]

MEASURED. Two workloads: `chat` (the published generator, 12 ms apart on average, 4 sequences, 128 blocks) and
`saturated` (32 sequences, 1 ms apart on average, 2,048 blocks, prefix cache on). Request and summary rows are written;
what an iteration row costs is the difference between two runs of one workload, with iteration rows and without.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
from machine import machine_facts, refuse_busy_machine

COSTS = {
    "prefill_base_us": 100, "prefill_per_token_us": 8, "prefill_per_active_sequence_us": 5, "decode_base_us": 40,
    "decode_per_active_sequence_us": 12, "batch_base_us": 80, "batch_prefill_per_token_us": 5,
    "batch_decode_per_sequence_us": 10, "batch_active_sequence_overhead_us": 3,
}  # fmt: skip
LIMITS = {
    "chat": {"sequences": 4, "tokens": 512, "blocks": 128, "cache": False},
    "saturated": {"sequences": 32, "tokens": 2048, "blocks": 2048, "cache": True},
}


class Run(NamedTuple):
    """One process."""

    seconds: float
    peak_mib: float
    num_iterations: int
    out_mib: float


def generate(folder: Path, name: str, count: int) -> int:
    """Write a workload and its manifest; returns its seed."""
    if name == "chat":
        settings: dict[str, Any] = {
            "schema_version": "serving-workload-v1", "workload_class": "chat", "request_count": count,
            "seed": 20_260_719,
            "arrival": {"mode": "exponential", "mean_interval_us": 12_000, "start_time_us": 0},
        }  # fmt: skip
        (folder / "settings.json").write_text(json.dumps(settings))
        words = [str(folder / "settings.json")]
    else:
        words = ["saturated_chat", "--count", str(count)]
    process([sys.executable, "-m", "arriero", "workload", "generate", *words, "--out", str(folder / "w.jsonl")])
    seed: int = json.loads((folder / "w.manifest.json").read_text())["seed"]
    return seed


def configuration(name: str, seed: int) -> dict[str, Any]:
    """Of the preset `serving-lab`."""
    limits = LIMITS[name]
    return {
        "schema_version": "serving-benchmark-config-v1", "name": name, "evidence_type": "simulated",
        "execution_mode": "continuous_batching", "scheduling_policy": "DecodeFirst",
        "max_num_sequences": limits["sequences"], "max_batched_tokens": limits["tokens"],
        "kv_cache": {"total_blocks": limits["blocks"], "block_size_tokens": 16},
        "prefix_cache": {"enabled": limits["cache"], "namespace": "model", "salt": ""}, "backend": COSTS, "slos": {},
        "workload": {"path": "w.jsonl", "manifest_path": "w.manifest.json"}, "output_path": "f.jsonl", "run_seed": seed,
    }  # fmt: skip


def simulate(folder: Path, *, with_iterations: bool) -> Run:
    """One run of the workload in the folder."""
    out = folder / "f.jsonl"
    words = ["--config", str(folder / "c.json"), "--root", str(folder), "--out", str(out), "--force"]
    trace = "full" if with_iterations else "off"
    preset = ["sim", "run", "--preset", "serving-lab", "--trace", trace]
    seconds, peak_mib = process([sys.executable, "-m", "arriero", *preset, *words])
    with out.open("rb") as file:
        num_iterations = sum(b'"record_type":"iteration"' in line for line in file)
    return Run(seconds, peak_mib, num_iterations, out.stat().st_size / 2**20)


def process(words: list[str]) -> tuple[float, float]:
    """Run a command quietly; seconds and peak resident MiB."""
    began = time.perf_counter()
    pid = os.posix_spawn(
        words[0], words, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    )
    _, status, usage = os.wait4(pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{' '.join(words)} failed")
    return time.perf_counter() - began, usage.ru_maxrss / 1024


def measure(name: str, count: int, *, with_rows: bool) -> dict[str, Any]:
    """Both runs of one workload."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        seed = generate(folder, name, count)
        (folder / "c.json").write_text(json.dumps(configuration(name, seed)))
        without = simulate(folder, with_iterations=False)
        found: dict[str, Any] = {"workload": name, "requests": count, **without._asdict()}
        found.pop("num_iterations")
        if with_rows:
            rows = simulate(folder, with_iterations=True)
            found |= {
                "iteration_rows": rows.num_iterations,
                "seconds_with_rows": rows.seconds,
                "us_a_row": (rows.seconds - without.seconds) / rows.num_iterations * 1e6,
            }
    return found


def main() -> int:
    """Print the table, and write it if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", default="10000,100000", help="requests of a run")
    parser.add_argument("--rows", type=int, default=10_000, help="measure iteration rows up to so many requests")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if (busy := refuse_busy_machine()) is not None:
        print(busy, file=sys.stderr)
        return 1
    facts = machine_facts()
    for fact, value in facts.items():
        print(f"{fact}: {value}")
    print("\n| workload | requests | s | requests/s | peak MiB | iteration rows | us a row |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    runs: list[dict[str, Any]] = []
    for name in LIMITS:
        for count in map(int, arguments.counts.split(",")):
            run = measure(name, count, with_rows=count <= arguments.rows)
            runs.append(run)
            row_us = f"{run['us_a_row']:.1f}" if "us_a_row" in run else "-"
            print(
                f"| {name} | {count:,} | {run['seconds']:.2f} | {count / run['seconds']:,.0f} | {run['peak_mib']:.0f} "
                f"| {run.get('iteration_rows', '-')} | {row_us} |",
                flush=True,
            )
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"machine": facts, "runs": runs}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
