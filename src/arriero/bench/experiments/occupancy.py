"""E6: does admission keep the slots full, when there is work?

    crowded   more clients than slots, each with its next request as soon as it has an answer
    matched   as many clients as slots: a slot stands empty from an answer to the next request
    ladder    1 to 32 clients
    offered   arrivals that do not wait for answers, at shares of the rate that the crowded cell served

A fresh server for each cell, ended through `POST /shutdown`, and everything counted from its own rows.
"""

from collections.abc import Awaitable, Iterator, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from arriero.bench.client_loop import run as run_on_loop
from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.experiment import Experiment, Outcome, Statement, Table, Tell, Value
from arriero.bench.experiments.failed_cells import FailedCells
from arriero.bench.experiments.occupancy_cells import Cell, Setting, closed, offered
from arriero.bench.experiments.occupancy_figures import (
    OCCUPANCY_HEADS,
    cells_of,
    judge_crowded,
    judge_matched,
    judge_offered,
)
from arriero.bench.experiments.samples import NS_PER_MS, http_label, median, ratio, rounded, stable
from arriero.bench.experiments.served import model_facts
from arriero.record.strict import Count, Name, Positive

CROWDED: Final = "crowded"
MATCHED: Final = "matched"

Share = Annotated[float, Meta(gt=0, le=10)]


