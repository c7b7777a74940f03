"""Does guidellm see the same server as `arriero bench run`? Interleaved rounds of both against one server.

    python benchmarks/agreement.py --guidellm PATH --tokenizer DIR --url URL [--clients 4] [--requests 60] [--rounds 6]

END-TO-END. guidellm lives in an environment of its own; its tokenizer is a folder made from the GGUF's vocabulary. Both
send the same number of requests of the same lengths from as many clients; prompts differ, since each tool makes its
own. Our raw events are summarised under guidellm's definitions, so that only the measuring itself is compared. The
figure of a row is the median over rounds of ours / theirs.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from machine import machine_facts, refuse_busy_machine

from arriero.metrics.client_summary import remake
from arriero.metrics.definitions import DEFINITIONS
from arriero.record.bench_result import read_result

NS_PER_MS = 1e6
FIGURES = ("TTFT mean", "TTFT p50", "ITL mean", "ITL p50", "TPOT mean", "E2E mean", "E2E p50", "requests/s", "tokens/s")


def theirs(arguments: argparse.Namespace, number: int, folder: Path) -> dict[str, float]:
    """One run of guidellm; milliseconds, and rates a second."""
    out = folder / f"guidellm-{number}.json"
    lengths = f"prompt_tokens={arguments.prompt},output_tokens={arguments.output}"
    command = [
        arguments.guidellm, "run", "--disable-console",
        "--backend", f"kind=openai_http,target={arguments.url},request_format=/v1/completions",
        "--profile", f"kind=concurrent,streams={arguments.clients}",
        "--constraint", f"kind=max_requests,count={arguments.requests}",
        "--tokenizer", f"kind=hf_auto,model={arguments.tokenizer}",
        "--data", f"kind=synthetic_text,{lengths}", "--seed", f"kind=static,value={number + 1}",
        "--output", f"kind=json,path={out}",
    ]  # fmt: skip
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    metrics: dict[str, Any] = json.loads(out.read_text())["benchmarks"][0]["metrics"]
    totals = metrics["request_totals"]
    if totals["successful"] != arguments.requests:
        message = f"guidellm: {totals}"
        raise RuntimeError(message)

    def of(name: str, figure: str) -> float:
        value: float = metrics[name]["successful"][figure]
        return value

    return {
        "TTFT mean": of("time_to_first_token_ms", "mean"),
        "TTFT p50": of("time_to_first_token_ms", "median"),
        "ITL mean": of("inter_token_latency_ms", "mean"),
        "ITL p50": of("inter_token_latency_ms", "median"),
        "TPOT mean": of("time_per_output_token_ms", "mean"),
        "E2E mean": of("request_latency", "mean") * 1000,
        "E2E p50": of("request_latency", "median") * 1000,
        "requests/s": of("requests_per_second", "mean"),
        "tokens/s": of("output_tokens_per_second", "mean"),
    }


def ours(arguments: argparse.Namespace, number: int, folder: Path) -> dict[str, float]:
    """One run of `arriero bench run`, under guidellm's definitions."""
    out = folder / f"arriero-{number}.json"
    command = [
        sys.executable, "-m", "arriero", "bench", "run", f"{arguments.prompt}x{arguments.output}",
        "--target", arguments.url, "--clients", str(arguments.clients), "--requests", str(arguments.requests),
        "--ignore-eos", "--no-calibration", "--seed", str(1000 + number), "--out", str(out),
    ]  # fmt: skip
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    point = read_result(out).points[0]
    summary = remake(point.summary, point.lives or (), DEFINITIONS["guidellm"])
    table, rates = summary.latency.finished, summary.whole_run
    known = {"TTFT": table.ttft_ns, "ITL": table.itl_ns, "TPOT": table.tpot_ns, "E2E": table.e2e_ns}
    found = {
        f"{name} {figure}": getattr(distribution, figure) / NS_PER_MS
        for name, distribution in known.items()
        for figure in ("mean", "p50")
    }
    return {
        **found,
        "requests/s": rates.requests_per_s or 0.0,
        "tokens/s": rates.output_tokens_per_s or 0.0,
    }


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--guidellm", required=True, help="its program, in an environment of its own")
    parser.add_argument("--tokenizer", required=True, help="a folder with the model's tokenizer")
    parser.add_argument("--url", required=True, help="of the server, such as http://127.0.0.1:8080")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--prompt", type=int, default=120)
    parser.add_argument("--output", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def show(rounds: list[tuple[dict[str, float], dict[str, float]]]) -> None:
    """A row for each figure."""
    print("\n| guidellm's definition | ours | guidellm | ours / guidellm | min ... max of rounds |")
    print("| --- | ---: | ---: | ---: | --- |")
    for figure in FIGURES:
        ratios = [mine[figure] / other[figure] for mine, other in rounds]
        mine = statistics.median(each[figure] for each, _ in rounds)
        other = statistics.median(each[figure] for _, each in rounds)
        middle = statistics.median(ratios)
        print(f"| {figure} | {mine:.2f} | {other:.2f} | {middle:.3f} | {min(ratios):.3f} ... {max(ratios):.3f} |")


def main() -> int:
    """Print the table, and write it if asked."""
    arguments = parsed()
    if (busy := refuse_busy_machine()) is not None:
        print(busy, file=sys.stderr)
        return 1
    rounds: list[tuple[dict[str, float], dict[str, float]]] = []
    with tempfile.TemporaryDirectory() as name:
        for number in range(arguments.rounds):
            order = (ours, theirs) if number % 2 == 0 else (theirs, ours)
            figures = {tool: tool(arguments, number, Path(name)) for tool in order}
            rounds.append((figures[ours], figures[theirs]))
    facts = machine_facts()
    print("\n".join(f"{key}: {value}" for key, value in facts.items()))
    show(rounds)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"machine": facts, "rounds": rounds}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
