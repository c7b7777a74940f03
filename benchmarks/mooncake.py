"""The Mooncake trace: how close prefix reuse comes to a cache without limit, simulated whole and on a live slice.

    python benchmarks/mooncake.py sim TRACE.jsonl.xz [--scale 16] [--cells N,N,...] [--host N] [--json FILE]
    python benchmarks/mooncake.py live TRACE.jsonl.xz --model FILE.gguf [--from S] [--seconds 300] [--json FILE]

`sim` is SIMULATED: the cell manager, host store and scheduler of the server, one run for each room. Times mean nothing
there; counts of rows do. `live` is END-TO-END: a slice by time, sent at its recorded moments to a fresh server with its
host store on. Lengths are divided by the scale, rounded up; requests that do not fit the context are left out and
counted. The ideal beside each figure is that of the requests that were really sent.
"""

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

sys.path.insert(0, str(Path(__file__).parent))
from machine import machine_facts, refuse_busy_machine

from arriero.bench.ask import Ask
from arriero.bench.client_loop import run as run_on_loop
from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.samples import NS_PER_MS, samples
from arriero.bench.experiments.served import ServeOptions, served
from arriero.bench.experiments.sides import GREEDY
from arriero.bench.target import Target
from arriero.core.config import MAX_SEQUENCES
from arriero.metrics.client_life import ClientLife
from arriero.record.sim_rows import SimTotals
from arriero.record.simulation_config import SimulationConfig
from arriero.sim.own_ideal import IdealReuse, ideal_reuse
from arriero.sim.runs import run_simulation
from arriero.workload.importing import TraceImport
from arriero.workload.records import WorkloadRecord
from arriero.workload.traces import TraceOptions

WITHIN = 1.02
BASE: dict[str, Any] = {
    "schema_version": "arriero-simulation-v1",
    "name": "mooncake",
    "workload": {"path": "trace"},
    "trace": "off",
    # A machine that keeps up with the trace, whatever its scale: what is counted does not depend on it.
    "cost": {"base_us": 1000, "prefill_row_us": 20, "decode_row_us": 100},
}


class Room(NamedTuple):
    """How much may be kept."""

    cells: int
    retained: int  # sequence ids beside those that run
    host: int  # tokens of the host store


def simulation(room: Room, sequences: int, scale: int) -> SimulationConfig:
    """A run with so much room."""
    cost = {**BASE["cost"], "prefill_row_us": BASE["cost"]["prefill_row_us"] * scale}
    return msgspec.convert(
        {
            **BASE,
            "cost": cost,
            "limits": {"sequences": sequences, "rows": 4096},
            "kv": {
                "kind": "cells",
                "num_cells": room.cells,
                "reuse": {"retained": room.retained, "host_tokens": room.host},
            },
        },
        SimulationConfig,
    )


def load(path: Path, options: TraceOptions) -> tuple[list[WorkloadRecord], dict[str, Any]]:
    """The requests of a trace, and the account of what was taken."""
    trace = TraceImport("mooncake", path, options)
    records = list(trace.records())
    return records, msgspec.to_builtins(trace.account())


def simulate(arguments: argparse.Namespace) -> dict[str, Any]:
    """Every room, against the ideal."""
    records, account = load(arguments.trace, TraceOptions(scale=arguments.scale, limit=arguments.limit))
    print(f"{account}")
    results: list[dict[str, Any]] = []
    ideal: IdealReuse | None = None
    heads = (
        "cells",
        "retained",
        "host tokens",
        "prompt rows",
        "/ ideal",
        "reused from",
        "evictions",
        "saves",
        "wall s",
    )
    print(f"\nSIMULATED\n\n| {' | '.join(heads)} |\n|{' ---: |' * 5} --- | --- | ---: | ---: |")
    for room in rooms(records, arguments):
        config = simulation(room, arguments.sequences, arguments.scale)
        if ideal is None:
            ideal = ideal_reuse(config, records)
            print(f"ideal: {ideal}", file=sys.stderr)
        began = time.perf_counter()
        totals = next(row for row in run_simulation(config, records) if isinstance(row, SimTotals))
        assert totals.reuse is not None, "the configuration says so"
        ratio = totals.reuse.prefill_rows / ideal.prefill_rows
        seconds = time.perf_counter() - began
        reuse = totals.reuse
        results.append({**room._asdict(), "ratio": ratio, "reuse": reuse.as_json()})
        words = [
            ", ".join(f"{name} {n}" for name, n in each.items()) for each in (reuse.cached_tokens, reuse.evictions)
        ]
        print(
            f"| {room.cells} | {room.retained} | {room.host} | {reuse.prefill_rows} | {ratio:.4f} | {words[0]} "
            f"| {words[1]} | {reuse.saves} | {seconds:.0f} |",
            flush=True,
        )
    assert ideal is not None, "there is a room"
    best = min(each["ratio"] for each in results)
    print(
        f"\nwith the most room: {best:.4f} of the ideal's rows ({'within' if best <= WITHIN else 'ABOVE'} {WITHIN:g})"
    )
    return {"account": account, "ideal": ideal._asdict(), "results": results, "holds": best <= WITHIN}


