"""Results of a load generator that never ran: lives from seeded formulas, everything else computed from them."""

import random
from collections.abc import Sequence

from arriero.metrics.client_figures import ClientSlos
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.metrics.client_summary import loop_of, summarise
from arriero.metrics.client_window import client_window
from arriero.metrics.definitions import ARRIERO
from arriero.metrics.validity import BusyProcess, judge_validity, worst
from arriero.record.bench_parts import CalibrationFacts, Evidence, Offset, Point, RunFacts, ScheduleFacts, TargetFacts
from arriero.record.bench_result import BenchResult
from arriero.record.machine import MachineFacts
from arriero.record.machine_load import LoadFacts

MS = 1_000_000
SLOS = ClientSlos(ttft_ns=400 * MS, e2e_ns=3_000 * MS)
RUN = RunFacts(
    command=("arriero", "bench", "run", "--target", "http://localhost:8080"),
    started_at="2026-11-29T12:00:00Z",
    seconds=60.5,
    was_interrupted=False,
    version="0.1.0",
    code_sha256="c" * 64,
    revision=None,
    is_dirty=True,
    python="3.11.9 (cpython)",
    packages={"httptools": "0.9.0", "uvloop": "0.23.0"},
)
MACHINE = MachineFacts(
    cpu="A processor",
    cores=2,
    cores_online=2,
    cgroup_cores=None,
    governor=None,
    frequency_mhz=None,
    virtualised=True,
    memory_bytes=8 * 2**30,
    kernel="Linux 6.1",
    python="3.11.9",
    reasons={"governor": "no such file"},
)
LOAD = LoadFacts(
    seconds=60.0,
    load_average=(1.5, 1.25, 1.0),
    busy_cores=1.75,
    own_cores=0.25,
    server_cores=1.375,
    other_cores=0.125,
    stolen_cores=0.0,
    others=(BusyProcess(name="make", cores=0.125),),
    reasons={},
)
CALIBRATION = CalibrationFacts(
    delay_ns=50 * MS,
    gap_ns=10 * MS,
    num_requests=200,
    ttft_ns=Offset(n=200, p50_ns=210_000, p99_ns=700_000, max_ns=1_200_000),
    itl_ns=Offset(n=3_800, p50_ns=4_000, p99_ns=120_000, max_ns=900_000),
    longest_block_ns=2 * MS,
    settings={"rate_per_s": 20.0},
)


def lives(
    num: int, rate_per_s: float, *, seed: int = 1, capacity: float = 6.0, failing: float = 0.0, is_open: bool = True
) -> list[ClientLife]:
    """Requests to a server that answers `capacity` of them a second, one after another."""
    draw = random.Random(seed)
    at, free_at = 0.0, 0.0
    found: list[ClientLife] = []
    for number in range(num):
        at += draw.expovariate(rate_per_s)
        lag = draw.random() * 0.002
        sent = at + lag
        begins = max(sent, free_at)
        free_at = begins + draw.uniform(0.5, 1.5) / capacity
        intended = round(at * 1e9)
        if draw.random() < failing:
            found.append(_failed(number, intended if is_open else None, round(sent * 1e9)))
            continue
        tokens = draw.randint(1, 40)
        gap = draw.uniform(0.01, 0.03)
        chunks = [begins + 0.05 + gap * index * draw.uniform(0.95, 1.05) for index in range(tokens)]
        stamps = tuple(sorted(round(each * 1e9) for each in chunks))
        found.append(
            ClientLife(
                request_id=f"r{number}",
                intended_at=intended if is_open else None,
                sent_at=round(sent * 1e9),
                headers_at=round(sent * 1e9) + MS,
                closed_at=stamps[-1] + MS,
                outcome=Outcome.LENGTH,
                asked_tokens=tokens,
                chunk_at=stamps,
                chunk_tokens=(1,) * tokens,
                status=200,
                num_tokens=tokens,
                prompt_tokens=30,
                cached_tokens=0,
                asked_prompt_tokens=30,
                connect_ns=200_000 if number == 0 else None,
            )
        )
    return found


def _failed(number: int, intended: int | None, sent: int) -> ClientLife:
    return ClientLife(
        request_id=f"r{number}",
        intended_at=intended,
        sent_at=sent,
        headers_at=sent + 2 * MS,
        closed_at=sent + 3 * MS,
        outcome=Outcome.REJECTED,
        asked_tokens=20,
        status=503,
        error="http_503",
    )


def point(found: Sequence[ClientLife], setting: dict[str, float], *, keeps_lives: bool = True, seed: int = 1) -> Point:
    window = client_window(found, warm_up_ns=500 * MS)
    return Point(
        validity=judge_validity(found, window=window, longest_block_ns=3 * MS, neighbours=LOAD.others),
        setting=dict(setting),
        schedule=ScheduleFacts(
            sha256=f"{seed:064x}",
            loop=loop_of(found),
            seed=seed,
            num_requests=len(found),
            num_warm_up=0,
            settings={"arrivals": "poisson", **setting},
        ),
        summary=summarise(found, window=window, slos=SLOS),
        load_before=LOAD,
        load_during=LOAD,
        keeps_lives=keeps_lives,
        lives=tuple(found) if keeps_lives else (),
    )


def result(points: Sequence[Point], *, target: str = "a server") -> BenchResult:
    return BenchResult(
        validity=worst(each.validity for each in points),
        evidence=Evidence.END_TO_END,
        run=RUN,
        machine=MACHINE,
        target=TargetFacts(name=target, kind="http", model="small.gguf", facts={"slots": 4}),
        calibration=CALIBRATION,
        definitions=dict(ARRIERO.words),
        points=tuple(points),
    )


def sweep(rates: Sequence[float] = (2.0, 4.0, 6.0, 8.0), *, num: int = 120, capacity: float = 6.0) -> BenchResult:
    points = [
        point(lives(num, rate, seed=index, capacity=capacity, failing=0.08 if rate > capacity else 0.0),
              {"rate_per_s": rate}, seed=index)
        for index, rate in enumerate(rates, start=1)
    ]  # fmt: skip
    return result(points, target=f"server of {capacity:g}/s")
