"""A comparison that never ran: values of rounds from a seeded formula, verdicts computed from them."""

import random

from arriero.metrics.paired import compare_pairs, noise_floor
from arriero.record.bench_compare import CompareResult
from arriero.record.bench_compare_check import pairs_of
from arriero.record.bench_compare_parts import (
    CompareCell,
    Question,
    Round,
    Search,
    SearchTrial,
    ServerRun,
    TextChanges,
)
from arriero.record.bench_parts import Evidence, Point, TargetFacts
from tests.unit.report.bench_results import CALIBRATION, MACHINE, RUN, lives, point

QUESTIONS = (
    Question(metric="output_throughput", higher_is_better=True, margin=0.02),
    Question(metric="ttft_p50", higher_is_better=False, decides=False),
)
ORDER = "ABBA" * 4
STARTED_WITH = {"threads": 2, "model_file": "small.gguf", "model_bytes": 91_700_000, "model_sha256": "e" * 64}


def comparison(ratios: tuple[float, ...] = (1.3, 1.0), *, seed: int = 1) -> CompareResult:
    """One cell for each true ratio of B's throughput to A's."""
    measured = point(lives(40, 4.0, seed=seed), {}, keeps_lives=False)
    cells = tuple(_cell(ratio, clients, seed, measured) for ratio, clients in zip(ratios, (1, 4, 8, 16), strict=False))
    trial = SearchTrial(
        stage=0, rung=0, flags=("--threads", "2"), values=(100.5, 101.0), score=100.75, kept=True, failed=None
    )
    broken = SearchTrial(
        stage=0, rung=0, flags=("--threads", "9"), values=(None,), score=None, kept=False, failed="server ended"
    )
    return CompareResult(
        validity=measured.validity,
        status="done",
        error=None,
        evidence=Evidence.END_TO_END,
        run=RUN,
        machine=MACHINE,
        a=TargetFacts(
            name="a peer", kind="http", command=("peer", "--port", "{port}"), model="small.gguf",
            facts={"peer": "llama-server", "flags": "", "version": "version: 1 (abc)", **STARTED_WITH},
        ),
        b=TargetFacts(
            name="arriero", kind="http", command=("arriero", "serve", "--port", "{port}"), model="small.gguf",
            facts={"peer": "arriero", "flags": "--kv unified", **STARTED_WITH},
        ),
        questions=QUESTIONS,
        calibration=CALIBRATION,
        searches=(
            Search(
                side="a", setting={"clients": 1}, plan={"rungs": 1}, metric="output_throughput",
                trials=(trial, broken), best=("--threads", "2"),
            ),
        ),
        cells=cells,
    )  # fmt: skip


def _cell(ratio: float, clients: int, seed: int, measured: Point) -> CompareCell:
    draw = random.Random(seed * 100 + clients)

    def values(side_ratio: float) -> dict[str, float | None]:
        return {
            "output_throughput": 100.0 * side_ratio * draw.uniform(0.985, 1.015),
            "ttft_p50": 80.0 / side_ratio * draw.uniform(0.98, 1.02),
        }

    rounds: list[Round] = []

    def add(phase: str, pair: int | None, side: str, side_ratio: float) -> None:
        rounds.append(
            Round(
                index=len(rounds), phase=phase, pair=pair, side=side, values=values(side_ratio), point=measured,  # type: ignore[arg-type]  # words of literals
            )
        )  # fmt: skip

    for side in "ab":
        add("warm_up", None, side, 0.8)
    for number, side in enumerate("abbaabbaabba"):
        add("aa", number // 2, side, 1.0)
    for number, side in enumerate(ORDER.lower()):
        add("ab", number // 2, side, ratio if side == "b" else 1.0)
    bare = CompareCell(
        setting={"clients": clients, "workload": "short"},
        order=ORDER,
        floors={},
        verdicts={},
        withheld={},
        texts={"a": TextChanges(prompts=40, changed=2, examples=("prompt 3 differs",), must_be_stable=False)},
        servers=(
            ServerRun(
                side="a", command=("peer", "--port", "1"), log="a.log", ready_s=1.5, resident_bytes=2**28,
                peak_bytes=2**29, how="terminated", status=0,
            ),
        ),
        rounds=tuple(rounds),
    )  # fmt: skip
    metric = QUESTIONS[0].metric
    floor = noise_floor(pairs_of(bare, metric, "aa"), seed=1)
    verdict = compare_pairs(
        pairs_of(bare, metric), floor=floor.value, seed=1, higher_is_better=True, margin=0.02, order=ORDER
    )
    return CompareCell(
        **{name: getattr(bare, name) for name in ("setting", "order", "texts", "servers", "rounds")},
        floors={metric: floor},
        verdicts={metric: verdict},
        withheld={"ttft_p50": "it was not asked for in time"},
    )
