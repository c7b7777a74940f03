"""E7: what is gained when a request finds the beginning of its prompt in KV, and whether its answer stays the same.

Four workloads, an experiment each: a chat, one long beginning for all, one sentence forty times, and a control that
shares nothing. Each is served without reuse, by the rules of sessions (whole runs only, and common beginnings), by the
tree, by llama-server with its prompt cache on if there is one, and twice in exact mode.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from arriero.bench.client_loop import run as run_on_loop
from arriero.bench.experiments.contexts import ModelSettings, open_model
from arriero.bench.experiments.experiment import Experiment, Outcome, Statement, Tell
from arriero.bench.experiments.failed_cells import FailedCells
from arriero.bench.experiments.near_ties import NearTie, near_ties
from arriero.bench.experiments.prefix_reuse_cells import Cell, CellKey, Setting, Way, run_cell
from arriero.bench.experiments.prefix_reuse_figures import (
    counters_table,
    first_ms,
    of,
    partings,
    reuse_table,
    skipped_share,
    ties_table,
    tokens_per_s,
)
from arriero.bench.experiments.prefix_reuse_workloads import Texts, Turn, Workload, WorkloadSize, turns_of
from arriero.bench.experiments.samples import ratio, rounded
from arriero.bench.experiments.served import model_facts
from arriero.bench.experiments.sides import NO_PEER, check_peer
from arriero.metrics.client_life import Outcome as End
from arriero.metrics.paired import compare_pairs
from arriero.metrics.paired_verdict import PairedVerdict, Verdict
from arriero.record.strict import Count, Positive

Share = Annotated[float, Meta(ge=0, le=1)]

FALLS: Final = 0.8
"""Share of the prompt rows that the tree must save where prompts share a beginning."""

TTFT_SHARE: Final = 0.25


class PrefixReuse(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is run.

    Attributes:
        peer: path of llama-server; None: its cells are left out.
        peer_flags: further flags of it.
        flags: further flags of our own server.
        budget: tokens of every answer.
        measured, warm_ups: requests of each cell.
        turns: of a session of the chat.
        interleaved: how many of its sessions take turns, cell by cell; the first number has its bounds judged.
        rounds: of each cell; six are needed to judge that two ways are alike.
        slots, slot_tokens: of either server.
        threads: compute threads of either; 0: every CPU.
        margin: the smallest difference of speed that matters.
        near_tie: the largest gap of two logits that rounding may bridge.
        seed: of the order of cells.
    """

    model: ModelSettings
    peer: str | None = None
    peer_flags: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    texts: Texts
    budget: Positive
    measured: Positive
    warm_ups: Count
    turns: Positive = 1
    interleaved: Annotated[tuple[Positive, ...], Meta(min_length=1)] = (1,)
    rounds: Positive
    slots: Positive
    slot_tokens: Positive
    threads: Count
    margin: Share
    near_tie: Annotated[float, Meta(ge=0)]
    seed: int

    def turns_of(self, workload: Workload, interleaved: int) -> list[Turn]:
        """The requests of one cell."""
        size = WorkloadSize(
            measured=self.measured, warm_ups=self.warm_ups, turns=self.turns, interleaved=interleaved
        )  # fmt: skip
        return turns_of(workload, self.texts, size)

    def ways(self) -> list[Way]:
        """Those that can be run."""
        return [way for way in Way if self.peer is not None or not way.is_peer]


def run(workload: Workload, config: PrefixReuse, tell: Tell) -> Outcome:
    """Measure and judge."""
    check_peer(config.peer, config.model)
    config.texts.check(workload, config.measured + config.warm_ups)
    facts: dict[str, Any] = model_facts(config.model)
    failed = FailedCells()
    cells = run_on_loop(_cells(workload, config, failed, tell))
    ties = _ties(config, cells, tell)
    peer_build = next((each.build for each in cells if each.build), None)
    keys = [(way, number) for number in config.interleaved for way in config.ways()]
    return Outcome(
        statements=(failed.statement(), *judge(workload, config, cells, ties)),
        tables=(
            reuse_table(config.model, f"Prefix reuse, {workload}", cells, keys),
            counters_table(config.model, cells),
            *([ties_table(config.model, ties)] if ties else []),
        ),
        limits=_limits(config),
        facts={**facts, "threads": config.threads, "peer_build": peer_build, **failed.facts},
        raw={
            "cells.jsonl": b"".join(msgspec.json.encode(cell) + b"\n" for cell in cells),
            "differences.jsonl": b"".join(msgspec.json.encode(each) + b"\n" for each in ties),
        },
    )


