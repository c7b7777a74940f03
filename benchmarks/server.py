"""Output tokens per second over HTTP against llama-server: same model file, slots and threads, interleaved rounds.

    python benchmarks/server.py --peer PATH/llama-server [--clients 1,4,8,16] [--rounds 6] [--json FILE]

MEASURED. Both servers stay loaded and idle while the other one is measured. Each round measures both, in the order
A B, then B A, and so on; the figure is the ratio of a round, and its spread over the rounds. Without --peer only this
project's server is measured.
"""

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from http import HTTPStatus
from itertools import pairwise
from pathlib import Path
from urllib.request import urlopen

sys.path.insert(0, str(Path(__file__).parent))
from machine import machine_facts, refuse_busy_machine

PROMPT_TOKENS = 120
OUTPUT_TOKENS = 64
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Server:
    """A server under test."""

    name: str
    port: int
    command: list[str]


@dataclass(frozen=True)
class Load:
    """One measured load."""

    tokens: int
    seconds: float
    first: list[float]
    gaps: list[float]

    @property
    def tokens_per_s(self) -> float:
        """Output tokens over the wall of the load, drain included."""
        return self.tokens / self.seconds


async def one_request(port: int, prompt: list[int]) -> tuple[int, float, list[float]]:
    """Stream one completion over a connection of its own: tokens, time to the first chunk, gaps between chunks."""
    body = json.dumps({
        "prompt": prompt, "max_tokens": OUTPUT_TOKENS, "temperature": 0, "ignore_eos": True, "stream": True,
        "stream_options": {"include_usage": True}, "cache_prompt": False,
    }).encode()  # fmt: skip
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(head.encode() + body)
    stamps: list[float] = []
    tokens = 0
    while line := await reader.readline():
        if not line.startswith(b"data: {"):
            continue
        if b'"completion_tokens":' in line:
            usage = json.loads(line[6:]).get("usage")
            tokens = usage["completion_tokens"] if usage else tokens
        if b'"finish_reason":null' in line or b'"text":"' in line:
            stamps.append(time.perf_counter())
    writer.close()
    if tokens != OUTPUT_TOKENS:
        message = f"asked for {OUTPUT_TOKENS} tokens, the server counts {tokens}"
        raise RuntimeError(message)
    return tokens, stamps[0] - began, [b - a for a, b in pairwise(stamps)]


async def load(port: int, clients: int, requests: int, seed: int) -> Load:
    """A closed loop of `clients`, `requests` in all."""
    numbers = iter(range(requests))
    answers: list[tuple[int, float, list[float]]] = []

    async def client() -> None:
        for number in numbers:
            answer = await one_request(port, unique_prompt(seed * 10_000 + number))
            answers.append(answer)

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    seconds = time.perf_counter() - began
    first = [answer[1] for answer in answers]
    gaps = [gap for answer in answers for gap in answer[2]]
    return Load(sum(answer[0] for answer in answers), seconds, first, gaps)


