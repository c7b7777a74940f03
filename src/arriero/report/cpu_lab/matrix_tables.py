"""Tables of a matrix's analyses; each caption ends with the label of its evidence."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from arriero.metrics.spread import Spread
from arriero.record.cpu_lab.analysis import (
    Group,
    KvCell,
    MatrixAnalysis,
    Phase,
    Slice,
    SliceKind,
    SliceLine,
    ThreadCurve,
)
from arriero.record.cpu_lab.run_key import RunKey
from arriero.report.cpu_lab.cells import (
    cv_of,
    labelled_caption,
    mean_of,
    number,
    percent,
    setting_cells,
    setting_heads,
    with_reasons,
)
from arriero.report.cpu_lab.setting_words import Shown, Wording
from arriero.report.document import Column, Table
from arriero.report.written import UNDEFINED

_FIGURES: Final = ("n", "mean", "median", "min", "max", "SD", "CV")
SLICE_WORDS: Final = {
    SliceKind.JOINT: "A: prompt and context grow together",
    SliceKind.CONTEXT: "B: the context grows, prompt and answer are fixed",
    SliceKind.ANSWER: "C: the answer grows, prompt and context are fixed",
}
_METRIC_WORDS: Final = {
    "prefill": "prefill (tokens/s)", "decode": "decode (tokens/s)", "elapsed_s": "duration (s)",
    "peak_rss_kib": "peak memory (KiB)",
}  # fmt: skip
_KV_FIGURES: Final = (
    Column("prefill (tokens/s)"), Column("prefill / f16"), Column("decode (tokens/s)"), Column("decode / f16"),
    Column("peak memory (KiB)"), Column("memory / f16"),
)  # fmt: skip


def baseline_table(analysis: MatrixAnalysis, wording: Wording) -> Table:
    """Every setting, one row a phase."""
    columns = wording.columns()
    rows = [
        (phase.value, *setting_cells(columns, group.key), *_spread_cells(rate))
        for phase in Phase
        for group in analysis.groups
        if (rate := group.rate(phase)) is not None
    ]
    heads = (Column("phase", is_number=False), *setting_heads(columns), *map(Column, _FIGURES))
    return Table(heads, tuple(rows), labelled_caption("Tokens per second", wording, _keys(analysis.groups)))


def resource_table(analysis: MatrixAnalysis, wording: Wording) -> Table:
    """Duration and memory of whole invocations."""
    columns = wording.columns()
    rows = tuple(
        (
            *setting_cells(columns, group.key),
            *_mean_and_cv(group.elapsed_s, ",.2f"),
            *_mean_and_cv(group.peak_rss_kib, ",.0f"),
            number(None if group.kv_cache_bytes is None else group.kv_cache_bytes / 1024, ",.0f"),
        )
        for group in analysis.groups
    )
    heads = (
        *setting_heads(columns), Column("duration (s)"), Column("CV"), Column("peak memory (KiB)"), Column("CV"),
        Column("KV memory, as reported (KiB)"),
    )  # fmt: skip
    caption = "Whole invocations, means: duration with loading the model, peak memory of the process"
    return Table(heads, rows, labelled_caption(caption, wording, _keys(analysis.groups)))


def thread_table(curves: Sequence[ThreadCurve], wording: Wording) -> Table:
    """Each curve, one row a number of threads."""
    columns = wording.columns(("threads", "batch_threads"))
    rows = tuple(
        (
            curve.phase.value,
            *setting_cells(columns, curve.key),
            f"{point.threads}",
            number(point.rate.mean),
            cv_of(point.rate),
            number(point.speedup, ".3f"),
            number(point.efficiency, ".3f"),
        )
        for curve in curves
        for point in curve.points
    )
    heads = (
        Column("phase", is_number=False), *setting_heads(columns), Column("threads"), Column("mean tokens/s"),
        Column("CV"), Column("speed-up"), Column("efficiency"),
    )  # fmt: skip
    return Table(heads, rows, labelled_caption("Threads", wording, (curve.key for curve in curves)))


def length_table(analysis: MatrixAnalysis, phase: Phase, wording: Wording) -> Table:
    """Prefill over prompts, or decode over answers."""
    name = "prompt_tokens" if phase is Phase.PREFILL else "generated_tokens"
    columns = wording.columns((name, "context_size"))
    curves = [curve for curve in analysis.lengths if curve.phase is phase]
    rows = tuple(
        (
            *setting_cells(columns, curve.key),
            f"{curve.key.context_size:,}" if curve.holds == "context" else "grows with it",
            f"{point.tokens:,}",
            f"{point.depth:,}",
            number(point.rate.mean),
            cv_of(point.rate),
        )
        for curve in curves
        for point in curve.points
    )
    word = "prompt" if phase is Phase.PREFILL else "answer"
    heads = (
        *setting_heads(columns), Column("context (tokens)"), Column(f"{word} (tokens)"),
        Column("depth before it (tokens)"), Column("mean tokens/s"), Column("CV"),
    )  # fmt: skip
    caption = f"{phase.value.capitalize()} over the {word}"
    return Table(heads, rows, labelled_caption(caption, wording, (curve.key for curve in curves)))


def slice_table(found: Slice, wording: Wording) -> Table:
    """One slice: points that may be compared along it."""
    columns = wording.columns(("kv_key", "prompt_tokens", "generated_tokens", "context_size"))
    rows = tuple(row for line in found.lines for row in _slice_rows(line, columns))
    heads = (
        *setting_heads(columns), Column("KV", is_number=False), Column("context (tokens)"), Column("prompt (tokens)"),
        Column("generated (tokens)"), *_KV_FIGURES, Column("memory growth (bytes/token)"),
        Column("KV growth (bytes/token)"),
    )  # fmt: skip
    keys = (point.group.key for line in found.lines for point in line.points)
    return Table(heads, rows, labelled_caption(SLICE_WORDS[found.kind], wording, keys))


def kv_table(cells: Sequence[KvCell], wording: Wording) -> Table:
    """Every setting with its ratios, whether it belongs to a slice or not."""
    columns = wording.columns(("kv_key",))
    rows = tuple((*setting_cells(columns, cell.group.key), cell.group.key.kv, *_kv_figures(cell)) for cell in cells)
    heads = (*setting_heads(columns), Column("KV", is_number=False), *_KV_FIGURES)
    keys = (cell.group.key for cell in cells)
    table = Table(heads, rows, labelled_caption("KV types at the very same workload, means", wording, keys))
    return with_reasons(table, [cell.reason for cell in cells])


def cv_table(analysis: MatrixAnalysis, wording: Wording) -> Table | None:
    """The steadiest and the least steady setting of each metric."""
    rows = tuple(
        (_METRIC_WORDS[each.metric], wording.words(each.key) or "all", f"{each.n}", percent(each.cv, ".4f"))
        for each in analysis.cv
    )
    heads = (Column("metric", is_number=False), Column("setting", is_number=False), Column("n"), Column("CV"))
    keys = (each.key for each in analysis.cv)
    caption = labelled_caption("Lowest and highest coefficient of variation", wording, keys)
    return Table(heads, rows, caption) if rows else None


def _slice_rows(line: SliceLine, columns: Sequence[Shown]) -> Iterator[tuple[str, ...]]:
    growth = {each.to_context: each for each in line.growth}
    for cell in line.points:
        key = cell.group.key
        grown = growth.get(key.context_size)
        yield (
            *setting_cells(columns, key),
            key.kv,
            f"{key.context_size:,}",
            f"{key.prompt_tokens:,}",
            f"{key.generated_tokens:,}",
            *_kv_figures(cell),
            number(None if grown is None else grown.rss_bytes_per_token, ",.0f"),
            number(None if grown is None else grown.kv_bytes_per_token, ",.0f"),
        )


def _kv_figures(cell: KvCell) -> tuple[str, ...]:
    """In the order of `_KV_FIGURES`."""
    return (
        number(mean_of(cell.group.prefill)),
        number(cell.prefill_ratio, ".3f"),
        number(mean_of(cell.group.decode)),
        number(cell.decode_ratio, ".3f"),
        number(mean_of(cell.group.peak_rss_kib), ",.0f"),
        number(cell.rss_ratio, ".3f"),
    )


def _spread_cells(found: Spread) -> tuple[str, ...]:
    figures = (found.mean, found.median, found.minimum, found.maximum, found.sd if found.n > 1 else None)
    return (f"{found.n}", *(number(value) for value in figures), cv_of(found))


def _mean_and_cv(found: Spread | None, form: str) -> tuple[str, str]:
    return (UNDEFINED, UNDEFINED) if found is None else (number(found.mean, form), cv_of(found))


def _keys(groups: Iterable[Group]) -> Iterator[RunKey]:
    return (group.key for group in groups)