async def _cells(workload: Workload, config: PrefixReuse, failed: FailedCells, tell: Tell) -> list[Cell]:
    """Every cell whose server served; in each round the ways come in another order."""
    setting = Setting(
        model=config.model,
        peer=config.peer,
        peer_flags=config.peer_flags,
        flags=config.flags,
        budget=config.budget,
        slots=config.slots,
        slot_tokens=config.slot_tokens,
        threads=config.threads,
    )
    order = random.Random(config.seed)
    cells: list[Cell] = []
    for number in range(config.rounds):
        keys = [CellKey(way=way, round=number, interleaved=each) for each in config.interleaved
                for way in config.ways()]  # fmt: skip
        order.shuffle(keys)
        for key in keys:
            name = f"round {number + 1} of {config.rounds}, {key.way}, {key.interleaved} interleaved"
            tell(name)
            with failed.losing(name):
                cells.append(await run_cell(setting, key, config.turns_of(workload, key.interleaved)))
    return cells


def _ties(config: PrefixReuse, cells: Sequence[Cell], tell: Tell) -> list[tuple[Way, NearTie]]:
    """Where answers under reuse part from those without it; both servers computed in the same mode."""
    by_way = {way: partings(cells, way) for way in Way if not way.is_peer and way is not way.baseline}
    if not any(by_way.values()):
        return []
    tell("gaps of the answers that differ")
    with open_model(config.model) as source:
        return [
            (way, tie)
            for way, found in by_way.items()
            for tie in near_ties(source, found, budget=config.budget, slot_tokens=config.slot_tokens)
        ]


# ── the statements ──────────────────────────────────────────────────────────────────────────────────────────────────


def judge(
    workload: Workload, config: PrefixReuse, cells: Sequence[Cell], ties: Sequence[tuple[Way, NearTie]]
) -> Iterator[Statement]:
    """The acceptance statements."""
    bad = sum(each.life.outcome is not End.LENGTH for cell in cells for each in cell.answers)
    yield Statement.equal("requests that failed, were rejected or ended early", bad, 0)
    yield Statement.equal("cells with incomplete records", sum(bool(cell.problems) for cell in cells), 0)
    first = config.interleaved[0]
    for way in (Way.OFF, Way.EXACT_OFF):
        yield _share(f"{way}: share of prompt rows skipped", of(cells, way, first), "==", 0.0)
    yield from (control if workload is Workload.CONTROL else sharing)(workload, config, cells)
    exact = [tie for way, tie in ties if way is Way.EXACT_TREE]
    yield Statement.equal("exact mode: answers under reuse that are not those without it", len(exact), 0)
    yield _near(config, [tie for way, tie in ties if way is not Way.EXACT_TREE])


def sharing(workload: Workload, config: PrefixReuse, cells: Sequence[Cell]) -> Iterator[Statement]:
    """What reuse must gain where prompts share a beginning."""
    first = config.interleaved[0]
    for way, least in _PUBLISHED[workload]:
        kind: Literal["==", ">="] = ">=" if least else "=="
        yield _share(f"{way}: share of prompt rows skipped", of(cells, way, first), kind, least)
    for number in config.interleaved:
        chosen, base = of(cells, Way.TREE, number), of(cells, Way.OFF, number)
        where = f"tree, {number} interleaved" if len(config.interleaved) > 1 else "tree"
        yield _share(f"{where}: share of prompt rows skipped", chosen, ">=", FALLS)
        firsts = ratio(first_ms(chosen).p50, first_ms(base).p50)
        yield Statement.at_most(f"{where}: TTFT p50 / no reuse", rounded(firsts), TTFT_SHARE)


def control(workload: Workload, config: PrefixReuse, cells: Sequence[Cell]) -> Iterator[Statement]:
    """That reuse neither helps nor harms where nothing is shared."""
    del workload
    first = config.interleaved[0]
    base = of(cells, Way.OFF, first)
    for way in (Way.SESSION_EXACT, Way.SESSION_PARTIAL, Way.TREE):
        chosen = of(cells, way, first)
        yield _share(f"{way}: share of prompt rows skipped", chosen, "==", 0.0)
        text, bound = f"{way}: tok/s against no reuse, round by round", "within noise"
        pairs = _pairs(base, chosen)
        found = compare_pairs(pairs, floor=None, seed=config.seed, higher_is_better=True, margin=config.margin)
        yield _neutral(text, bound, found)


