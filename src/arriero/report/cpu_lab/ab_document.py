"""Sections of a paired comparison: the verdict and its reasons, then figures, then everything behind."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from arriero.core.version import VERSION
from arriero.metrics.paired_percent import PairedPercent
from arriero.metrics.published_verdict import WORDS
from arriero.record.cpu_lab.ab import AbResult, MetricResult
from arriero.report.bench_facts import machine_rows, run_rows
from arriero.report.cpu_lab.ab_pictures import DIFFERENCES, INTERVALS, RUNS
from arriero.report.cpu_lab.ab_words import (
    floor_percent,
    judged_interval,
    output_words,
    percent,
    percents,
    power_words,
    rule_words,
    run_words,
    sign_words,
    title_words,
    variant_rows,
    verdict_word,
)
from arriero.report.document import (
    Alert,
    Badge,
    Column,
    Document,
    Facts,
    Level,
    Part,
    Picture,
    Section,
    Table,
    Text,
    present,
)
from arriero.report.written import UNDEFINED, significant

MADE_BY: Final = f"Made by arriero {VERSION}."
_LEVELS: Final = {"POSITIVE": Level.GOOD, "REJECT": Level.BAD, "INCONCLUSIVE": Level.NOTE}
_HOW: Final = (
    "A difference is 100 (B - A) / A of one pair; what decides is the median over pairs. The noise floor is what A "
    "differs from itself by. INCONCLUSIVE means that the difference, if there is one, is smaller than these pairs can "
    "show, or that the samples drift: it is an answer, not a failure, and no proof that both sides are equal. "
    "The percentile and BCa intervals are at 95 % for one metric alone; the interval of the verdict is wider where "
    "several metrics or looks decide."
)
_FIGURES: Final = (
    "Means and CVs are of the sides, a mean in the unit of its metric. All else is of the differences, B - A: "
    "their median with two intervals, the medians of the first and of the second half of the pairs in the order of "
    "running, and slope and correlation r of a line through the differences, which tell a drift."
)


def ab_document(result: AbResult, pictures: Mapping[str, Picture]) -> Document:
    """The whole report; pictures that are missing are left out."""
    word = result.word or result.status
    badges = [Badge(_LEVELS.get(word, Level.WARNING), word), Badge(Level.NOTE, result.evidence.value)]
    return Document(
        title=f"Paired comparison: {title_words(result)}",
        badges=tuple(badges),
        lead=_lead(result),
        sections=(
            Section(
                key="verdict",
                heading="Verdict",
                parts=present([_metric_table(result), pictures.get(DIFFERENCES), pictures.get(INTERVALS)]),
            ),
            Section(key="power", heading="What this machine can resolve", parts=_power(result)),
            Section(key="figures", heading="Figures", parts=_figure_parts(result, pictures)),
            Section(key="outputs", heading="Greedy outputs", parts=(Text(f"{output_words(result.outputs)}."),)),
            Section(key="behind", heading="What was run", parts=_behind(result)),
            Section(key="reading", heading="How to read this", parts=(Text(_HOW),)),
        ),
        made_by=MADE_BY,
    )


def _lead(result: AbResult) -> tuple[Part, ...]:
    found: list[Part] = []
    if result.word is None:
        found.append(Alert(Level.BAD, f"{result.status}: {result.error}."))
    else:
        assert result.verdict is not None, "a word stands for a verdict"
        found.append(Alert(_LEVELS[result.word], f"{result.word} ({result.verdict.value.replace('_', ' ')})."))
    found += [Text(f"{reason}.") for reason in result.reasons]
    found.append(Text(f"{rule_words(result)}."))
    found += [Alert(Level.WARNING, f"{flag}.") for flag in _flags(result)]
    return tuple(found)


def _flags(result: AbResult) -> Iterator[str]:
    """Cautions of the run, then those of single metrics, each once with the names of its metrics."""
    for flag in result.flags:
        yield f"{flag[:1].upper()}{flag[1:]}"
    found = ((flag, f"`{each.metric.name}`") for each in result.metrics for flag in _metric_flags(each))
    for flag, names in _by_reason(found):
        yield f"{names}: {flag}"


def _by_reason(found: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Each reason once, in the order in which they come, with all that it is of."""
    names: dict[str, list[str]] = {}
    for reason, name in found:
        names.setdefault(reason, []).append(name)
    return ((reason, ", ".join(each)) for reason, each in names.items())


def _metric_flags(each: MetricResult) -> list[str]:
    floor = () if each.floor is None else each.floor.flags
    return [*(() if each.verdict is None else each.verdict.flags), *(f"A/A: {flag}" for flag in floor)]


