"""E2: one client over HTTP: what HTTP adds, and whether a client that leaves is noticed and its slot comes back."""

import random
from collections.abc import Sequence
from typing import Final

import msgspec

from arriero.bench.client_loop import run as run_on_loop
from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.end_to_end_cells import Cell, Kind, Plan, cell_name, run_cell
from arriero.bench.experiments.end_to_end_figures import answer_table, judge, left_table
from arriero.bench.experiments.experiment import Experiment, Outcome, Statement, Tell
from arriero.bench.experiments.failed_cells import FailedCells
from arriero.bench.experiments.placements import PlacementRefused, PlacementWord
from arriero.bench.experiments.served import model_facts
from arriero.record.strict import Name, Positive


class EndToEnd(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is run.

    Attributes:
        prompt: of every request.
        placements: each has a cell for every budget and kind, and one of streams that their client leaves.
        budgets: tokens of whole bodies and of streams; the first is the gate's.
        left_budget: tokens that a stream asks for which its client leaves.
        left_after: tokens after which it leaves.
        trials: measured in each cell.
        slot_tokens: KV positions of the one slot.
        threads: compute threads; a pinned engine has one CPU, hence 1.
        seed: of the order of cells.
    """

    model: ModelSettings
    prompt: Name
    placements: tuple[PlacementWord, ...]
    budgets: tuple[Positive, ...]
    left_budget: Positive
    left_after: Positive
    trials: Positive
    slot_tokens: Positive
    threads: Positive
    seed: int


def run(config: EndToEnd, tell: Tell) -> Outcome:
    """Measure and judge."""
    facts = model_facts(config.model)
    failed = FailedCells()
    cells, refused = run_on_loop(_cells(config, failed, tell))
    open_ones = (_not_run(placement, reason) for placement, reason in refused.items())
    return Outcome(
        statements=(failed.statement(), *judge(cells), *open_ones),
        tables=(answer_table(cells, config.model), left_table(cells, config.model)),
        limits=_limits(config),
        facts={**facts, "threads": config.threads, "order": [cell.name for cell in cells], **failed.facts},
        raw={"cells.jsonl": b"".join(msgspec.json.encode(cell) + b"\n" for cell in cells)},
    )


async def _cells(config: EndToEnd, failed: FailedCells, tell: Tell) -> tuple[list[Cell], dict[PlacementWord, str]]:
    """Every cell whose server served, run in an order by chance; and the placements that could not be had."""
    plan = Plan(
        model=config.model,
        prompt=config.prompt,
        trials=config.trials,
        gate_budget=config.budgets[0],
        left_budget=config.left_budget,
        left_after=config.left_after,
        slot_tokens=config.slot_tokens,
        threads=config.threads,
    )
    wanted: list[tuple[PlacementWord, Kind, int]] = [
        (placement, kind, budget) for placement in config.placements for kind, budget in _kinds(config)
    ]
    cells: list[Cell] = []
    refused: dict[PlacementWord, str] = {}
    for placement, kind, budget in random.Random(config.seed).sample(wanted, len(wanted)):
        if placement in refused:
            continue
        tell(f"{placement}, {kind}, budget {budget}")
        try:
            with failed.losing(cell_name(placement, kind, budget)):
                cells.append(await run_cell(plan, placement, kind, budget))
        except PlacementRefused as error:
            refused[placement] = str(error)
    return sorted(cells, key=lambda cell: wanted.index((cell.placement, cell.kind, cell.budget))), refused


def _kinds(config: EndToEnd) -> Sequence[tuple[Kind, int]]:
    answered: list[tuple[Kind, int]] = [(kind, budget) for kind in ("whole", "stream") for budget in config.budgets]
    return [*answered, ("left", config.left_budget)]


def _not_run(placement: PlacementWord, reason: str) -> Statement:
    return Statement.undecided(f"{placement}: every cell as in the other placements", "as elsewhere", reason)


def _limits(config: EndToEnd) -> tuple[str, ...]:
    return (
        "Client and server share the machine, and there is one client.",
        f"The published client left after 64 bytes; here it leaves after {config.left_after} tokens, which have more.",
        f"All placements compute with {config.threads} thread(s), since a pinned engine has one CPU.",
        "The gate compares texts: the endpoint that can be asked for an exact length does not tell token ids.",
    )


EXPERIMENT: Final = Experiment(
    name="end-to-end",
    number="E2",
    decides="Is a client that leaves noticed within a step, and is its slot there for the next request?",
    metric="answered probes, and the longest wait of a probe that follows a left stream at once",
    comparison="placements, kinds of answers and budgets, a fresh server for each, in an order by chance",
    difference="none may stay unanswered; three decode steps and a prefill bound the wait",
    config=EndToEnd,
    run=run,
)
