"""Every picture of a report of matrices, with the words below it; points of different slices are never connected."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from arriero.metrics.spread import Spread
from arriero.record.cpu_lab.analysis import (
    FormatCell,
    Group,
    LengthCurve,
    MatrixAnalysis,
    Phase,
    Slice,
    SliceKind,
    SliceLine,
    ThreadCurve,
)
from arriero.record.cpu_lab.run_key import MODEL_FIELDS, RunKey, without
from arriero.report.cpu_lab.curves import (
    MOST_CURVES,
    Bar,
    Bargain,
    BargainPanel,
    BarGroup,
    BarPanel,
    Curve,
    CurvePanel,
    Mark,
    bar_figure,
    bargain_figure,
    curve_figure,
)
from arriero.report.cpu_lab.fronts import BARGAIN_WORDS, Placed, placed
from arriero.report.cpu_lab.setting_words import Wording
from arriero.report.drawing import Drawn

_RATE: Final = "tokens/s"
_THREADS: Final = ("threads", "batch_threads")
_BARS: Final = "Means over the repetitions; strokes: one standard deviation."
_MOST_WORKLOADS: Final = 4
_AXES: Final = {SliceKind.JOINT: "context (tokens)", SliceKind.CONTEXT: "context (tokens)",
                SliceKind.ANSWER: "generated tokens"}  # fmt: skip
T = TypeVar("T")


def matrix_pictures(analysis: MatrixAnalysis, wording: Wording) -> Iterator[Drawn]:
    """Threads, lengths, formats, slices and bargains, as far as there are such."""
    yield from _threads(analysis.threads, wording)
    yield from _lengths(analysis.lengths, wording)
    if analysis.formats is not None:
        yield from _formats(analysis.formats.cells, wording)
        yield from _bargains(placed(analysis.formats), wording)
    if analysis.kv is not None:
        for number, each in enumerate(analysis.kv.slices, start=1):
            yield _slice(each, number, wording)


def _threads(curves: Sequence[ThreadCurve], wording: Wording) -> Iterator[Drawn]:
    def words(curve: ThreadCurve) -> str:
        return wording.words(curve.key, _THREADS)

    for number, chosen in enumerate(_together(curves, words), start=1):
        panels = [
            CurvePanel(phase.value, "threads", _RATE, [_thread_curve(each, words(each)) for each in own], ideal=True)
            for phase in Phase
            if (own := [each for each in chosen if each.phase is phase])
        ]
        caption = f"{_BARS} Dashed grey: the first curve, if each thread were worth as much as the first ones."
        yield Drawn(f"threads-{number}", "Speed over threads", caption, curve_figure(panels))


def _thread_curve(curve: ThreadCurve, label: str) -> Curve:
    return Curve(label, [_mark(point.threads, point.rate) for point in curve.points])


def _lengths(curves: Sequence[LengthCurve], wording: Wording) -> Iterator[Drawn]:
    for phase, length in ((Phase.PREFILL, "prompt_tokens"), (Phase.DECODE, "generated_tokens")):
        left_out = (length, "context_size")

        def words(curve: LengthCurve, left_out: tuple[str, ...] = left_out) -> str:
            context = (
                f", context {curve.key.context_size:,}" if curve.holds == "context" else f", depth {curve.key.depth}"
            )
            return f"{wording.words(curve.key, left_out)}{context}".removeprefix(", ")

        own = [curve for curve in curves if curve.phase is phase]
        for number, chosen in enumerate(_together(own, words), start=1):
            drawn = [Curve(words(each), [_mark(point.tokens, point.rate) for point in each.points]) for each in chosen]
            word = "prompt" if phase is Phase.PREFILL else "answer"
            caption = f"{_BARS} Where the context is fixed, a longer {word} begins less deep in it."
            panel = CurvePanel(phase.value, f"{word} (tokens)", _RATE, drawn)
            yield Drawn(f"lengths-{phase.value}-{number}", f"{phase.value.capitalize()} over the {word}", caption,
                        curve_figure([panel]))  # fmt: skip


def _formats(cells: Sequence[FormatCell], wording: Wording) -> Iterator[Drawn]:
    by_workload: dict[tuple[object, ...], list[Group]] = {}
    for cell in cells:
        by_workload.setdefault(without(cell.group.key, MODEL_FIELDS), []).append(cell.group)
    workloads = [members for members in by_workload.values() if len(members) > 1]
    for number, chosen in enumerate(_chunks(workloads, _MOST_WORKLOADS), start=1):
        panels = [
            BarPanel(phase.value, _RATE, [_bar_group(members, phase, wording) for members in chosen]) for phase in Phase
        ]
        yield Drawn(f"formats-{number}", "Model files at the same workload", _BARS, bar_figure(panels))


def _bar_group(members: Sequence[Group], phase: Phase, wording: Wording) -> BarGroup:
    bars = [
        Bar(_file_words(group.key), rate.mean, rate.sd) for group in members if (rate := group.rate(phase)) is not None
    ]
    return BarGroup(wording.words(members[0].key, MODEL_FIELDS).replace(", ", "\n"), bars)


def _bargains(points: Sequence[Placed], wording: Wording) -> Iterator[Drawn]:
    by_workload: dict[tuple[object, ...], list[Placed]] = {}
    for each in points:
        by_workload.setdefault(without(each.point.key, MODEL_FIELDS), []).append(each)
    shown = list(by_workload.values())[:_MOST_WORKLOADS]
    rest = len(by_workload) - len(shown)
    for number, members in enumerate(shown, start=1):
        words = _words_of(members)
        panels = [
            BargainPanel(phase.value, [_bargain(each, words) for each in own])
            for phase in Phase
            if (own := [each for each in members if each.point.phase is phase])
        ]
        where = wording.words(members[0].point.key, MODEL_FIELDS)
        has_quality = all(each.point.kl_mean is not None for each in members)
        quality = "speed, size and KL divergence" if has_quality else "speed and size"
        more = f" {rest} more workloads are in the table alone." if rest else ""
        title = f"Speed, size and quality{f' at {where}' if where else ''}"
        yield Drawn(f"pareto-{number}", title, f"{BARGAIN_WORDS} All of it: {quality}.{more}", bargain_figure(panels))


def _bargain(each: Placed, words: Callable[[RunKey], str]) -> Bargain:
    point = each.point
    kl = "" if point.kl_mean is None else f", KL {point.kl_mean:.3g}"
    return Bargain(f"{words(point.key)}{kl}", point.num_bytes / 1e6, each.rate, each.standing)


def _words_of(members: Iterable[Placed]) -> Callable[[RunKey], str]:
    """The format alone where it tells the files apart, since long names run into each other."""
    formats = {(each.point.key.model, each.point.key.model_sha256): each.point.key.weights for each in members}
    is_enough = all(formats.values()) and len(set(formats.values())) == len(formats)
    return (lambda key: key.weights) if is_enough else _file_words


def _slice(found: Slice, number: int, wording: Wording) -> Drawn:
    first = found.lines[0].points[0].group.key
    axis = _AXES[found.kind]
    panels = [
        CurvePanel(title, axis, value, [_slice_curve(line, found.kind, metric, scale) for line in found.lines
                                        if _slice_curve(line, found.kind, metric, scale).marks])
        for title, value, metric, scale in _METRICS
    ]  # fmt: skip
    left_out = ("kv_key", "prompt_tokens", "generated_tokens", "context_size")
    held = {
        SliceKind.JOINT: f"{first.generated_tokens} generated",
        SliceKind.CONTEXT: f"prompt {first.prompt_tokens}, {first.generated_tokens} generated",
        SliceKind.ANSWER: f"context {first.context_size:,}, prompt {first.prompt_tokens}",
    }[found.kind]
    where = ", ".join(each for each in (held, wording.words(first, left_out)) if each)
    return Drawn(
        f"kv-{number}",
        f"Slice {found.kind.value}: {where}",
        f"{_BARS} Lines connect points of this slice only.",
        curve_figure([panel for panel in panels if panel.curves]),
    )


_METRICS: Final = (
    ("prefill", _RATE, "prefill", 1.0),
    ("decode", _RATE, "decode", 1.0),
    ("memory", "peak memory (MiB)", "peak_rss_kib", 1 / 1024),
)


def _slice_curve(line: SliceLine, kind: SliceKind, metric: str, scale: float) -> Curve:
    marks: list[Mark] = []
    for point in line.points:
        key = point.group.key
        found: Spread | None = getattr(point.group, metric)
        if found is not None:
            at = key.generated_tokens if kind is SliceKind.ANSWER else key.context_size
            marks.append(Mark(at, found.mean * scale, found.sd * scale))
    return Curve(f"{line.kv_key}/{line.kv_value}", marks)


def _together(curves: Sequence[T], words: Callable[[T], str]) -> Iterator[list[T]]:
    """Curves in groups of as many names as can be told apart; those of one name stay together."""
    by_name: dict[str, list[T]] = {}
    for curve in curves:
        by_name.setdefault(words(curve), []).append(curve)
    for chosen in _chunks(list(by_name.values()), MOST_CURVES):
        yield [curve for members in chosen for curve in members]


def _chunks(values: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    return (values[start : start + most] for start in range(0, len(values), most))


def _file_words(key: RunKey) -> str:
    return key.model if key.weights.upper() in key.model.upper() else f"{key.model} {key.weights}".strip()


def _mark(at: float, rate: Spread) -> Mark:
    return Mark(at, rate.mean, rate.sd)