def _metric_table(result: AbResult) -> Table:
    columns = (
        Column("metric", is_number=False), Column("A, median"), Column("B, median"), Column("difference, median"),
        Column("interval of the verdict"), Column("noise floor"), Column("B better"),
        Column("verdict", is_number=False),
    )  # fmt: skip
    rows: list[tuple[str, ...]] = []
    for each in result.metrics:
        sides = (UNDEFINED,) * 2 if each.ab is None else (significant(each.ab.a.median), significant(each.ab.b.median))
        floor = floor_percent(each)
        rows.append((
            each.metric.name if each.metric.decides else f"{each.metric.name}, for information",
            *sides,
            UNDEFINED if each.ab is None else percent(each.ab.summary.median),
            percents(judged_interval(each)) if each.metric.decides else UNDEFINED,
            UNDEFINED if floor is None else f"{floor:.2f} %",
            sign_words(each.ab),
            _word(result, each),
        ))
    manifest = result.manifest
    sides_words = f"B ({manifest.b.name}) against A ({manifest.a.name})"
    return Table(columns, tuple(rows), f"{sides_words}: {result.num_pairs} pairs ({result.evidence.value})")


def _word(result: AbResult, each: MetricResult) -> str:
    if each.verdict is not None:
        return verdict_word(each.verdict)
    if not each.metric.decides:
        return "not judged"
    return UNDEFINED if result.verdict is None else f"together: {WORDS[result.verdict]}"


def _power(result: AbResult) -> tuple[Part, ...]:
    known = [f"{power_words(each.metric.name, each.power)}." for each in result.deciding if each.power is not None]
    unknown = [(_reason(each, "power"), f"`{each.metric.name}`") for each in result.deciding if each.power is None]
    missing = [f"Not known of {names}: {reason}." for reason, names in _by_reason(unknown)]
    return tuple(map(Text, (*known, *missing)))


def _reason(each: MetricResult, name: str) -> str:
    return each.reasons.get(name, "no reason is recorded")


def _without_figures(result: AbResult) -> Iterator[Text]:
    """Why rows are missing and cells are dashes."""
    kinds = (("ab", "A/B"), ("aa", "A/A"))
    found = [
        (_reason(each, name), f"`{each.metric.name}` {label}")
        for each in result.metrics
        for name, label in kinds
        if getattr(each, name) is None
    ]
    for reason, names in _by_reason(found):
        yield Text(f"No figures of {names}: {reason}.")


def _figure_parts(result: AbResult, pictures: Mapping[str, Picture]) -> tuple[Part, ...]:
    why = (*_without_figures(result), *_without_bca(result))
    return present([_figure_table(result), Text(_FIGURES), *why, pictures.get(RUNS)])


def _figure_table(result: AbResult) -> Table:
    columns = (
        Column("metric", is_number=False), Column("pairs", is_number=False), Column("mean A"), Column("mean B"),
        Column("CV A"), Column("CV B"), Column("median difference"), Column("95 % percentile"), Column("95 % BCa"),
        Column("halves"), Column("slope, % a pair"), Column("r"),
    )  # fmt: skip
    rows = [(each.metric.name, label, *_figures(found)) for each, label, found in _compared(result)]
    return Table(columns, tuple(rows), f"Sides and differences ({result.evidence.value}); A/A and A/B are never pooled")


def _compared(result: AbResult) -> Iterator[tuple[MetricResult, str, PairedPercent]]:
    """Both kinds of pairs of each metric, as far as there are such."""
    for each in result.metrics:
        for label, found in (("A/A", each.aa), ("A/B", each.ab)):
            if found is not None:
                yield each, label, found


def _without_bca(result: AbResult) -> Iterator[Text]:
    """Why an interval is a dash."""
    found = [
        (pairs.bootstrap.bca_reason, f"`{each.metric.name}` {label}")
        for each, label, pairs in _compared(result)
        if pairs.bootstrap.bca is None
    ]
    for reason, names in _by_reason(found):
        yield Text(f"No BCa interval of {names}: {reason}.")


def _figures(found: PairedPercent) -> tuple[str, ...]:
    halves, line = found.summary.half_medians, found.differences_line
    return (
        significant(found.a.mean),
        significant(found.b.mean),
        UNDEFINED if found.summary.cv_a is None else f"{found.summary.cv_a:.2f} %",
        UNDEFINED if found.summary.cv_b is None else f"{found.summary.cv_b:.2f} %",
        percent(found.summary.median),
        percents(found.bootstrap.percentile),
        percents(found.bootstrap.bca),
        UNDEFINED if halves is None else f"{halves[0]:+.2f}, {halves[1]:+.2f} %",
        UNDEFINED if line.slope is None else f"{line.slope:+.3f}",
        UNDEFINED if line.r is None else f"{line.r:+.2f}",
    )


def _behind(result: AbResult) -> tuple[Part, ...]:
    return (
        Text(f"{run_words(result.manifest, result)}."),
        Text(f"Order of the pairs: `{result.order}`."),
        Facts("A", tuple(variant_rows(result.manifest.a))),
        Facts("B", tuple(variant_rows(result.manifest.b))),
        Facts("Run", (("run", result.run_id), ("fingerprint", result.fingerprint), *run_rows(result.run))),
        Facts("Variables of the caller", tuple(result.manifest.inherited.items()) or (("none", ""),)),
        Facts("Machine", (*machine_rows(result.environment.machine), ("lab", result.environment.fingerprint))),
    )
