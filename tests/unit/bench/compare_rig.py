"""A comparison whose instrument knows its answers: real little servers are held, and figures come from a formula."""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from arriero.bench.ask import Ask
from arriero.bench.compare import Compared, compare
from arriero.bench.compare_metrics import metric_of
from arriero.bench.compare_plan import CellPlan, ComparePlan, HoldOptions, LoadOptions, cells_of
from arriero.bench.compare_rounds import Reading
from arriero.bench.compare_sides import SideSpec
from arriero.bench.compare_verdicts import Rules
from arriero.bench.loops import LoopRun
from arriero.bench.loops_watch import RunWatch
from arriero.bench.prompts import PromptForm
from arriero.bench.rounds import Side
from arriero.bench.runner import Driver
from arriero.bench.runner_points import PointRun, measure
from arriero.bench.runner_points import Rules as PointRules
from arriero.bench.schedule import Schedule
from arriero.bench.schedule_work import fixed_work
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.record.bench_compare_parts import CompareCell, Round, SearchTrial
from arriero.record.bench_parts import Evidence
from tests.unit.bench.servers_rig import little_server

MS = 1_000_000
TOKENS = 4


@dataclass
class QuietDriver:
    """A client that is never asked; it knows whose it is."""

    url: str
    side: SideSpec
    server_pids: tuple[int, ...]

    @property
    def name(self) -> str:
        return str(self.side.fields["side"])

    @property
    def kind(self) -> Literal["http"]:
        return "http"

    @property
    def evidence(self) -> Evidence:
        return Evidence.END_TO_END

    async def run(
        self, schedule: Schedule, *, stop: asyncio.Event | None = None, watch: RunWatch | None = None
    ) -> PointRun:
        raise NotImplementedError

    async def facts(self) -> dict[str, Any]:
        return {"url": self.url}

    async def close(self) -> None:
        """Nothing is open."""


@dataclass
class Formula:
    """An instrument: a side's gap between tokens in milliseconds, noise, a drift by the round, and faults.

    Attributes:
        gaps: of each side.
        noise: largest relative deviation.
        drift: by which everything grows slower from round to round.
        fails: side → requests of each round that end in an error.
        unstable: sides whose answers change with the round.
        blocked_ns: of the generator's event loop.
        stops_at: number of the reading at which somebody wants the end.
    """

    gaps: Mapping[str, float]
    noise: float = 0.0
    drift: float = 0.0
    fails: Mapping[str, int] = field(default_factory=dict[str, int])
    unstable: frozenset[str] = frozenset()
    blocked_ns: int = 0
    stops_at: int | None = None
    read_from: list[str] = field(default_factory=list[str])
    asked: list[str] = field(default_factory=list[str])
    rng: random.Random = field(default_factory=lambda: random.Random(0))

    async def read(self, driver: Driver, schedule: Schedule) -> Reading:
        number = len(self.read_from)
        side = driver.name
        self.read_from.append(side)
        self.asked.append(schedule.sha256)
        slower = (1 + self.drift * number) * (1 + self.noise * self.rng.uniform(-1, 1))
        gap = round(self.gaps[side] * slower * MS)
        lives = tuple(self._life(each.ask, index, gap, side, number) for index, each in enumerate(schedule.planned))
        came = LoopRun(
            lives=lives,
            began_at=0,
            stopped_at=max(life.sent_at or 0 for life in lives),
            ended_at=max(life.closed_at or 0 for life in lives),
        )
        point = measure(
            PointRun(schedule=schedule, came=came, longest_block_ns=self.blocked_ns), PointRules(keep_raw=False)
        )
        return Reading(point, lives, interrupted=number == self.stops_at)

    def _life(self, ask: Ask, index: int, gap: int, side: str, number: int) -> ClientLife:
        sent_at = index * gap * TOKENS
        chunk_at = tuple(sent_at + gap * (1 + token) for token in range(TOKENS))
        text = f"{index}/{side if side not in self.unstable else number}"
        life = ClientLife(
            request_id=ask.request_id,
            intended_at=None,
            sent_at=sent_at,
            closed_at=chunk_at[-1],
            outcome=Outcome.LENGTH,
            asked_tokens=TOKENS,
            headers_at=sent_at,
            chunk_at=chunk_at,
            chunk_tokens=(1,) * TOKENS,
            status=200,
            num_tokens=TOKENS,
            text_sha256=f"{hash_of(text):064x}",
        )
        if index < self.fails.get(side, 0):
            return replace(life, outcome=Outcome.ERROR, error="http_500", status=500, chunk_at=(), chunk_tokens=())
        return life


def hash_of(text: str) -> int:
    """A number for a text, the same in every process."""
    return int.from_bytes(text.encode(), "big")


@dataclass
class Heard:
    """A watcher that remembers."""

    cells: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    rounds: list[Round] = field(default_factory=list[Round])
    trials: list[SearchTrial] = field(default_factory=list[SearchTrial])
    searches: list[Side] = field(default_factory=list[Side])
    ended: list[CompareCell] = field(default_factory=list[CompareCell])

    def cell_begins(self, cell: CellPlan, number: int, count: int) -> None:
        assert cell.num_clients > 0
        self.cells.append((number, count))

    def search_begins(self, side: Side, cell: CellPlan) -> None:
        assert cell.num_clients > 0
        self.searches.append(side)

    def trial_ended(self, side: Side, trial: SearchTrial) -> None:
        assert side in self.searches
        self.trials.append(trial)

    def round_ended(self, each: Round) -> None:
        self.rounds.append(each)

    def cell_ended(self, cell: CompareCell) -> None:
        self.ended.append(cell)


def little_plan(
    logs: Path, *, clients: tuple[int, ...] = (2,), what: tuple[str, str] = ("answers", "answers")
) -> ComparePlan:
    """Two little servers, ten rounds, throughput decides."""
    return ComparePlan(
        sides={
            side: SideSpec(name=f"little {side}", command=little_server(word), body={"side": side.value})
            for side, word in zip(Side, what, strict=True)
        },
        cells=cells_of(
            [fixed_work(prompt_tokens=5, max_tokens=TOKENS, count=8)],
            clients,
            slots=None,
            slot_context=None,
            form=PromptForm.TOKENS,
        ),
        rules=Rules(
            metrics=(metric_of("output_throughput"), metric_of("ttft_p50")), decides=("output_throughput",), margin=0.02
        ),
        load=LoadOptions(num_requests=4),
        hold=HoldOptions(logs=logs, grace_s=5),
    )


async def run_plan(plan: ComparePlan, formula: Formula, heard: Heard | None = None) -> Compared:
    """Run a plan on a formula."""
    return await compare(plan, formula, QuietDriver, heard or Heard())
