"""A run of `lab recommend`, made by hand."""

from pathlib import Path
from typing import Any

from arriero.metrics.spread import spread
from arriero.record.bench_parts import Evidence
from arriero.record.cpu_lab.recommendation import (
    CandidateFile,
    Counts,
    FileChoice,
    Judgement,
    Mix,
    RecommendationRun,
    Screened,
)

MACHINE = {"cpu": "fast", "cores": "2"}
PRESENT, BEST = "m.Q4_1.gguf", "m.Q4_0.gguf"


def candidate(name: str, folder: Path = Path("/models"), **fields: object) -> CandidateFile:
    known: dict[str, Any] = {
        "name": name,
        "path": str(folder / name),
        "num_bytes": 1000,
        "sha256": "0" * 64,
        "digest": f"digest of {name}",
        "weights": name.split(".")[1],
        "is_present": name == PRESENT,
        "quality": None,
        "refused": None,
    }
    known.update(fields)
    return CandidateFile(**known)


def judgement(**fields: object) -> Judgement:
    known: dict[str, Any] = {
        "baseline": "2 threads", "candidate": "1,2 threads", "verdict": "better", "is_better": True, "ratio": 0.8,
        "low": 1 / 1.3, "high": 1 / 1.2, "floor": 0.01, "confidence": 0.975, "num_pairs": 12, "reasons": ("a reason",),
    }  # fmt: skip
    known.update(fields)
    return Judgement(**known)


def run(folder: Path = Path("/models"), **fields: object) -> RecommendationRun:
    rate = spread([100.0, 110.0])
    known: dict[str, Any] = {
        "run_id": "run",
        "made_at": "2026-01-02T03:04:05+00:00",
        "arriero": "1",
        "evidence": Evidence.MEASURED,
        "machine": MACHINE,
        "mix": Mix(prompt_tokens=512, generated_tokens=128),
        "bounds": ("perplexity ratio at most 1.02",),
        "present": Counts(decode=2, prefill=2),
        "files": (candidate(PRESENT, folder), candidate(BEST, folder)),
        "screened": tuple(
            Screened(file=name, threads=threads, prefill=rate, decode=rate)
            for name in (PRESENT, BEST)
            for threads in (1, 2)
        ),
        "choices": (
            FileChoice(file=PRESENT, counts=Counts(decode=1, prefill=2), judged=judgement()),
            FileChoice(file=BEST, counts=Counts(decode=2, prefill=2), judged=None),
        ),
        "best": BEST,
        "judged": judgement(baseline=f"{PRESENT} with 2 threads", candidate=f"{BEST} with 2 threads", ratio=0.5),
        "num_rounds": (3, 12),
        "failures": 0,
        "busy": None,
    }
    known.update(fields)
    return RecommendationRun(**known)
