"""E7: what is gained when a request finds the beginning of its prompt in KV, and whether its answer stays the same.

Workloads are complete; so are the cells without reuse, and those of llama-server. The cells that need sessions say
that this version has none: they are not run, and never count as passed.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from arriero.bench.client_loop import run as run_on_loop
from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.experiment import Experiment, Outcome, Statement, Table, Tell, Value
from arriero.bench.experiments.failed_cells import FailedCells
from arriero.bench.experiments.prefix_reuse_cells import NOT_BUILT, Cell, Setting, Way, run_cell
from arriero.bench.experiments.prefix_reuse_workloads import Texts, Workload, WorkloadSize, turns_of
from arriero.bench.experiments.samples import NS_PER_MS, http_label, ratio, rounded, samples
from arriero.bench.experiments.served import model_facts
from arriero.bench.experiments.sides import NO_PEER, check_peer
from arriero.metrics.client_life import ClientLife
from arriero.metrics.client_life import Outcome as End
from arriero.record.strict import Count, Positive

SKIPPED: Final = (
    (Workload.CHAT, Way.EXACT, "at least 75 % of its prompt rows"),
    (Workload.LONG_SYS, Way.EXACT, "0 prompt rows"),
    (Workload.LONG_SYS, Way.PARTIAL, "at least 85 % of its prompt rows"),
    (Workload.REPEAT_PREFIX, Way.PARTIAL, "at least 85 % of its prompt rows"),
    (Workload.CONTROL, Way.EXACT, "0 prompt rows"),
    (Workload.CONTROL, Way.PARTIAL, "0 prompt rows"),
)
"""What each kind of reuse has to skip."""

ON_REUSE: Final = (
    ("control is served as fast with sessions as without", "within noise"),
    ("answers under reuse that are not those without it, in a bit-exact configuration", "exactly 0"),
    ("other answers under reuse that are not those without it", "each shown to be a near-tie by its logit gap"),
)


class PrefixReuse(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is run.

    Attributes:
        peer: path of llama-server; None: its cells are left out.
        peer_flags: further flags of it.
        workloads: which of them.
        budget: tokens of every answer.
        measured, warm_ups: requests of each cell.
        turns, interleaved: of the chat's sessions.
        slots, slot_tokens: of either server.
        threads: compute threads of either; 0: every CPU.
        seed: of the order of cells.
    """

    model: ModelSettings
    peer: str | None = None
    peer_flags: tuple[str, ...] = ()
    workloads: tuple[Workload, ...]
    texts: Texts
    budget: Positive
    measured: Positive
    warm_ups: Count
    turns: Positive
    interleaved: Positive
    slots: Positive
    slot_tokens: Positive
    threads: Count
    seed: int


def run(config: PrefixReuse, tell: Tell) -> Outcome:
    """Measure and judge."""
    check_peer(config.peer, config.model)
    facts: dict[str, Any] = model_facts(config.model)
    failed = FailedCells()
    cells = run_on_loop(_cells(config, failed, tell))
    peer_build = next((each.build for each in cells if each.build), None)
    facts |= {"threads": config.threads, "peer_build": peer_build, **failed.facts}
    return Outcome(
        statements=(failed.statement(), *judge(config, cells)),
        tables=(_table(config, cells),),
        limits=_limits(config),
        facts=facts,
        raw={"cells.jsonl": b"".join(msgspec.json.encode(cell) + b"\n" for cell in cells)},
    )


async def _cells(config: PrefixReuse, failed: FailedCells, tell: Tell) -> list[Cell]:
    """Every cell that can be run and whose server served, ways in another order for each workload."""
    setting = Setting(
        model=config.model,
        peer=config.peer,
        peer_flags=config.peer_flags,
        budget=config.budget,
        slots=config.slots,
        slot_tokens=config.slot_tokens,
        threads=config.threads,
    )
    size = WorkloadSize(
        measured=config.measured, warm_ups=config.warm_ups, turns=config.turns, interleaved=config.interleaved
    )
    ways = [way for way in Way if way not in NOT_BUILT and (config.peer is not None or not way.is_peer)]
    order = random.Random(config.seed)
    cells: list[Cell] = []
    for workload in config.workloads:
        turns = turns_of(workload, config.texts, size)
        for way in order.sample(ways, len(ways)):
            name = f"{workload}, {way}"
            tell(name)
            with failed.losing(name):
                cells.append(await run_cell(setting, workload, way, turns))
    return cells


