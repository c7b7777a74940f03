"""A page of explained requests: a bar for each, what all of them waited for, and the slowest one by one."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from arriero.metrics.explain_parts import NOTHING, PARTS, Basis, Explanation, Part, Share, Split, State
from arriero.report.document import (
    Alert,
    Badge,
    Column,
    Document,
    Fold,
    Level,
    Picture,
    Section,
    Table,
    Text,
    present,
)
from arriero.report.document import Part as DocumentPart
from arriero.report.explain_journal import ExplainedRun
from arriero.report.sim_document import MADE_BY
from arriero.report.written import UNDEFINED, Unit, written

MOST_BARS: Final = 64
MOST_TOLD: Final = 12
"""Requests whose story is told in words: those that took longest."""

WORDS: Final[Mapping[Part, str]] = MappingProxyType({
    Part.QUEUE: "queue",
    Part.PREFIX: "shared prefix",
    Part.OWN_PREFILL: "own prefill",
    Part.OTHERS_PREFILL: "others' prefill",
    Part.DECODE: "decode",
    Part.OTHERS_DECODE: "others' decode",
    Part.PREEMPTED: "preempted",
    Part.SWAP: "swap",
    Part.RECOMPUTED: "recomputed",
    Part.REDONE: "redone",
    Part.HOST: "host",
})
"""What a part is called where people read it."""

_MEANS: Final[Mapping[Part, str]] = MappingProxyType({
    Part.QUEUE: "waiting for a slot, before the first start",
    Part.PREFIX: "waiting while somebody else computed the prefix from which the request then started",
    Part.OWN_PREFILL: "its own prompt rows",
    Part.OTHERS_PREFILL: "prompt rows of others, while it held a slot",
    Part.DECODE: "decode rows of steps in which it had one",
    Part.OTHERS_DECODE: "decode rows of others, while its prompt was under way",
    Part.PREEMPTED: "waiting for a slot again",
    Part.SWAP: "its KV went to the host store or came back",
    Part.RECOMPUTED: "rows that it had computed before it was preempted",
    Part.REDONE: "decode calls that gave nothing: interrupted, failed, or without room",
    Part.HOST: "all that the engine does beside its decode calls, and between two steps",
})
_BASES: Final[Mapping[Basis, str]] = MappingProxyType({
    Basis.COST: "by what the cost model says that each adds to the step",
    Basis.ROWS: "in proportion to rows, as there is no cost model",
})
_NORMAL: Final = frozenset({State.STOP, State.LENGTH})


class Bar(NamedTuple):
    """One request as it is drawn."""

    request_id: int
    split: Split
    is_whole: bool  # whether it ended normally


class Bars(NamedTuple):
    """The requests of a run that are drawn."""

    bars: tuple[Bar, ...]
    num_requests: int


def slowest(requests: Iterable[Explanation], most: int) -> list[Explanation]:
    """Those that took longest, the longest first; of equal ones the one that arrived first."""
    return sorted(requests, key=lambda each: (-each.total, each.moments.arrival))[:most]


def bars_of(run: ExplainedRun) -> Bars:
    """The slowest requests, in the order of their arrival."""
    chosen = sorted(slowest(run.requests, MOST_BARS), key=lambda each: each.moments.arrival)
    return Bars(
        tuple(Bar(each.request_id, each.split, each.ending.state in _NORMAL) for each in chosen), len(run.requests)
    )


def bars_words(bars: Bars) -> str:
    """What stands below the figure."""
    shown = len(bars.bars)
    which = (
        f"All {shown:,} requests, by arrival."
        if shown == bars.num_requests
        else f"The {shown:,} slowest of {bars.num_requests:,} requests, by arrival."
    )
    crossed = "" if all(bar.is_whole for bar in bars.bars) else " A cross marks one without a normal end."
    return f"{which} Each bar is as long as the request took, split by cause and not in the order of time.{crossed}"


def explain_document(
    runs: Sequence[ExplainedRun], pictures: Mapping[str, Picture], only: int | None = None
) -> Document:
    """Everything.

    Args:
        runs: of a journal.
        pictures: `bars-run-N` for run N, counted from 1; those that are missing are left out.
        only: the one request that is told of, with all that is known of it; None: all of them.
    """
    evidence = dict.fromkeys(run.evidence for run in runs)
    what = "Where the time went" if only is None else f"Where the time of request {only} went"
    return Document(
        title=f"{what}: {runs[0].name if len(runs) == 1 else f'{len(runs)} runs'}",
        badges=tuple(Badge(Level.NOTE, label) for label in evidence),
        lead=(),
        sections=(
            *(_run(run, number, pictures.get(f"bars-run-{number}"), only) for number, run in enumerate(runs, start=1)),
            Section(key="reading", heading="How to read this", parts=_reading(runs)),
        ),
        made_by=MADE_BY,
    )


def _run(run: ExplainedRun, number: int, picture: Picture | None, only: int | None) -> Section:
    chosen = [each for each in run.requests if only is None or each.request_id == only]
    return Section(
        key=f"run-{number}",
        heading=run.name,
        parts=present([
            *_cautions(run),
            picture,
            _totals(chosen) if chosen else Text("No request to explain."),
            *(
                Fold(_heading(each), (_phases(each), *_blamed(each)), is_open=only is not None)
                for each in slowest(chosen, MOST_TOLD)
            ),
        ]),
    )


def _cautions(run: ExplainedRun) -> list[DocumentPart]:
    if not run.num_lost:
        return []
    text = f"{run.num_lost:,} requests were alive where records are missing, so nothing is told of them."
    return [Alert(Level.WARNING, text)]


def _totals(requests: Sequence[Explanation]) -> Table:
    """What the time of all requests together went to."""
    total = sum((each.split for each in requests), NOTHING)
    spent, every = _spent(total), max(1, total.total)
    rows = tuple((WORDS[part], written(time, Unit.SPAN), written(time / every, Unit.SHARE)) for part, time in spent)
    columns = (Column("", is_number=False), Column("all requests (s)"), Column("share"))
    return Table(columns, rows, "What they took together", tuple(_MEANS[part] for part, _ in spent))


def _phases(each: Explanation) -> Table:
    """One request, stretch by stretch."""
    stretches = (each.until_first, each.between, each.closing)
    heads = ("until first token (ms)", "between tokens (ms)", "closing (ms)", "all (ms)")
    rows = [
        (
            WORDS[part],
            *(written(stretch.of(part), Unit.TIME) if stretch.of(part) else "" for stretch in stretches),
            written(time, Unit.TIME),
        )
        for part, time in _spent(each.split)
    ]
    sums = tuple(written(stretch.total, Unit.TIME) for stretch in (*stretches, each.split))
    return Table((Column("", is_number=False), *map(Column, heads)), (*rows, ("together", *sums)))


def _blamed(each: Explanation) -> list[Table]:
    """Who is named, and the longest gaps."""
    found: list[Table] = []
    for shares, caption in ((each.others, "Whose prompts it waited for"), (each.leaders, "Whose prefix it waited for")):
        if shares:
            columns = (Column("request", is_number=False), Column("ms"))
            rows = tuple((_name(share), written(share.time, Unit.TIME)) for share in shares)
            found.append(Table(columns, rows, caption))
    if each.gaps:
        heads = (Column("before token"), Column("gap (ms)"), Column("made of (ms)", is_number=False))
        gaps = tuple((f"{gap.index:,}", written(gap.split.total, Unit.TIME), _made_of(gap.split)) for gap in each.gaps)
        found.append(Table(heads, gaps, "Its longest gaps with more than a decode step in them"))
    return found


def _heading(each: Explanation) -> str:
    detail = "" if each.ending.detail is None else f" ({each.ending.detail})"
    return (
        f"Request {each.request_id}: {written(each.total, Unit.TIME)} ms, {each.num_tokens:,} tokens, "
        f"{each.ending.state.value}{detail}"
    )


def _reading(runs: Sequence[ExplainedRun]) -> tuple[DocumentPart, ...]:
    bases = dict.fromkeys(run.basis for run in runs)
    return (
        Text(
            "The parts of a request add up to the time from its arrival to its end, to the microsecond. "
            "What a client sees beside it, the way of the last bytes, no journal knows."
        ),
        *(Text(f"The time of a decode call is divided among its rows {_BASES[basis]}.") for basis in bases),
    )


def _spent(split: Split) -> list[tuple[Part, int]]:
    return [(part, time) for part, time in zip(PARTS, split.values, strict=True) if time]


def _made_of(split: Split) -> str:
    return ", ".join(f"{WORDS[part]} {written(time, Unit.TIME)}" for part, time in _spent(split))


def _name(share: Share) -> str:
    return UNDEFINED if share.request_id is None else str(share.request_id)