def unique_prompt(number: int) -> list[int]:
    """Token ids that differ from every other number's from the first on."""
    digits = [number // 150**k % 150 for k in range(3)]
    return [300 + digits[0], 500 + digits[1], 700 + digits[2], *(1000 + (number * 131 + k * 17) % 30_000
            for k in range(PROMPT_TOKENS - 3))]  # fmt: skip


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def start(server: Server, log: Path) -> subprocess.Popen[bytes]:
    """Start a server and wait until it answers /health."""
    with log.open("wb") as out:
        process = subprocess.Popen(server.command, stdout=out, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if is_healthy(server.port):
            return process
        time.sleep(0.2)
    message = f"{server.name} did not start; see {log}"
    raise RuntimeError(message)


def is_healthy(port: int) -> bool:
    """Whether a server answers there."""
    try:
        with urlopen(f"http://{HOST}:{port}/health", timeout=1) as answer:
            return answer.status == HTTPStatus.OK
    except OSError:
        return False


def servers(arguments: argparse.Namespace, slots: int) -> list[Server]:
    """The two commands for one number of slots."""
    context = slots * 256
    ours, peer = free_port(), free_port()
    found = [
        Server("arriero", ours, [
            sys.executable, "-m", "arriero", "serve", "--model", arguments.model, "--port", str(ours), "--sequences",
            str(slots), "--ctx-size", str(context), "--threads", str(arguments.threads), "--log-level", "warning",
            *arguments.ours,
        ])
    ]  # fmt: skip
    if arguments.peer is not None:
        found.append(
            Server("llama-server", peer, [
                arguments.peer, "-m", arguments.model, "--port", str(peer), "--host", HOST, "-np", str(slots), "-c",
                str(context), "-t", str(arguments.threads), "--no-webui", *arguments.theirs,
            ])
        )  # fmt: skip
    return found


def measure(arguments: argparse.Namespace, clients: int) -> dict[str, object]:
    """All rounds of one number of clients."""
    slots = max(arguments.slots, clients)
    requests = max(clients * 3, 8)
    pair = servers(arguments, slots)
    processes = [start(server, Path(f"{arguments.logs}/{server.name}.log")) for server in pair]
    loads: dict[str, list[Load]] = {server.name: [] for server in pair}
    try:
        for server in pair:
            asyncio.run(load(server.port, clients, clients, 9999))  # warm-up
        for number in range(arguments.rounds):
            order = pair if number % 2 == 0 else pair[::-1]
            for server in order:
                loads[server.name].append(asyncio.run(load(server.port, clients, requests, number)))
    finally:
        for process in processes:
            process.terminate()
            process.wait(30)
    return {"clients": clients, "slots": slots, "commands": {s.name: s.command for s in pair}, **summary(loads)}


def summary(loads: dict[str, list[Load]]) -> dict[str, object]:
    """Medians, and the ratio round by round."""
    out: dict[str, object] = {}
    for name, each in loads.items():
        gaps = sorted(gap for one in each for gap in one.gaps)
        first = sorted(value for one in each for value in one.first)
        out[name] = {
            "tokens_per_s": statistics.median(one.tokens_per_s for one in each),
            "ttft_p50_ms": statistics.median(first) * 1000,
            "gap_p50_ms": statistics.median(gaps) * 1000,
            "gap_p99_ms": gaps[int(len(gaps) * 0.99) - 1] * 1000,
            "rounds": [round(one.tokens_per_s, 1) for one in each],
        }
    if len(loads) > 1:
        ours, theirs = loads.values()
        ratios = [a.tokens_per_s / b.tokens_per_s for a, b in zip(ours, theirs, strict=True)]
        out["ratio"] = {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}
    return out


def main() -> int:
    """Print the table, and write it if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="a GGUF file, the same for both")
    parser.add_argument("--peer", default=os.environ.get("LLAMA_SERVER"), help="path of llama-server")
    parser.add_argument("--clients", default="1,4,8,16")
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--ours", nargs=argparse.REMAINDER, default=[], help="further flags of this project's server")
    parser.add_argument("--theirs", type=str.split, default=[], help="further flags of llama-server, one string")
    parser.add_argument("--logs", type=Path, default=Path(".artifacts"))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if (busy := refuse_busy_machine()) is not None:
        print(busy, file=sys.stderr)
        return 1
    arguments.logs.mkdir(parents=True, exist_ok=True)
    facts = machine_facts()
    print("\n".join(f"{name}: {value}" for name, value in facts.items()))
    results = []
    print("\n| clients | server | tok/s | TTFT p50 ms | gap p50 ms | gap p99 ms | ratio (min ... max) |")
    print("| ---: | --- | ---: | ---: | ---: | ---: | --- |")
    for clients in map(int, arguments.clients.split(",")):
        row = measure(arguments, clients)
        results.append(row)
        for name in row["commands"]:  # type: ignore[attr-defined]
            figures = row[name]
            ratio = row.get("ratio") if name == "arriero" else None
            shown = "" if ratio is None else f"{ratio['median']:.3f} ({ratio['min']:.3f} ... {ratio['max']:.3f})"
            print(
                f"| {clients} | {name} | {figures['tokens_per_s']:.1f} | {figures['ttft_p50_ms']:.0f} "
                f"| {figures['gap_p50_ms']:.1f} | {figures['gap_p99_ms']:.1f} | {shown} |",
                flush=True,
            )
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"machine": facts, "results": results}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
