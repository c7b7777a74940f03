"""A machine whose speeds are known: a worker that answers from a formula, with noise from a seed."""

import random
from collections.abc import Callable
from pathlib import Path

from arriero.lab.recommend.rounds import RecommendRecord
from arriero.lab.recommend.run import Facts, Means, Plan, recommend
from arriero.lab.recommend.worker import Measured
from arriero.record.cpu_lab.recommendation import Counts, Mix, RecommendationRun
from arriero.record.cpu_lab.run_log import RunLog, Status
from arriero.record.cpu_lab.worker import WorkerModel, WorkerOptions, WorkerResult
from tests.unit.record.cpu_lab.recommendations import BEST, PRESENT, candidate

Rates = Callable[[str, int, int], tuple[float, float]]
"""File, decode threads, batch threads -> prefill and decode rates."""

FACTS = Facts({"cpu": "fast", "cores": "2"}, ("perplexity ratio at most 1.02",), None)


def plan(*names: str, num_screening: int = 2, num_confirming: int = 10) -> Plan:
    return Plan(
        files=tuple(candidate(name) for name in names or (PRESENT,)),
        counts=(1, 2),
        present=Counts(decode=2, prefill=2),
        mix=Mix(prompt_tokens=100, generated_tokens=100),
        num_screening=num_screening,
        num_confirming=num_confirming,
    )


class FakeMachine:
    """Measures at known rates; `noise` is the relative width of a uniform error."""

    def __init__(
        self, rates: Rates, *, noise: float = 0.01, seed: int = 1, fails: frozenset[int] = frozenset()
    ) -> None:
        self.asked: list[WorkerOptions] = []
        self._rates = rates
        self._noise = noise
        self._chance = random.Random(seed)
        self._fails = fails

    def __call__(self, options: WorkerOptions) -> Measured:
        self.asked.append(options)
        if len(self.asked) in self._fails:
            return Measured(Status.FAILED, 1.0, None, "crashed")
        prefill, decode = self._rates(
            Path(options.model).name, options.threads, options.batch_threads or options.threads
        )
        factor = 1 + self._noise * (self._chance.random() - 0.5)
        return Measured(Status.SUCCESS, 1.0, result(prefill * factor, decode * factor), None)

    def means(self) -> Means:
        return Means(worker=self, sample=lambda: None, tell=lambda _number, _total, _visit: None)


def result(prefill: float | None, decode: float | None) -> WorkerResult:
    model = WorkerModel(name="m", file_bytes=1, description="m", weight_format="Q4_0", num_parameters=1, weight_bytes=1)
    return WorkerResult(
        prompt_tokens_per_s=prefill, generated_tokens_per_s=decode, prompt_ns=(1,), generation_ns=(1,),
        kv_cache_bytes=None, peak_rss_kib=None, model=model, library={}, system_info="", text=None, text_sha256=None,
        text_tokens=(), reasons={},
    )  # fmt: skip


def scaling(file: str, decode: int, prefill: int) -> tuple[float, float]:
    """Prefill likes threads, decode does not; the other file decodes much faster."""
    speed = 2.0 if file == BEST else 1.0
    return 100.0 * prefill, speed * (50.0 if decode == 1 else 40.0)


def flat(_file: str, _decode: int, _prefill: int) -> tuple[float, float]:
    return 100.0, 50.0


def run_of(folder: Path, asked: Plan, machine: FakeMachine) -> RecommendationRun:
    with RunLog.create(folder, RecommendRecord, {"what": "test"}, sync=False) as log:
        return recommend(log, asked, machine.means(), FACTS)
