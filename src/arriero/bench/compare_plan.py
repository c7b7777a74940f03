"""ComparePlan: everything about a comparison that is fixed before it starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from arriero.bench.compare_sides import SideSpec, StandOptions
from arriero.bench.compare_verdicts import Rules
from arriero.bench.prompts import PromptForm
from arriero.bench.rounds import FEWEST_AA_ROUNDS, FEWEST_ROUNDS, Order, Side, order_of
from arriero.bench.schedule import Schedule
from arriero.bench.schedule_arrivals import ClosedLoop
from arriero.bench.schedule_making import AskOptions, ScheduleOptions, make_schedule
from arriero.bench.schedule_work import Work
from arriero.bench.search import SearchPlan
from arriero.bench.servers import GRACE_S, START_TIMEOUT_S
from arriero.bench.servers_commands import ServerValues
from arriero.core.errors import ConfigError
from arriero.metrics.paired_figures import fewest_pairs

ROUNDS: Final = 10
LEAST_SLOTS: Final = 8
LEAST_REQUESTS: Final = 8
REQUESTS_A_CLIENT: Final = 3
_CELLS: Final = 256  # llama.cpp rounds a sequence's share of KV up to a multiple of it
_TOKENS_A_WORD: Final = 2  # at most, of the words that text prompts are made of


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """What each round asks, in all cells.

    Attributes:
        num_requests: of a round; None: three for each client, at least eight.
        num_warm_up: requests that warm a fresh server and are asked again at the end; None: as many as a round.
        seed: of prompts.
        asks: how requests are asked; the form is chosen by what both sides take.
    """

    num_requests: int | None = None
    num_warm_up: int | None = None
    seed: int = 0
    asks: AskOptions = field(default_factory=lambda: AskOptions(ignore_eos=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class CellPlan:
    """One number of clients and one workload.

    Attributes:
        num_clients: of the closed loop.
        work: what they ask.
        slots: requests that a server runs at once.
        slot_context: KV cells of each.
    """

    num_clients: int
    work: Work
    slots: int
    slot_context: int

    def setting(self) -> dict[str, Any]:
        """As it is stored and printed."""
        return {
            "clients": self.num_clients,
            "workload": self.work.name,
            "slots": self.slots,
            "slot_context": self.slot_context,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldOptions:
    """How servers are held, in all cells; see `StandOptions`."""

    logs: Path
    model: str | None = None
    threads: int = 1
    one_at_a_time: bool = False
    timeout_s: float = START_TIMEOUT_S
    grace_s: float = GRACE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparePlan:
    """The whole comparison.

    Attributes:
        sides: what is compared.
        cells: at least one.
        rules: by what is judged.
        load: what is asked.
        hold: how servers are held.
        order: of the sides within rounds.
        num_rounds: of A against B, in each cell.
        num_aa_rounds: of A against itself, before; 0 leaves the noise floor unknown.
        seed: of orders.
        searches: for the flags of a side.
        search_each: in each cell; else once, in the cell with the most clients.
    """

    sides: Mapping[Side, SideSpec]
    cells: tuple[CellPlan, ...]
    rules: Rules
    load: LoadOptions
    hold: HoldOptions
    order: Order = Order.ABBA
    num_rounds: int = ROUNDS
    num_aa_rounds: int = ROUNDS
    seed: int = 0
    searches: Mapping[Side, SearchPlan] = field(default_factory=dict[Side, SearchPlan])
    search_each: bool = False

    def check(self) -> None:
        """Refuse before anything is started what would be refused at its end.

        Raises:
            ConfigError: too few rounds for any verdict, or a side that cannot be held as planned.
        """
        fewest = max(FEWEST_ROUNDS, fewest_pairs(self.rules.confidence))
        if self.num_rounds < fewest:
            raise ConfigError(
                f"--rounds {self.num_rounds}: no verdict at {self.rules.confidence:.0%} confidence can come of less "
                f"than {fewest}; give more"
            )
        self.main_order()
        if self.num_aa_rounds < 0 or self.num_aa_rounds % 2:
            raise ConfigError(f"--aa-rounds {self.num_aa_rounds}: use an even number, or 0 for no noise floor")
        for side, spec in self.sides.items():
            if spec.command is not None:
                spec.command.check(self.values(self.cells[0]))
            elif self.hold.one_at_a_time:
                raise ConfigError(f"{spec.url}: a server that runs already cannot be started anew; give a command")
            elif side in self.searches:
                raise ConfigError(f"{spec.url}: only a server that is started here can be searched for; give a command")

    def main_order(self) -> tuple[Side, ...]:
        """Of the rounds of A against B."""
        return order_of(self.order, self.num_rounds, self.seed)

    def aa_order(self) -> tuple[Side, ...]:
        """Of the rounds of A against itself; empty without any."""
        if not self.num_aa_rounds:
            return ()
        return order_of(self.order, self.num_aa_rounds, self.seed + 1, fewest=FEWEST_AA_ROUNDS)

    def values(self, cell: CellPlan) -> ServerValues:
        """What stands for the names in braces."""
        return ServerValues(
            model=self.hold.model, threads=self.hold.threads, slots=cell.slots, slot_context=cell.slot_context
        )

    def stand_options(self, cell: CellPlan, folder: str, *, one_at_a_time: bool | None = None) -> StandOptions:
        """How servers of a cell are held; their logs go into a folder of its own."""
        return StandOptions(
            values=self.values(cell),
            logs=self.hold.logs / folder,
            one_at_a_time=self.hold.one_at_a_time if one_at_a_time is None else one_at_a_time,
            timeout_s=self.hold.timeout_s,
            grace_s=self.hold.grace_s,
        )

    def form(self) -> PromptForm:
        """One form for both sides, so that they do the same work: token ids unless one of them takes text only."""
        forms = {spec.prompt_form for spec in self.sides.values()}
        return PromptForm.TEXT if PromptForm.TEXT in forms else self.load.asks.form

    def schedule(self, cell: CellPlan, salt: str, *, is_warm_up: bool = False) -> Schedule:
        """What one round asks, of both sides; another salt gives other prompts where the workload leaves them open.

        Raises:
            ConfigError: the workload is too small. BadWorkload: a request cannot be asked.
        """
        load = self.load
        count = load.num_requests or max(LEAST_REQUESTS, REQUESTS_A_CLIENT * cell.num_clients)
        if is_warm_up and load.num_warm_up is not None:
            count = load.num_warm_up
        options = ScheduleOptions(
            loop=ClosedLoop(num_clients=cell.num_clients),
            asks=replace(load.asks, form=self.form()),
            seed=load.seed,
            salt=salt,
            num_requests=count,
        )
        return make_schedule(cell.work, options)


def cells_of(
    works: Sequence[Work], clients: Sequence[int], *, slots: int | None, slot_context: int | None, form: PromptForm
) -> tuple[CellPlan, ...]:
    """A cell for each workload and number of clients.

    Args:
        works: what is asked.
        clients: how many ask.
        slots: of a server; None: as many as clients, at least eight.
        slot_context: KV cells of a slot; None: what the longest request needs.
        form: of prompts; text may have more tokens than words.
    """
    return tuple(
        CellPlan(
            num_clients=each,
            work=work,
            slots=max(LEAST_SLOTS, each) if slots is None else slots,
            slot_context=_needed(work, form) if slot_context is None else slot_context,
        )
        for work in works
        for each in clients
    )


def _needed(work: Work, form: PromptForm) -> int:
    """The cells of the longest request, and one for a token that a server may put before its prompt."""
    factor = 1 if form is PromptForm.TOKENS else _TOKENS_A_WORD
    most = max((factor * each.prompt_token_count + each.max_new_tokens for each in work.records), default=1)
    return -(-(most + 1) // _CELLS) * _CELLS
