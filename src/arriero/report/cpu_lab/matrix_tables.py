"""Tables of a matrix's analyses; each caption ends with the label of its evidence."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from arriero.metrics.spread import Spread
from arriero.record.cpu_lab.analysis import (
    FormatFile,
    Formats,
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


def number(value: float | None, form: str = ",.2f") -> str:
    """A figure, or a dash where it is undefined."""
    return UNDEFINED if value is None else format(value, form)


def percent(value: float | None, form: str = ".2f") -> str:
    """A ratio as percent."""
    return UNDEFINED if value is None else f"{100 * value:{form}} %"


def with_end(value: float | None, end: float | None) -> str:
    """A figure with the upper end of its interval, where it has one."""
    shown = number(value, ".4f")
    return shown if value is None or end is None or end == value else f"{shown} (to {end:.4f})"


def change(ratio: float | None) -> str:
    """A ratio as a change in percent, with its sign."""
    return UNDEFINED if ratio is None else f"{100 * (ratio - 1):+.1f} %"


def baseline_table(analysis: MatrixAnalysis, wording: Wording) -> Table:
    """Every setting, one row a phase."""
    columns = wording.columns()
    rows = [
        (phase.value, *_settings(columns, group.key), *_spread_cells(rate))
        for phase in Phase
        for group in analysis.groups
        if (rate := group.rate(phase)) is not None
    ]
    heads = (Column("phase", is_number=False), *_heads(columns), *map(Column, _FIGURES))
    return Table(heads, tuple(rows), _caption("Tokens per second", wording, _keys(analysis.groups)))


def resource_table(analysis: MatrixAnalysis, wording: Wording) -> Table:
    """Duration and memory of whole invocations."""
    columns = wording.columns()
    rows = tuple(
        (
            *_settings(columns, group.key),
            *_mean_and_cv(group.elapsed_s, ",.2f"),
            *_mean_and_cv(group.peak_rss_kib, ",.0f"),
            number(None if group.kv_cache_bytes is None else group.kv_cache_bytes / 1024, ",.0f"),
        )
        for group in analysis.groups
    )
    heads = (
        *_heads(columns), Column("duration (s)"), Column("CV"), Column("peak memory (KiB)"), Column("CV"),
        Column("KV memory, as reported (KiB)"),
    )  # fmt: skip
    caption = "Whole invocations: duration with loading the model, peak memory of the process"
    return Table(heads, rows, _caption(caption, wording, _keys(analysis.groups)))


def thread_table(curves: Sequence[ThreadCurve], wording: Wording) -> Table:
    """Each curve, one row a number of threads."""
    columns = wording.columns(("threads", "batch_threads"))
    rows = tuple(
        (
            curve.phase.value,
            *_settings(columns, curve.key),
            f"{point.threads}",
            number(point.rate.mean),
            percent(point.rate.cv),
            number(point.speedup, ".3f"),
            number(point.efficiency, ".3f"),
        )
        for curve in curves
        for point in curve.points
    )
    heads = (
        Column("phase", is_number=False), *_heads(columns), Column("threads"), Column("mean tokens/s"), Column("CV"),
        Column("speed-up"), Column("efficiency"),
    )  # fmt: skip
    return Table(heads, rows, _caption("Threads", wording, (curve.key for curve in curves)))


def length_table(analysis: MatrixAnalysis, phase: Phase, wording: Wording) -> Table:
    """Prefill over prompts, or decode over answers."""
    name = "prompt_tokens" if phase is Phase.PREFILL else "generated_tokens"
    columns = wording.columns((name, "context_size"))
    curves = [curve for curve in analysis.lengths if curve.phase is phase]
    rows = tuple(
        (
            *_settings(columns, curve.key),
            f"{curve.key.context_size:,}" if curve.holds == "context" else "grows with it",
            f"{point.tokens:,}",
            f"{point.depth:,}",
            number(point.rate.mean),
            percent(point.rate.cv),
        )
        for curve in curves
        for point in curve.points
    )
    word = "prompt" if phase is Phase.PREFILL else "answer"
    heads = (
        *_heads(columns), Column("context"), Column(f"{word} (tokens)"), Column("depth before it"),
        Column("mean tokens/s"), Column("CV"),
    )  # fmt: skip
    return Table(heads, rows, _caption(f"{phase.value} over the {word}", wording, (curve.key for curve in curves)))


def file_table(formats: Formats, evidence: str) -> Table:
    """Size and quality of each file."""
    heads = (
        Column("file", is_number=False), Column("format", is_number=False), Column("bytes"), Column("/ reference"),
        Column("smaller by"), Column("KL (nats)"), Column("perplexity"), Column("/ quality reference"),
        Column("same answers"), Column("sha256", is_number=False, is_small=True),
    )  # fmt: skip
    rows = tuple(_file_row(file) for file in formats.files)
    reference = formats.reference or "none"
    return Table(heads, rows, f"Model files; reference of sizes and speeds: {reference} ({evidence})")


def format_table(formats: Formats, wording: Wording) -> Table:
    """Speed of each file at each workload, beside the reference at the same one."""
    columns = wording.columns()
    rows = tuple(
        (
            *_settings(columns, cell.group.key),
            number(_mean(cell.group.prefill)),
            number(cell.prefill_ratio, ".3f"),
            change(cell.prefill_ratio),
            number(_mean(cell.group.decode)),
            number(cell.decode_ratio, ".3f"),
            change(cell.decode_ratio),
            cell.reason or "",
        )
        for cell in formats.cells
    )
    heads = (
        *_heads(columns), Column("prefill (tokens/s)"), Column("ratio"), Column("change"), Column("decode (tokens/s)"),
        Column("ratio"), Column("change"), Column("", is_number=False, is_small=True),
    )  # fmt: skip
    return Table(
        heads, rows, _caption("Speed at the very same workload", wording, (c.group.key for c in formats.cells))
    )


def pareto_table(formats: Formats, wording: Wording) -> Table:
    """Which files nothing else beats in everything."""
    columns = wording.columns()
    rows = tuple(
        (
            point.phase.value,
            *_settings(columns, point.key),
            number(point.num_bytes / 1e6, ",.1f"),
            number(point.rate),
            number(point.kl_mean, ".4f"),
            "on the front" if point.on_front else "beaten",
        )
        for point in formats.pareto
    )
    heads = (
        Column("phase", is_number=False), *_heads(columns), Column("MB"), Column("tokens/s"), Column("KL (nats)"),
        Column("", is_number=False),
    )  # fmt: skip
    return Table(heads, rows, _caption("Speed, size and quality", wording, (point.key for point in formats.pareto)))


def slice_table(found: Slice, wording: Wording) -> Table:
    """One slice: points that may be compared along it."""
    columns = wording.columns(("kv_key", "prompt_tokens", "generated_tokens", "context_size"))
    rows = tuple(row for line in found.lines for row in _slice_rows(line, columns))
    heads = (
        *_heads(columns), Column("KV", is_number=False), Column("context"), Column("prompt"), Column("generated"),
        Column("prefill (tokens/s)"), Column("/ f16"), Column("decode (tokens/s)"), Column("/ f16"),
        Column("peak memory (KiB)"), Column("/ f16"), Column("memory growth (bytes/token)"),
        Column("KV growth (bytes/token)"),
    )  # fmt: skip
    keys = (point.group.key for line in found.lines for point in line.points)
    return Table(heads, rows, _caption(SLICE_WORDS[found.kind], wording, keys))


def kv_table(cells: Sequence[KvCell], wording: Wording) -> Table:
    """Every setting with its ratios, whether it belongs to a slice or not."""
    columns = wording.columns(("kv_key",))
    rows = tuple(
        (
            *_settings(columns, cell.group.key),
            cell.group.key.kv,
            number(_mean(cell.group.prefill)),
            number(cell.prefill_ratio, ".3f"),
            number(_mean(cell.group.decode)),
            number(cell.decode_ratio, ".3f"),
            number(_mean(cell.group.peak_rss_kib), ",.0f"),
            number(cell.rss_ratio, ".3f"),
            cell.reason or "",
        )
        for cell in cells
    )
    heads = (
        *_heads(columns), Column("KV", is_number=False), Column("prefill (tokens/s)"), Column("/ f16"),
        Column("decode (tokens/s)"), Column("/ f16"), Column("peak memory (KiB)"), Column("/ f16"),
        Column("", is_number=False, is_small=True),
    )  # fmt: skip
    return Table(heads, rows, _caption("KV types at the very same workload", wording, (c.group.key for c in cells)))


def cv_table(analysis: MatrixAnalysis, wording: Wording) -> Table | None:
    """The steadiest and the least steady setting of each metric."""
    rows = tuple(
        (_METRIC_WORDS[each.metric], wording.words(each.key) or "all", f"{each.n}", percent(each.cv, ".4f"))
        for each in analysis.cv
    )
    heads = (Column("metric", is_number=False), Column("setting", is_number=False), Column("n"), Column("CV"))
    caption = _caption("Lowest and highest coefficient of variation", wording, (each.key for each in analysis.cv))
    return Table(heads, rows, caption) if rows else None


def _slice_rows(line: SliceLine, columns: Sequence[Shown]) -> Iterator[tuple[str, ...]]:
    growth = {each.to_context: each for each in line.growth}
    for cell in line.points:
        key = cell.group.key
        grown = growth.get(key.context_size)
        yield (
            *_settings(columns, key),
            key.kv,
            f"{key.context_size:,}",
            f"{key.prompt_tokens:,}",
            f"{key.generated_tokens:,}",
            number(_mean(cell.group.prefill)),
            number(cell.prefill_ratio, ".3f"),
            number(_mean(cell.group.decode)),
            number(cell.decode_ratio, ".3f"),
            number(_mean(cell.group.peak_rss_kib), ",.0f"),
            number(cell.rss_ratio, ".3f"),
            number(None if grown is None else grown.rss_bytes_per_token, ",.0f"),
            number(None if grown is None else grown.kv_bytes_per_token, ",.0f"),
        )


def _file_row(file: FormatFile) -> tuple[str, ...]:
    quality = file.quality
    return (
        file.model,
        file.weights,
        number(file.num_bytes, ","),
        number(file.size_ratio, ".4f"),
        percent(file.reduction),
        UNDEFINED if quality is None else with_end(quality.kl_mean, quality.kl_high),
        number(None if quality is None else quality.perplexity, ".3f"),
        UNDEFINED if quality is None else with_end(quality.perplexity_ratio, quality.perplexity_ratio_high),
        percent(None if quality is None else quality.agreement, ".0f"),
        (file.sha256 or "unknown")[:12],
    )


def _heads(columns: Iterable[Shown]) -> tuple[Column, ...]:
    return tuple(Column(each.label, is_number=each.is_number) for each in columns)


def _settings(columns: Iterable[Shown], key: RunKey) -> tuple[str, ...]:
    return tuple(each.text(key) for each in columns)


def _spread_cells(found: Spread) -> tuple[str, ...]:
    figures = (found.mean, found.median, found.minimum, found.maximum, found.sd)
    return (f"{found.n}", *(number(value) for value in figures), percent(found.cv))


def _mean_and_cv(found: Spread | None, form: str) -> tuple[str, str]:
    return (UNDEFINED, UNDEFINED) if found is None else (number(found.mean, form), percent(found.cv))


def _mean(found: Spread | None) -> float | None:
    return None if found is None else found.mean


def _keys(groups: Iterable[Group]) -> Iterator[RunKey]:
    return (group.key for group in groups)


def _caption(words: str, wording: Wording, keys: Iterable[RunKey]) -> str:
    return f"{words} ({wording.evidence(keys)})"
