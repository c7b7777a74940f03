"""A comparison from its plan to its cells: the search for flags, then cell by cell.

Whatever happens, what was measured is kept: a cell that a server's end cut short is stored with its rounds and without
a verdict, and no server is left running.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol

from arriero.bench.compare_plan import CellPlan, ComparePlan
from arriero.bench.compare_rounds import Instrument, Interrupted, Rounds
from arriero.bench.compare_sides import MakeDriver, SideSpec, Stand, require_there
from arriero.bench.compare_texts import Texts
from arriero.bench.compare_verdicts import Status, judged, status_of, unjudged, worst_status
from arriero.bench.rounds import Side
from arriero.bench.search import Flags, search
from arriero.bench.search_plans import as_json
from arriero.bench.servers import ServerFailed
from arriero.bench.servers_commands import with_flags
from arriero.core.errors import ConfigError
from arriero.metrics.validity import Flag
from arriero.record.bench_compare_parts import CompareCell, Round, Search, SearchTrial


class Watcher(Protocol):
    """Is told how far a comparison has come."""

    def cell_begins(self, cell: CellPlan, number: int, count: int) -> None:
        """A cell, counted from 1."""
        ...

    def search_begins(self, side: Side, cell: CellPlan) -> None:
        """A search for flags."""
        ...

    def trial_ended(self, side: Side, trial: SearchTrial) -> None:
        """A trial, when its rung is over."""
        ...

    def round_ended(self, each: Round) -> None:
        """A round of any phase."""
        ...

    def cell_ended(self, cell: CompareCell) -> None:
        """A judged cell."""
        ...


@dataclass(slots=True)
class Compared:
    """What came of a comparison.

    Attributes:
        status: how it ended.
        error: what ended it; None if it is done.
        cells: in the order of running; the last one may be cut short.
        searches: in the order of running.
        facts: of each side, as its server told them.
    """

    status: Literal["done", "failed", "interrupted"] = "done"
    error: str | None = None
    cells: list[CompareCell] = field(default_factory=list[CompareCell])
    searches: list[Search] = field(default_factory=list[Search])
    facts: dict[Side, dict[str, Any]] = field(default_factory=dict[Side, dict[str, Any]])

    def verdict(self, plan: ComparePlan) -> Status:
        """What the whole comparison comes to."""
        if self.status != "done":
            return Status.FAILED
        return worst_status([status_of(cell, plan.rules) for cell in self.cells])


async def compare(plan: ComparePlan, instrument: Instrument, make_driver: MakeDriver, watcher: Watcher) -> Compared:
    """Run a plan.

    A server that fails and an interrupt end it early and are no exception.

    Raises:
        ConfigError: the plan cannot work; nothing was measured then.
    """
    plan.check()
    comparison = _Comparison(plan, instrument, make_driver, watcher)
    try:
        await comparison.run()
    except ServerFailed as error:
        comparison.found.status, comparison.found.error = "failed", str(error)
    except Interrupted:
        comparison.found.status, comparison.found.error = "interrupted", "stopped by the user"
    except ConfigError as error:
        if not any(cell.rounds for cell in comparison.found.cells):
            raise
        comparison.found.status, comparison.found.error = "failed", str(error)  # such as an address gone dead
    if not comparison.found.cells:  # it ended in the search; a file has at least one cell
        nothing = {side: Texts() for side in Side}
        setting, order = plan.cells[0].setting(), plan.main_order()
        comparison.found.cells.append(unjudged(setting, order, (), nothing, (), plan.rules))
    return comparison.found


class _Comparison:
    """The state of one run."""

    def __init__(self, plan: ComparePlan, instrument: Instrument, make_driver: MakeDriver, watcher: Watcher) -> None:
        self.found = Compared()
        self._plan = plan
        self._instrument = instrument
        self._make_driver = make_driver
        self._watcher = watcher
        self._flags: dict[Side, Flags] = {}
        self._num_trials = 0

    async def run(self) -> None:
        plan = self._plan
        for spec in plan.sides.values():
            await require_there(spec)
        if not plan.search_each and plan.searches:
            most = max(plan.cells, key=lambda cell: cell.num_clients)
            await self._search(most)
        for number, cell in enumerate(plan.cells, start=1):
            if plan.search_each:
                await self._search(cell)
            self._watcher.cell_begins(cell, number, len(plan.cells))
            await self._cell(cell, f"cell-{number}")

    async def _cell(self, cell: CellPlan, folder: str) -> None:
        """Measure and judge one cell; what was measured is kept however it ends."""
        plan = self._plan
        warm_up = plan.schedule(cell, "warm-up", is_warm_up=True)
        stand = Stand(self._specs(), plan.stand_options(cell, folder), self._make_driver)
        rounds = Rounds(stand, self._instrument, plan.rules.metrics, warm_up, self._watcher.round_ended)
        is_whole = False
        try:
            async with stand:
                await self._all_rounds(cell, rounds)
            is_whole = True
        finally:
            self.found.facts |= stand.facts
            done = unjudged(cell.setting(), plan.main_order(), rounds.measured, rounds.texts, stand.runs, plan.rules)
            done = judged(done, plan.rules) if is_whole else done
            self.found.cells.append(done)
            self._watcher.cell_ended(done)

    async def _all_rounds(self, cell: CellPlan, rounds: Rounds) -> None:
        plan = self._plan
        order, aa_order = plan.main_order(), plan.aa_order()
        # Sides of a pair are asked the same. Halves of an A/A pair are not: one server would know the prompts already.
        aa = [plan.schedule(cell, f"aa-{number}") for number in range(len(aa_order))]
        ab = [plan.schedule(cell, f"ab-{number // 2}") for number in range(len(order))]
        if not plan.hold.one_at_a_time:  # both are there from the first round on, so that all rounds are alike
            for side in Side:
                await rounds.warm(side)
        await rounds.pairs("aa", aa_order, aa, only=Side.A)
        await rounds.pairs("ab", order, ab)
        await rounds.check()

    async def _search(self, cell: CellPlan) -> None:
        """Search the flags of each side that asks for it, on the load of a cell."""
        plan = self._plan
        decides = next(metric for metric in plan.rules.metrics if metric.name in plan.rules.decides)
        for side, search_plan in plan.searches.items():
            self._watcher.search_begins(side, cell)
            outcome = await search(
                search_plan,
                partial(self._trial, side, cell, decides.name),
                higher_is_better=decides.higher_is_better,
                seed=plan.seed,
                tell=partial(self._watcher.trial_ended, side),
            )
            self._flags[side] = outcome.best
            self.found.searches.append(
                Search(
                    side=side.value,
                    setting=cell.setting(),
                    plan=as_json(search_plan),
                    metric=decides.name,
                    trials=outcome.trials,
                    best=outcome.best,
                )
            )

    def _specs(self) -> Mapping[Side, SideSpec]:
        return {side: _flagged(spec, self._flags.get(side, ())) for side, spec in self._plan.sides.items()}

    async def _trial(self, side: Side, cell: CellPlan, metric: str, flags: Flags, number: int) -> float | None:
        """One trial of a search: a fresh server, warmed, one round; None if the round is invalid."""
        plan = self._plan
        spec = _flagged(plan.sides[side], flags)
        self._num_trials += 1
        options = plan.stand_options(cell, f"search/{self._num_trials:03d}", one_at_a_time=False)
        warm_up = plan.schedule(cell, "warm-up", is_warm_up=True)
        async with Stand({side: spec}, options, self._make_driver) as stand:
            rounds = Rounds(stand, self._instrument, plan.rules.metrics, warm_up)
            found = await rounds.one("ab", None, side, plan.schedule(cell, f"search-{number}"), side)
        return None if found.point.validity.flag is Flag.INVALID else found.values[metric]


def _flagged(spec: SideSpec, flags: Flags) -> SideSpec:
    if spec.command is None or not flags:
        return spec
    return replace(spec, command=with_flags(spec.command, flags))
