"""What the load generator itself can do and what it adds, against a server that computes nothing.

    python benchmarks/load_generator.py [--rates 500,1000,2000] [--overload 20000] [--chunks 20] [--gap-ms 5]

MEASURED. Two processes: the generator (one event loop, one core) and the null server, each on a core of its own where
there are two. First its calibration: what it adds to a known delay. Then an open loop at each rate, the chunks of each
answer apart, and once all together: how late requests were sent, what the generator says of its own validity, and how
much of a core either side used. The last load, a second long, is meant to be ten times what it can do: the generator
has to say that its own figures are worthless then.
"""

import argparse
import json
import os
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from arriero.bench.ask import Ask
from arriero.bench.calibration import CalibrationOptions, calibrate
from arriero.bench.client import HttpTarget
from arriero.bench.client_loop import run
from arriero.bench.null_server_options import NullOptions
from arriero.bench.null_server_process import null_server
from arriero.bench.runner import LiveDriver
from arriero.bench.runner_points import PointRun, Rules, measure
from arriero.bench.schedule import Limits, Loop, Planned, Schedule, seal
from arriero.metrics.client_life import ClientLife
from arriero.metrics.quantiles import nearest_rank
from arriero.record.bench_parts import Point

sys.path.insert(0, str(Path(__file__).parent))
from machine import machine_facts, refuse_busy_machine

S = 1_000_000_000
MS = 1_000_000
PROMPT_TOKENS = 100


@dataclass(frozen=True)
class Load:
    """One open loop."""

    rate: float
    seconds: float
    server: NullOptions

    def schedule(self) -> Schedule:
        """Evenly spaced requests, all different."""
        planned = [
            Planned(
                ask=Ask(
                    request_id=f"r{number}",
                    prompt=tuple(range(number, number + PROMPT_TOKENS)),
                    max_tokens=self.server.num_chunks or 1,
                ),
                at_ns=round(number / self.rate * S),
            )
            for number in range(round(self.rate * self.seconds))
        ]
        return seal(Loop.OPEN, planned, limits=Limits(drain_ns=10 * S))


def pin(index: int) -> None:
    """Keep this process, and those that it starts from now on, on one core."""
    cores = sorted(CORES)
    os.sched_setaffinity(0, {cores[min(index, len(cores) - 1)]})


async def carry_out(load: Load) -> dict[str, Any]:
    """Measure one load against a fresh null server."""
    schedule = load.schedule()
    server_cpu_s = children_cpu_s()
    pin(1)
    async with null_server(load.server) as url:
        pin(0)
        target = HttpTarget(url)
        await target.open()
        driver = LiveDriver(target, look_s=None)
        cpu_s, began = time.process_time(), time.perf_counter()
        found = await driver.run(schedule)
        cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - began
        point = measure(found, Rules(keep_raw=False))
        page = await target.fetch("/times", 30.0)
        connections = target.connections
        await driver.close()
    return {
        **row(load, found, point, msgspec.json.decode(page.body, type=dict[str, list[int]])),
        "client_cores": cpu_s / wall_s,
        "server_cores": (children_cpu_s() - server_cpu_s) / wall_s,
        "connections": connections.opened,
    }


def row(load: Load, found: PointRun, point: Point, told: dict[str, list[int]]) -> dict[str, Any]:
    """The figures of one load; `told`: how long the server really waited before each chunk, by its own clock."""
    validity = point.validity
    lives = [life for life in found.lives if life.outcome.is_normal]
    waits = sorted(first_wait(life) - told[life.request_id][0] for life in lives)
    return {
        "rate": load.rate,
        "gap_ms": load.server.gap_s * 1000,
        "requests": len(found.lives),
        "normal": len(lives),
        "tokens": sum(life.num_tokens or 0 for life in lives),
        "flag": str(validity.flag),
        "reasons": list(validity.reasons),
        "achieved": validity.achieved,
        "lag_p50_ms": in_ms(validity.lag_p50_ns),
        "lag_p99_ms": in_ms(validity.lag_p99_ns),
        "lag_max_ms": in_ms(validity.lag_max_ns),
        "block_ms": in_ms(validity.longest_block_ns),
        "ttft_added_p50_ms": in_ms(nearest_rank(waits, 0.5)) if waits else None,
        "ttft_added_p99_ms": in_ms(nearest_rank(waits, 0.99)) if waits else None,
    }


def first_wait(life: ClientLife) -> int:
    """Service TTFT of an answer that is there."""
    assert life.sent_at is not None
    return life.chunk_at[0] - life.sent_at


def in_ms(value: float | None) -> float | None:
    """Milliseconds of nanoseconds."""
    return None if value is None else value / MS


def children_cpu_s() -> float:
    """CPU time of the child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def show(results: list[dict[str, Any]]) -> None:
    """The table."""
    print(
        "\n| req/s | gap ms | normal | lag p50 | p99 | max ms | TTFT added p50 | p99 ms | loop blocked ms "
        "| client cores | server cores | flag |"
    )
    print("| ---: " * 11 + "| --- |")
    for each in results:
        cells = [f"{each[name]:.2f}" if each[name] is not None else "-" for name in (
            "lag_p50_ms", "lag_p99_ms", "lag_max_ms", "ttft_added_p50_ms", "ttft_added_p99_ms", "block_ms",
            "client_cores", "server_cores",
        )]  # fmt: skip
        print(
            f"| {each['rate']:g} | {each['gap_ms']:g} | {each['normal']}/{each['requests']} | "
            f"{' | '.join(cells)} | {each['flag']} |"
        )
        for reason in each["reasons"]:
            print(f"  {each['rate']:g}/s: {reason}")


async def measure_all(arguments: argparse.Namespace) -> dict[str, Any]:
    """The calibration and every load."""
    pin(1)
    found = await calibrate(CalibrationOptions(num_requests=200))
    pin(0)
    print(
        f"calibration: a first chunk after {found.told_first_ns / MS:.2f} ms (told {found.first_ns / MS:g} ms) comes "
        f"{found.ttft.median_ns / MS:.3f} ms later here (p99 {found.ttft.p99_ns / MS:.3f}, n = {found.ttft.n}); a gap "
        f"is off by {found.gap.median_ns / MS:.3f} ms (99 % within {found.gap.jitter_ns / MS:.3f})"
    )
    gap_s = arguments.gap_ms / 1000
    rates = [float(word) for word in arguments.rates.split(",")]
    apart = NullOptions(first_s=0.05, gap_s=gap_s, num_chunks=arguments.chunks, keeps_times=True)
    together = NullOptions(first_s=0.05, num_chunks=arguments.chunks, keeps_times=True)
    loads = [Load(rate, arguments.seconds, apart) for rate in rates]
    loads += [Load(rates[-1], arguments.seconds, together), Load(arguments.overload, 1.0, apart)]
    results = [await carry_out(load) for load in loads]
    show(results)
    return {"calibration": msgspec.to_builtins(found), "results": results}


def main() -> int:
    """Print the tables, and write them if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", default="500,1000,2000")
    parser.add_argument("--overload", type=float, default=20_000.0)
    parser.add_argument("--chunks", type=int, default=20)
    parser.add_argument("--gap-ms", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if (busy := refuse_busy_machine()) is not None:
        print(busy, file=sys.stderr)
        return 1
    facts = machine_facts()
    print("\n".join(f"{name}: {value}" for name, value in facts.items()))
    found = run(measure_all(arguments))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"machine": facts, **found}, indent=2) + "\n")
    return 0


CORES = os.sched_getaffinity(0)

if __name__ == "__main__":
    sys.exit(main())