class OccupancyLab(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is run.

    Attributes:
        prompt: of every request.
        budget: tokens of every answer.
        slots: requests that run at once.
        slot_tokens: KV positions of each.
        threads: compute threads; 0: every CPU.
        crowded_clients: of the first cell; that many may be in flight.
        requests_per_client: of the first two cells.
        ladder: further numbers of clients.
        ladder_requests: of each of them.
        offered_shares: arrival rates, as shares of the rate that the crowded cell served.
        offered_requests: of each of these.
        seed: of the arrivals.
    """

    model: ModelSettings
    prompt: Name
    budget: Positive
    slots: Positive
    slot_tokens: Positive
    threads: Count
    crowded_clients: Positive
    requests_per_client: Positive
    ladder: tuple[Positive, ...]
    ladder_requests: Positive
    offered_shares: tuple[Share, ...]
    offered_requests: Positive
    seed: int


def run(config: OccupancyLab, tell: Tell) -> Outcome:
    """Measure and judge."""
    facts = model_facts(config.model)
    failed = FailedCells()
    cells = run_on_loop(_cells(config, failed, tell))
    return Outcome(
        statements=(failed.statement(), *judge(config, cells)),
        tables=(_table(config, cells),),
        limits=_limits(),
        facts={**facts, "threads": config.threads, "slots": config.slots, **failed.facts},
        raw={f"{cell.name.replace(' ', '_')}.jsonl": _lines(cell) for cell in cells},
    )


async def _cells(config: OccupancyLab, failed: FailedCells, tell: Tell) -> list[Cell]:
    """Every cell whose server served; arrivals need the rate of the crowded one."""
    setting = Setting(
        model=config.model,
        prompt=config.prompt,
        budget=config.budget,
        slots=config.slots,
        slot_tokens=config.slot_tokens,
        threads=config.threads,
        seed=config.seed,
    )
    most = config.crowded_clients
    loads = [(CROWDED, most, config.requests_per_client), (MATCHED, config.slots, config.requests_per_client)]
    loads += [(f"{clients} clients", clients, config.ladder_requests) for clients in config.ladder]
    cells: list[Cell] = []

    async def keep(name: str, cell: Awaitable[Cell]) -> None:
        tell(name)
        with failed.losing(name):
            cells.append(await cell)

    for name, clients, requests in loads:
        in_flight = max(clients, most)
        await keep(name, closed(setting, name, clients=clients, requests=requests, in_flight=in_flight))
    crowded = _of(cells, CROWDED)
    if crowded is None:
        return cells
    for share in config.offered_shares:
        name, rate = _offered_name(share), share * crowded.rate_per_s
        await keep(name, offered(setting, name, rate_per_s=rate, requests=config.offered_requests))
    return cells


def judge(config: OccupancyLab, cells: Sequence[Cell]) -> Iterator[Statement]:
    """The acceptance statements; what a cell would have decided that is not there stays open."""
    yield Statement.equal("requests that failed, were rejected or ended early", sum(c.num_failed for c in cells), 0)
    yield Statement.equal("cells with incomplete records", sum(bool(c.problems) for c in cells), 0)
    texts: dict[object, set[str]] = {}
    for cell in cells:
        if cell.clients == 1:
            texts.setdefault("the prompt", set()).update(life.text_sha256 or "none" for life in cell.lives)
    yield stable("1 client: every answer is the same", texts)
    crowded, matched = _of(cells, CROWDED), _of(cells, MATCHED)
    if crowded is None:
        yield _undecided("crowded: mean active while the queue is not empty, share, steps and rows", CROWDED)
    else:
        yield from judge_crowded(
            crowded.found,
            slots=config.slots,
            requests=len(crowded.lives),
            budget=config.budget,
            prompt_tokens=crowded.prompt_tokens,
        )
    if crowded is None or matched is None:
        yield _undecided("as many clients as slots: no queue, and emptier slots", CROWDED, MATCHED)
    else:
        yield from judge_matched(matched.found, crowded.found)
    for share in config.offered_shares:
        name = _offered_name(share)
        found = _of(cells, name)
        if found is None:
            yield _undecided(f"{name}: steps in which somebody waited beside an empty slot", CROWDED, name)
        else:
            yield judge_offered(name, found.rows, slots=config.slots, fault=found.fault)


def _undecided(text: str, *names: str) -> Statement:
    return Statement.undecided(text, "as in its cell", f"no result of {' or '.join(names)}")


def _of(cells: Sequence[Cell], name: str) -> Cell | None:
    return next((cell for cell in cells if cell.name == name), None)


def _offered_name(share: float) -> str:
    return f"offered {share:g}"


def _table(config: OccupancyLab, cells: Sequence[Cell]) -> Table:
    rows: list[tuple[Value, ...]] = []
    for cell in cells:
        hashes = {life.text_sha256 for life in cell.lives}
        waits = median(life.closed_at - life.sent_at for life in cell.lives if life.closed_at and life.sent_at)
        rows.append((
            cell.name,
            len(cell.lives),
            cell.num_failed,
            *cells_of(cell.found),
            rounded(ratio(waits, NS_PER_MS)),
            len(hashes),
            None if cell.validity is None else cell.validity.flag.value,
        ))  # fmt: skip
    return Table(
        title="Occupancy under offered load",
        label=http_label(config.model),
        heads=("load", "requests", "failed", *OCCUPANCY_HEADS, "answer p50, ms", "texts", "validity"),
        rows=tuple(rows),
        note=(
            "The warm-up of each cell is left out. Offered: Poisson arrivals at a share of the rate that the crowded "
            "cell served; validity says whether they were sent when they were due. Answers in different company need "
            "not be equal bit by bit, so texts of more than one client are counted only."
        ),
    )


def _limits() -> tuple[str, ...]:
    return (
        "Client and server share the machine.",
        "That slots are empty with as many clients as slots is the closed loop: no work is ready then.",
    )


def _lines(cell: Cell) -> bytes:
    about = () if cell.validity is None else (cell.validity,)
    return b"".join(msgspec.json.encode(row) + b"\n" for row in (*cell.rows, *cell.lives, *about))


EXPERIMENT: Final = Experiment(
    name="occupancy",
    number="E6",
    decides="Does admission keep every slot busy while requests wait?",
    metric="requests that hold a slot, in the steps after whose admissions somebody still waits",
    comparison="loads on fresh servers: more clients than slots, as many, a ladder, and Poisson arrivals",
    difference="exactly the number of slots; steps within 1 % of the closed form",
    config=OccupancyLab,
    run=run,
)