def judge(config: PrefixReuse, cells: Sequence[Cell]) -> Iterator[Statement]:
    """The acceptance statements."""
    failed = sum(life.outcome is not End.LENGTH for cell in cells for life in cell.lives)
    yield Statement.equal("requests that failed, were rejected or ended early", failed, 0)
    yield Statement.equal("cells with incomplete records", sum(bool(cell.problems) for cell in cells), 0)
    ours = [cell for cell in cells if cell.way is Way.NO_SESSION]
    skipped = sum(cell.prompt_tokens - (cell.prefill_rows or 0) for cell in ours)
    yield Statement.equal("without sessions: prompt rows that were not computed", skipped, 0)
    reason = NOT_BUILT[Way.EXACT]
    for workload, way, bound in SKIPPED:
        if workload in config.workloads:
            yield Statement.undecided(f"{workload}, {way}: prompt rows skipped", bound, reason)
    for text, bound in ON_REUSE:
        yield Statement.undecided(text, bound, reason)


def _table(config: PrefixReuse, cells: Sequence[Cell]) -> Table:
    by_key = {(cell.workload, cell.way): cell for cell in cells}
    rows: list[tuple[Value, ...]] = []
    for workload in config.workloads:
        base = by_key.get((workload, Way.NO_SESSION))
        for way in Way:
            cell = by_key.get((workload, way))
            if cell is None:
                rows.append((workload.value, way.value, 0, *[None] * 8, _why_not(config, way)))
                continue
            firsts = samples(map(_first_ns, cell.lives), NS_PER_MS)
            rows.append((
                workload.value,
                way.value,
                len(cell.lives),
                rounded(ratio(cell.prompt_tokens, len(cell.lives))),
                cell.prefill_rows,
                rounded(_skipped_share(cell)),
                rounded(firsts.p50),
                rounded(firsts.p95),
                None if base is None else rounded(ratio(firsts.p50, _first_p50(base))),
                rounded(_tokens_per_s(cell)),
                None if base is None else _num_different(cell, base),
                "",
            ))  # fmt: skip
    return Table(
        title="Prefix reuse",
        label=http_label(config.model),
        heads=(
            "workload", "way", "requests", "mean prompt tokens", "prompt rows computed", "share skipped",
            "TTFT p50, ms", "TTFT p95, ms", "TTFT p50 / no session", "tok/s", "texts unlike no session", "note",
        ),
        rows=tuple(rows),
        note=(
            "One sequential client. In the chat an answer becomes part of the next prompt, so a text that differs "
            "changes every later turn of its session."
        ),
    )  # fmt: skip


def _why_not(config: PrefixReuse, way: Way) -> str:
    if way in NOT_BUILT:
        return f"not run: {NOT_BUILT[way]}"
    return f"not run: {NO_PEER}" if way.is_peer and config.peer is None else "no result: its server failed"


def _skipped_share(cell: Cell) -> float | None:
    computed = cell.prefill_rows
    return None if computed is None else ratio(cell.prompt_tokens - computed, cell.prompt_tokens)


def _num_different(cell: Cell, base: Cell) -> int:
    """Answers that are not those of the baseline to the same turn."""
    expected = {life.request_id: life.text_sha256 for life in base.lives}
    return sum(life.text_sha256 != expected.get(life.request_id) for life in cell.lives)


def _first_p50(cell: Cell) -> float | None:
    return samples(map(_first_ns, cell.lives), NS_PER_MS).p50


def _first_ns(life: ClientLife) -> float:
    return life.chunk_at[0] - life.sent_at if life.chunk_at and life.sent_at is not None else float("inf")


def _tokens_per_s(cell: Cell) -> float | None:
    sent = [life.sent_at for life in cell.lives if life.sent_at is not None]
    closed = [life.closed_at for life in cell.lives if life.closed_at is not None]
    seconds = (max(closed) - min(sent)) / 1e9 if sent and closed else 0.0
    return ratio(sum(life.num_tokens or 0 for life in cell.lives), seconds)


def _limits(config: PrefixReuse) -> tuple[str, ...]:
    return (
        "No request leaves anything in KV for a later one in this version: the ways of serving with reuse are not run.",
        "Prompts are texts, so a next prompt need not begin with the very token ids of the last answer.",
        "Texts of two servers may differ without anything being wrong: they are counted, not judged.",
        *(() if config.peer is not None else (NO_PEER[:1].upper() + NO_PEER[1:] + ".",)),
    )


EXPERIMENT: Final = Experiment(
    name="prefix-reuse",
    number="E7",
    decides="How many prompt rows does reuse of a prefix skip, and does it change an answer?",
    metric="prompt rows skipped, and answers unlike those without reuse",
    comparison="ways of serving the same turns, each on a fresh server, in an order by chance for each workload",
    difference="75 % of the rows of chat with exact reuse, 85 % of shared prefixes with partial reuse, none of control",
    config=PrefixReuse,
    run=run,
)