_PUBLISHED: Final[dict[Workload, tuple[tuple[Way, float], ...]]] = {
    Workload.CHAT: ((Way.SESSION_EXACT, 0.75),),
    Workload.LONG_SYS: ((Way.SESSION_EXACT, 0.0), (Way.SESSION_PARTIAL, 0.85)),
    Workload.REPEAT_PREFIX: ((Way.SESSION_EXACT, 0.0), (Way.SESSION_PARTIAL, 0.85)),
}
"""What the rules of sessions skip at least; 0: nothing at all."""


def _share(text: str, cells: Sequence[Cell], kind: Literal["==", ">="], bound: float) -> Statement:
    words = f"exactly {bound:g}" if kind == "==" else f"at least {bound:g}"
    share = skipped_share(cells) if cells else None
    if share is None:
        return Statement.undecided(text, words, "no cell of it was measured")
    return Statement.equal(text, share, bound) if kind == "==" else Statement.at_least(text, rounded(share), bound)


def _pairs(base: Sequence[Cell], chosen: Sequence[Cell]) -> list[tuple[float, float]]:
    """Speeds of the rounds that both have."""
    speeds = {cell.round: tokens_per_s(cell) or 0.0 for cell in base}
    return [(speeds[cell.round], tokens_per_s(cell) or 0.0) for cell in chosen if cell.round in speeds]


def _neutral(text: str, bound: str, found: PairedVerdict) -> Statement:
    if found.verdict is Verdict.NO_VERDICT:
        return Statement.undecided(text, bound, "; ".join(found.reasons))
    shown = f"{found.verdict}, {found.reasons[0]}" if found.reasons else str(found.verdict)
    is_alike = found.verdict in {Verdict.NOT_RESOLVED, Verdict.NO_LARGER_DIFFERENCE}
    return Statement.so(text, shown, bound, holds=is_alike)


def _near(config: PrefixReuse, ties: Sequence[NearTie]) -> Statement:
    text = "fast mode: largest logit gap at the first difference of an answer under reuse"
    bound = f"at most {config.near_tie:g}"
    if not ties:
        return Statement.so(text, "no answer differs", bound, holds=True)
    gaps = [tie.gap for tie in ties if tie.gap is not None]
    if len(gaps) < len(ties):
        return Statement.undecided(text, bound, "an answer differs by a text that no token begins")
    return Statement.at_most(text, rounded(max(map(abs, gaps))), config.near_tie)


def _limits(config: PrefixReuse) -> tuple[str, ...]:
    return (
        "Prompts are texts, so a next prompt need not begin with the very token ids of the last answer.",
        "One client asks one request after the other: what is shared while others run is another experiment.",
        "Answers of llama-server are counted against ours without reuse, not judged.",
        *(() if config.peer is not None else (NO_PEER[:1].upper() + NO_PEER[1:] + ".",)),
    )


def _experiment(workload: Workload, name: str, decides: str, difference: str) -> Experiment[PrefixReuse]:
    measure: Callable[[PrefixReuse, Tell], Outcome] = partial(run, workload)
    return Experiment(
        name=name,
        number="E7",
        decides=decides,
        metric="prompt rows skipped, TTFT, and answers unlike those without reuse",
        comparison="ways of serving the same requests, each on a fresh server, in an order by chance for each round",
        difference=difference,
        config=PrefixReuse,
        run=measure,
    )


W_CHAT: Final = _experiment(
    Workload.CHAT,
    "w-chat",
    "How many prompt rows of a conversation does reuse skip, and does it change an answer?",
    "75 % of the rows with exact sessions, 80 % with the tree; TTFT p50 a quarter; no other answer in exact mode",
)
W_LONG_SYS: Final = _experiment(
    Workload.LONG_SYS,
    "w-long-sys",
    "How many prompt rows does reuse skip where every request begins with one long text?",
    "85 % of the rows with partial sessions, 80 % with the tree, none with exact sessions; TTFT p50 a quarter",
)
W_REPEAT_PREFIX: Final = _experiment(
    Workload.REPEAT_PREFIX,
    "w-repeat-prefix",
    "How many prompt rows does reuse skip where every request begins with the same sentence, forty times?",
    "85 % of the rows with partial sessions, 80 % with the tree, none with exact sessions; TTFT p50 a quarter",
)
W_CONTROL: Final = _experiment(
    Workload.CONTROL,
    "w-control",
    "Does reuse cost anything where there is nothing to reuse?",
    "no row skipped, and a speed that is within noise",
)