def rooms(records: Sequence[WorkloadRecord], arguments: argparse.Namespace) -> list[Room]:
    """What was asked for; else cells for everything and for less and less of it, and few cells with a host store."""
    if arguments.cells:
        return [Room(cells, arguments.retained, arguments.host) for cells in arguments.cells]
    whole = sum(record.prompt_token_count + record.max_new_tokens for record in records)
    longest = max(record.prompt_token_count + record.max_new_tokens for record in records)
    some = [max(whole // part, 4 * longest) for part in (1, 4, 16, 64)]
    ids = MAX_SEQUENCES - arguments.sequences
    return [*(Room(cells, arguments.retained, 0) for cells in some), Room(some[2], ids, whole)]


# ── live ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def cut(records: Sequence[WorkloadRecord], begins_s: float, seconds: float) -> list[WorkloadRecord]:
    """The requests of a stretch of time, which begins at 0."""
    begins, ends = int(begins_s * 1e6), int((begins_s + seconds) * 1e6)
    return [
        msgspec.structs.replace(record, arrival_time_us=record.arrival_time_us - begins)
        for record in records
        if begins <= record.arrival_time_us < ends
    ]


async def send(target: Target, records: Sequence[WorkloadRecord]) -> list[ClientLife]:
    """Each request at its moment, whatever became of those before."""
    origin = time.perf_counter_ns()

    async def one(record: WorkloadRecord) -> ClientLife:
        due = origin + record.arrival_time_us * 1000
        await asyncio.sleep(max(0.0, (due - time.perf_counter_ns()) / 1e9))
        ask = Ask(
            request_id=record.request_id,
            prompt=tuple(record.prompt_tokens or ()),
            max_tokens=record.max_new_tokens,
            fields=GREEDY,
        )
        return await target.ask(ask, due)

    return list(await asyncio.gather(*map(one, records)))


async def serve(arguments: argparse.Namespace, records: Sequence[WorkloadRecord]) -> dict[str, Any]:
    """A fresh server, the slice, and what came of it."""
    model = ModelSettings(reference=str(arguments.model), flash_attention="auto")
    options = ServeOptions(
        slots=arguments.slots,
        slot_tokens=arguments.context,
        backlog=len(records),
        reuses=True,
        flags=("--cache-ram", str(arguments.cache_ram), *arguments.flags),
    )
    async with served(model, options) as server:
        lives = await send(server.target, records)
        cache = (await server.call("GET", "/debug/cache")).body
        log = await server.stop()
    rows = [log.of(life.request_id) for life in lives]
    computed = sum(row.prompt_tokens - row.reused_tokens for row in rows if row is not None)
    firsts = samples(
        (life.chunk_at[0] - (life.intended_at or 0) if life.chunk_at else float("inf") for life in lives), NS_PER_MS
    )
    return {
        "prefill_rows": computed,
        "outcomes": dict(Counter(str(life.outcome) for life in lives)),
        "problems": log.problems_with(lives),
        "ttft_ms": {"n": firsts.n, "p50": firsts.p50, "p95": firsts.p95, "p99": firsts.p99},
        "figures": cache.get("figures") if isinstance(cache, dict) else None,
    }


def live(arguments: argparse.Namespace) -> dict[str, Any]:
    """The slice on a server, against its own ideal."""
    if (busy := refuse_busy_machine()) is not None:
        raise SystemExit(busy)
    options = TraceOptions(
        scale=arguments.scale, output_scale=arguments.output_scale, context=arguments.context, limit=arguments.limit
    )
    every, account = load(arguments.trace, options)
    records = cut(every, arguments.begins, arguments.seconds)
    if not records:
        raise SystemExit(f"no request arrives within {arguments.seconds:g} s from {arguments.begins:g} s on")
    ideal = ideal_reuse(simulation(Room(1, 0, 0), 1, 1), records)
    print(f"{account}\n{len(records)} requests of {arguments.seconds:g} s; ideal: {ideal}", flush=True)
    found = run_on_loop(serve(arguments, records))
    ratio = found["prefill_rows"] / ideal.prefill_rows
    print(f"\nEND-TO-END: {found['prefill_rows']} prompt rows, {ratio:.4f} of the ideal's {ideal.prefill_rows}; "
          f"{found['outcomes']}; TTFT ms {found['ttft_ms']}; problems: {found['problems'] or 'none'}")  # fmt: skip
    return {"account": account, "ideal": ideal._asdict(), "ratio": ratio, **found}


def main() -> int:
    """Print the table, and write it if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    for verb, run, scale in (("sim", simulate, 16), ("live", live, 64)):
        sub = verbs.add_parser(verb)
        sub.set_defaults(run=run)
        sub.add_argument("trace", type=Path)
        sub.add_argument("--scale", type=int, default=scale)
        sub.add_argument("--limit", type=int, help="only so many rows from the first on")
        sub.add_argument("--json", type=Path)
        if verb == "sim":
            sub.add_argument("--cells", type=lambda text: [int(each) for each in text.split(",")])
            sub.add_argument("--host", type=int, default=0, help="tokens of the host store")
            sub.add_argument("--sequences", type=int, default=32)
            sub.add_argument("--retained", type=int, default=4096)
            continue
        sub.add_argument("--model", required=True)
        sub.add_argument("--output-scale", type=int)
        sub.add_argument("--from", dest="begins", type=float, default=0.0, help="seconds into the trace")
        sub.add_argument("--seconds", type=float, default=300.0)
        sub.add_argument("--context", type=int, default=2048)
        sub.add_argument("--slots", type=int, default=8)
        sub.add_argument("--cache-ram", type=int, default=4096)
        sub.add_argument("--flags", nargs=argparse.REMAINDER, default=[], help="further flags of the server")
    arguments = parser.parse_args()
    facts = machine_facts()
    print("\n".join(f"{name}: {value}" for name, value in facts.items()))
    found = arguments.run(arguments)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"machine": facts, **found}, indent=2, default=str) + "\n")
    return 0 if found.get("holds", True) else 1


if __name__ == "__main__":
    sys.exit(main())
