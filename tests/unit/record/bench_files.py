"""Results of the load generator as small as they can be."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from arriero.metrics.client_figures import ClientSlos
from arriero.metrics.client_life import ClientLife
from arriero.metrics.client_summary import summarise
from arriero.metrics.client_window import client_window
from arriero.metrics.definitions import ARRIERO
from arriero.metrics.paired import compare_pairs, noise_floor
from arriero.metrics.validity import BusyProcess, Validity, judge_validity, worst
from arriero.record.bench_compare import CompareResult
from arriero.record.bench_compare_parts import (
    CompareCell,
    Question,
    Round,
    Search,
    SearchTrial,
    ServerRun,
    TextChanges,
)
from arriero.record.bench_parts import (
    CalibrationFacts,
    Evidence,
    Offset,
    Point,
    RunFacts,
    ScheduleFacts,
    TargetFacts,
)
from arriero.record.bench_result import BenchResult
from arriero.record.machine import MachineFacts
from arriero.record.machine_load import LoadFacts
from tests.unit.metrics.client_lives import Y, failed, ns, steady

RUN = RunFacts(
    command=("arriero", "bench", "run", "--rate", "4"),
    started_at="2026-01-02T03:04:05+00:00",
    seconds=12.5,
    was_interrupted=False,
    version="0.1.0",
    code_sha256="0" * 64,
    revision=None,
    is_dirty=True,
    python="3.11.7 (cpython)",
    packages={"numpy": "2.0", "msgspec": "0.20"},
)
MACHINE = MachineFacts(
    cpu="a CPU",
    cores=2,
    cores_online=4,
    cgroup_cores=1.5,
    governor=None,
    frequency_mhz=2600.0,
    virtualised=True,
    memory_bytes=1 << 33,
    kernel="Linux 6.1",
    python="3.11.7 (cpython)",
    reasons={"governor": "cannot be read here"},
)
LOAD = LoadFacts(
    seconds=1.0,
    load_average=(0.1, 0.2, 0.3),
    busy_cores=1.2,
    own_cores=0.2,
    server_cores=0.9,
    other_cores=0.1,
    stolen_cores=0.0,
    others=(BusyProcess(name="sleepy", cores=0.1),),
    reasons={},
)
CALIBRATION = CalibrationFacts(
    delay_ns=50_000_000,
    gap_ns=0,
    num_requests=100,
    ttft_ns=Offset(n=100, p50_ns=200_000.0, p99_ns=900_000.0, max_ns=1_000_000.0),
    itl_ns=None,
    longest_block_ns=None,
)


def target(name: str) -> TargetFacts:
    return TargetFacts(name=name, kind="http", command=(name, "--port", "0"), model="m.gguf", facts={"slots": 8})


def schedule(num_requests: int) -> ScheduleFacts:
    return ScheduleFacts(
        sha256="a" * 64,
        loop="open",
        seed=7,
        num_requests=num_requests,
        num_warm_up=0,
        settings={"rate_per_s": 4.0, "arrivals": "poisson"},
    )


def lives() -> list[ClientLife]:
    return [
        replace(Y, sent_at=ns(0.001)),
        steady("r", 1.0),
        failed("f", 2.0, status=503),
        steady("w", 0.5, is_warm_up=True),
    ]


def point(run: Sequence[ClientLife] | None = None, *, keep: bool = True, **rest: Any) -> Point:  # noqa: ANN401 - fields
    done = lives() if run is None else list(run)
    window = client_window(done, starts_at=0, stops_at=ns(3), warm_up_ns=0, cool_down_ns=ns(0.5))
    values: dict[str, Any] = {
        "validity": judge_validity(done, window=window, longest_block_ns=1_000),
        "setting": {"rate_per_s": 4.0},
        "schedule": schedule(len(done)),
        "summary": summarise(done, window=window, slos=ClientSlos(ttft_ns=ns(1.01))),
        "load_before": None,
        "load_during": LOAD,
        "keeps_lives": keep,
        "lives": tuple(done) if keep else (),
        **rest,
    }
    return Point(**values)


def late_point() -> Point:
    """An invalid one."""
    return point([steady(f"r{k}", k / 10, sent=k / 10 + 3, wait=3.1) for k in range(5)])


def result(*points: Point) -> BenchResult:
    shown = points or (point(),)
    return BenchResult(
        validity=worst(each.validity for each in shown),
        evidence=Evidence.END_TO_END,
        run=RUN,
        machine=MACHINE,
        target=target("arriero"),
        calibration=CALIBRATION,
        definitions=dict(ARRIERO.words),
        points=shown,
    )


# ── comparisons ─────────────────────────────────────────────────────────────────────────────────────────────────────

QUESTIONS = (
    Question(metric="output_tokens_per_s", higher_is_better=True, margin=0.02),
    Question(metric="ttft_p50_ns", higher_is_better=False, decides=False),
)


def punctual() -> Point:
    return point([steady(f"r{k}", k / 10) for k in range(20)], keep=False)


def rounds(num_pairs: int = 6, aa_pairs: int = 2) -> list[Round]:
    order = ["a", "b", "b", "a"] * num_pairs
    made = [Round(index=0, phase="warm_up", pair=None, side="a", values={}, point=late_point())]
    made.extend(
        _round(1 + k, "aa", k // 2, "ab"[k % 2], 100.0 + 0.1 * k)  # identical sides
        for k in range(2 * aa_pairs)
    )
    begin = len(made)
    made.extend(
        _round(begin + k, "ab", k // 2, order[k], (100.0 if order[k] == "a" else 120.0) + 0.1 * ((7 * k) % 5))
        for k in range(2 * num_pairs)
    )
    return made


def _round(index: int, phase: Any, pair: int, side: Any, value: float) -> Round:  # noqa: ANN401 - literals
    values: dict[str, float | None] = {"output_tokens_per_s": value, "ttft_p50_ns": 1e9 / value}
    return Round(index=index, phase=phase, pair=pair, side=side, values=values, server_cores=1.5, point=punctual())


def cell(made: Sequence[Round] | None = None, **rest: Any) -> CompareCell:  # noqa: ANN401 - fields
    done = rounds() if made is None else list(made)
    ran = [each for each in done if each.phase == "ab"]
    order = "".join(each.side.upper() for each in ran)

    def pairs(metric: str, phase: str) -> list[tuple[float, float]]:
        sides: dict[int, dict[str, float]] = {}
        for each in done:
            if each.phase == phase and each.pair is not None:
                sides.setdefault(each.pair, {})[each.side] = each.values[metric] or 0.0
        return [(both["a"], both["b"]) for both in sides.values()]

    floors = {question.metric: noise_floor(pairs(question.metric, "aa"), seed=1) for question in QUESTIONS}
    values: dict[str, Any] = {
        "setting": {"clients": 4, "workload": "short"},
        "order": order,
        "floors": floors,
        "verdicts": {
            question.metric: compare_pairs(
                pairs(question.metric, "ab"),
                floor=floors[question.metric].value,
                seed=1,
                higher_is_better=question.higher_is_better,
                margin=question.margin,
                order=order,
                resamples=200,
            )
            for question in QUESTIONS
        },
        "withheld": {},
        "texts": {"across": TextChanges(prompts=3, changed=0, examples=(), must_be_stable=False)},
        "servers": (
            ServerRun(
                side="a",
                command=("arriero", "serve"),
                log="a.log",
                ready_s=1.5,
                resident_bytes=1 << 28,
                peak_bytes=None,
                how="terminated",
                status=0,
            ),
        ),
        "rounds": tuple(done),
        **rest,
    }
    return CompareCell(**values)


SEARCH = Search(
    side="b",
    setting={"clients": 4},
    plan={"rungs": [1, 2]},
    metric="output_tokens_per_s",
    trials=(
        SearchTrial(stage=0, rung=0, flags=("-t", "2"), values=(101.0, None), score=101.0, kept=True, failed=None),
    ),
    best=("-t", "2"),
)


def validity_of(*cells: CompareCell) -> Validity | None:
    judged = [each.point.validity for one in cells for each in one.rounds if each.phase in {"aa", "ab"}]
    return worst(judged) if judged else None


def comparison(*cells: CompareCell, **rest: Any) -> CompareResult:  # noqa: ANN401 - fields
    shown = cells or (cell(),)
    values: dict[str, Any] = {
        "validity": validity_of(*shown),
        "status": "done",
        "error": None,
        "evidence": Evidence.END_TO_END,
        "run": RUN,
        "machine": MACHINE,
        "a": target("arriero"),
        "b": target("llama-server"),
        "questions": QUESTIONS,
        "calibration": None,
        "searches": (SEARCH,),
        "cells": shown,
        **rest,
    }
    return CompareResult(**values)


def withheld(one: CompareCell, metric: str, why: str) -> CompareCell:
    verdicts = {name: verdict for name, verdict in one.verdicts.items() if name != metric}
    return replace_struct(one, verdicts=verdicts, withheld={metric: why})


S = TypeVar("S", bound=msgspec.Struct)


def replace_struct(value: S, **changes: Any) -> S:  # noqa: ANN401 - fields
    return msgspec.structs.replace(value, **changes)
