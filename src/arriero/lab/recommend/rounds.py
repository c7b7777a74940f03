"""Rounds: which settings are measured, in which order, and what each measurement leaves on disk.

Two stages, since a winner that was picked from some figures must not be judged by them:

    screening     every file at every number of threads, a few rounds; picks one candidate a file
    confirming    the present setting twice, each candidate, and what it is compared with; only these rounds decide

One run measures prefill with its batch threads and decode with its decode threads. llama.cpp computes passes of one row
with one number and all others with the other, so runs with the same number for both give every pair of numbers, and
the pair that is chosen is then measured as a pair.
"""

import random
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

from msgspec import Meta

from arriero.record.bench_parts import BenchPart
from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.cpu_lab.recommendation import CandidateFile, Counts, Mix
from arriero.record.cpu_lab.run_log import Status
from arriero.record.cpu_lab.worker import WorkerResult
from arriero.record.strict import Count, Name, Positive

SEED: Final = 20261130


class Stage(StrEnum):
    """What a run is for."""

    SCREENING = "screening"
    CONFIRMING = "confirming"


class Setting(NamedTuple):
    """What one run measures."""

    file: str  # base name
    counts: Counts
    copy: int = 0  # 1 for the present setting's second run in a round, which gives the noise floor

    @property
    def word(self) -> str:
        """Unique in a round."""
        again = f":again{self.copy}" if self.copy else ""
        return f"{self.file}:d{self.counts.decode}:b{self.counts.prefill}{again}"


class RecommendRecord(BenchPart, frozen=True, kw_only=True):
    """One run, whatever became of it.

    Attributes:
        place: in its round, counted from 0.
        problem: why there is no result; null where there is one.
        before, after: the machine on either side of it.
    """

    run_id: Name
    invocation_id: Name
    status: Status
    stage: Stage
    round: Positive
    place: Count
    file: Name
    counts: Counts
    copy: Annotated[int, Meta(ge=0, le=1)]
    started_at: Name
    elapsed_s: float
    result: WorkerResult | None
    problem: str | None
    before: ConditionSample | None
    after: ConditionSample | None

    @property
    def setting(self) -> Setting:
        """What it measured."""
        return Setting(self.file, self.counts, self.copy)

    def seconds(self, mix: Mix) -> float | None:
        """Of the objective; null where the run did not succeed."""
        if self.status is not Status.SUCCESS or self.result is None:
            return None
        prefill, decode = self.result.prompt_tokens_per_s, self.result.generated_tokens_per_s
        return mix.seconds(prefill, decode) if prefill and decode else None


class Visit(NamedTuple):
    """One run that is to be made."""

    stage: Stage
    round: int
    place: int
    setting: Setting

    @property
    def invocation_id(self) -> str:
        """The same for the same run, so that a resumed one is not made twice."""
        return f"{self.stage}:{self.round}:{self.setting.word}"


def screening_settings(files: Sequence[CandidateFile], counts: Sequence[int]) -> tuple[Setting, ...]:
    """Every file at every number of threads."""
    return tuple(Setting(file.name, Counts(decode=each, prefill=each)) for file in files for each in counts)


def visits(stage: Stage, settings: Sequence[Setting], num_rounds: int, seed: int = SEED) -> Iterator[Visit]:
    """Every setting once a round: a new order every other round, and its reverse in between.

    So of any two settings each goes first in half of the rounds, and a drift that is linear in time cancels.
    """
    chance = random.Random(f"{seed}:{stage}")
    order = list(settings)
    for number in range(1, num_rounds + 1):
        if number % 2:
            chance.shuffle(order)
        else:
            order.reverse()
        for place, setting in enumerate(order):
            yield Visit(stage, number, place, setting)
