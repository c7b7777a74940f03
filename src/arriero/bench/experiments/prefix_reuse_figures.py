"""Tables and differences of the experiment on prefix reuse."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.experiment import Table, Value
from arriero.bench.experiments.near_ties import NearTie, Parting
from arriero.bench.experiments.prefix_reuse_cells import Answered, Cell, Way
from arriero.bench.experiments.samples import NS_PER_MS, Samples, http_label, median, ratio, rounded, samples
from arriero.metrics.client_life import ClientLife

_EXAMPLES: Final = 8
_NO_TOTAL: Final = "last_"  # begins the name of what is no count


def of(cells: Sequence[Cell], way: Way, interleaved: int) -> list[Cell]:
    """The rounds of one cell, in their order."""
    return sorted((c for c in cells if (c.way, c.interleaved) == (way, interleaved)), key=lambda cell: cell.round)


def skipped_share(cells: Sequence[Cell], *, with_warm_ups: bool = False) -> float | None:
    """Share of the prompt rows that were not computed; None if some server does not say."""
    rows = [cell.prefill_rows(with_warm_ups=with_warm_ups) for cell in cells]
    known = [each for each in rows if each is not None]
    if len(known) < len(rows):
        return None
    tokens = sum(cell.prompt_tokens(with_warm_ups=with_warm_ups) for cell in cells)
    return ratio(tokens - sum(known), tokens)


def first_ms(cells: Sequence[Cell]) -> Samples:
    """TTFT of the measured requests, pooled."""
    return samples((_first_ns(life) for cell in cells for life in cell.measured), NS_PER_MS)


def tokens_per_s(cell: Cell) -> float | None:
    """Output tokens of the measured requests over their time."""
    lives = cell.measured
    sent = [life.sent_at for life in lives if life.sent_at is not None]
    closed = [life.closed_at for life in lives if life.closed_at is not None]
    seconds = (max(closed) - min(sent)) / 1e9 if sent and closed else 0.0
    return ratio(sum(life.num_tokens or 0 for life in lives), seconds)


def partings(cells: Sequence[Cell], way: Way) -> list[Parting]:
    """Answers of a way that are not its baseline's to the same prompt, once each.

    In a chat a different answer makes every later prompt of its session another one; those are not compared.
    """
    expected = _texts(cells, way.baseline)
    found: dict[tuple[str, str], Parting] = {}
    for each in _answers(cells, way):
        text = expected.get(each.prompt)
        if text is not None and text != each.text:
            name = each.turn.name
            found[each.prompt, each.text] = Parting(name=name, prompt=each.prompt, text=text, other=each.text)
    return list(found.values())


def num_compared(cells: Sequence[Cell], way: Way) -> int:
    """Answers of a way whose prompt the baseline answered, too."""
    expected = _texts(cells, way.baseline)
    return sum(each.prompt in expected for each in _answers(cells, way))


def _texts(cells: Sequence[Cell], way: Way) -> dict[str, str]:
    """Prompt → answer, of the first cell that asked it."""
    found: dict[str, str] = {}
    for each in _answers(cells, way):
        found.setdefault(each.prompt, each.text)
    return found


def _answers(cells: Sequence[Cell], way: Way) -> Iterator[Answered]:
    return (each for cell in cells if cell.way is way for each in cell.answers)


def reuse_table(model: ModelSettings, title: str, cells: Sequence[Cell], keys: Sequence[tuple[Way, int]]) -> Table:
    """Each way of serving with each number of interleaved sessions."""
    rows: list[tuple[Value, ...]] = []
    for way, interleaved in keys:
        chosen, base = of(cells, way, interleaved), of(cells, way.baseline, interleaved)
        if not chosen:
            rows.append((way.value, interleaved, 0, *[None] * 10))
            continue
        firsts = first_ms(chosen)
        speed, base_speed = (median(_known(map(tokens_per_s, each))) for each in (chosen, base))
        computed = [cell.prefill_rows() for cell in chosen]
        rows.append((
            way.value,
            interleaved,
            firsts.n,
            rounded(ratio(sum(cell.prompt_tokens() for cell in chosen), firsts.n)),
            None if None in computed else sum(_known(computed)),
            rounded(skipped_share(chosen)),
            rounded(skipped_share(chosen, with_warm_ups=True)),
            rounded(firsts.p50),
            rounded(firsts.p95),
            rounded(ratio(firsts.p50, first_ms(base).p50)),
            rounded(speed),
            rounded(ratio(speed, base_speed)),
            f"{len(partings(cells, way))} of {num_compared(cells, way)}",
        ))  # fmt: skip
    return Table(
        title=title,
        label=http_label(model),
        heads=(
            "way", "interleaved", "requests", "mean prompt tokens", "prompt rows computed", "share skipped",
            "with the warm-ups", "TTFT p50, ms", "TTFT p95, ms", "TTFT p50 / no reuse", "tok/s", "tok/s / no reuse",
            "other answers",
        ),
        rows=tuple(rows),
        note=(
            "One sequential client; rounds pooled, tok/s is their median. The first warm-up finds nothing in the "
            "cache. Other answers: not those of the same prompt without reuse, in the same mode."
        ),
    )  # fmt: skip


def counters_table(model: ModelSettings, cells: Sequence[Cell]) -> Table:
    """What our own server counted, a column for each way, summed over its rounds; what never happened is left out."""
    totals: dict[tuple[Way, int], Counter[str]] = {}
    for cell in cells:
        if not cell.way.is_peer:
            totals.setdefault((cell.way, cell.interleaved), Counter()).update(counters(cell.cache))
    keys = sorted(totals, key=lambda key: (key[1], list(Way).index(key[0])))
    names = sorted({name for counts in totals.values() for name, number in counts.items() if number})
    return Table(
        title="Reuse and eviction counters",
        label=http_label(model),
        heads=("counter", *(f"{way}, {interleaved}" for way, interleaved in keys)),
        rows=tuple((name, *(totals[key][name] for key in keys)) for name in names),
        note="Columns: the way of serving, and how many sessions took turns.",
    )


def ties_table(model: ModelSettings, found: Sequence[tuple[Way, NearTie]]) -> Table:
    """Answers that differ, with the gap at their first difference."""
    return Table(
        title="Answers that are not those without reuse",
        label=http_label(model),
        heads=("way", "request", "first other token", "without reuse", "with", "logit gap"),
        rows=tuple(
            (way.value, tie.name, tie.index, tie.token, tie.other, rounded(tie.gap)) for way, tie in found[:_EXAMPLES]
        ),
        note=f"{len(found)} in all; the first {_EXAMPLES} stand here, every one in the raw file.",
    )


def counters(cache: object) -> dict[str, int]:
    """The whole numbers of the figures in a cache picture, by their dotted names; nothing if it shows none."""
    found: dict[str, int] = {}
    if isinstance(cache, dict):
        _collect(cast("dict[str, Any]", cache).get("figures"), "", found)
    return found


def _collect(values: object, prefix: str, found: dict[str, int]) -> None:
    if not isinstance(values, dict):
        return
    for name, value in cast("dict[str, Any]", values).items():
        if isinstance(value, int) and not isinstance(value, bool) and not name.startswith(_NO_TOTAL):
            found[prefix + name] = value
        else:
            _collect(value, f"{prefix}{name}.", found)


def _known(values: "Sequence[float | None] | map[float | None] | list[int | None]") -> list[float]:
    return [value for value in values if value is not None]


def _first_ns(life: ClientLife) -> float:
    return life.chunk_at[0] - life.sent_at if life.chunk_at and life.sent_at is not None else float("inf")
