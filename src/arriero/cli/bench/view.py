"""A result of the load generator in a terminal; whether it may be believed comes first."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from arriero.cli.bench.view_latency import latency_lines
from arriero.metrics import client_latency as of
from arriero.metrics.client_figures import Attainment, ClientSlos, ClientSummary, Connections, Rates
from arriero.metrics.client_life import ClientLife
from arriero.metrics.client_summary import remake
from arriero.metrics.client_window import ClientWindow
from arriero.metrics.definitions import ARRIERO, Definitions
from arriero.metrics.distribution import FEWEST_FOR_P99
from arriero.metrics.validity import Validity
from arriero.record.bench_parts import CalibrationFacts, Offset, Point
from arriero.record.bench_result import BenchResult
from arriero.record.machine_load import LoadFacts

_INDENT: Final = 14
_SWEEP_HEADS: Final = (
    "setting", "flag", "n", "TTFT p50", "p90", "TPOT p50", "E2E p50", "finished/s", "tok/s", "served",
)  # fmt: skip


def show(result: BenchResult, definitions: Definitions = ARRIERO) -> None:
    """Print it; figures follow the words of `definitions`, as far as the raw events are there."""
    print("\n".join(lines_of(result, definitions)))


def lines_of(result: BenchResult, definitions: Definitions = ARRIERO) -> list[str]:
    """The lines: the flag, what was measured and with what, then each point."""
    lines = list(_flag(result.validity))
    target = result.target
    model = "" if target.model is None else f", model {target.model}"
    lines.append(_row("measured", f"{result.evidence}: {target.name} ({target.kind}{model})"))
    if result.run.was_interrupted:
        lines.append(_row("interrupted", "the figures are those of what was measured until then"))
    if result.calibration is not None:
        lines.append(_row("instrument", _instrument(result.calibration)))
    lines += [_row("first error", f"{kind}: {text}") for kind, text in target.facts.get("first_errors", {}).items()]
    lines += _words(definitions, in_full=definitions is not ARRIERO)
    for number, point in enumerate(result.points, start=1):
        lines.append("")
        if len(result.points) > 1:
            lines += [f"── point {number} of {len(result.points)}: {_setting(point.setting)} ".ljust(100, "─")]
            lines += _flag(point.validity)
        lines += _point(point, definitions, has_connections=target.has_connections)
    if len(result.points) > 1:
        lines += ["", *_sweep(result.points, definitions)]
    return lines


def _flag(validity: Validity) -> Iterator[str]:
    yield str(validity.flag).upper() + "".join(f"; {reason}" for reason in validity.reasons)


def _instrument(calibration: CalibrationFacts) -> str:
    ttft, gap = calibration.ttft_ns, calibration.itl_ns
    shown = f"adds {_ms(ttft.p50_ns)} ms to a TTFT ({_highest(ttft)})"
    if gap is not None:
        shown += f", {_ms(gap.p50_ns)} ms to a gap ({_highest(gap)})"
    return f"{shown}; n {calibration.num_requests}, never subtracted"


def _highest(offset: Offset) -> str:
    """The p99, or the maximum of too few."""
    if offset.n < FEWEST_FOR_P99:
        return f"max {_ms(offset.max_ns)} (n = {offset.n})"
    return f"p99 {_ms(offset.p99_ns)}"


def _words(definitions: Definitions, *, in_full: bool) -> Iterator[str]:
    """Whose words the figures follow; the sentences of our own stand in the documentation and in every file."""
    yield _row("definitions", f"{definitions.name} ({definitions.version})")
    for name, sentence in definitions.words.items() if in_full else ():
        yield _row("", f"{name}: {sentence}")


def _point(point: Point, definitions: Definitions, *, has_connections: bool) -> Iterator[str]:
    summary = summary_of(point, definitions)
    yield _row("schedule", _schedule(point, summary))
    yield _row("window", _window(summary))
    yield _row("generator", _generator(point))
    yield from _outcomes(summary)
    yield from _rates("rates", summary.window)
    yield from _rates("whole run", summary.whole_run)
    if summary.attainment is not None:
        yield from _attainment(summary.attainment, summary.window)
    yield from _lengths(point, summary)
    yield _row("connections", _connections(summary.connections) if has_connections else "-")
    yield ""
    yield from latency_lines(summary)


def summary_of(point: Point, definitions: Definitions) -> ClientSummary:
    """The figures under other definitions, where the raw events are there to make them from."""
    if definitions is ARRIERO or not point.keeps_lives:
        return point.summary
    return remake(point.summary, point.lives, definitions)


def _schedule(point: Point, summary: ClientSummary) -> str:
    schedule = point.schedule
    settings = schedule.settings
    loop: Mapping[str, Any] = settings.get("loop", {})
    parts = [f"{schedule.loop} loop"]
    match loop.get("kind"):
        case "OpenLoop":
            parts.append(f"{loop['process']} arrivals, {loop['rate_per_s']:g}/s")
        case "ClosedLoop":
            parts.append(f"{loop['num_clients']} clients")
        case "Replay":
            parts.append(f"replayed {loop['speed']:g} times as fast")
        case _:
            pass
    if loop.get("ramp"):
        ramp = loop["ramp"]
        parts.append(f"ramp {ramp['start']:g} to {ramp['end']:g} in {ramp['seconds']:g} s")
    workload: Mapping[str, Any] = settings.get("workload", {})
    parts.append(f"{schedule.num_requests} requests of {workload.get('name', 'a workload')}")
    parts.append(f"{summary.counts.warm_up} warm-ups")
    if "num_left" in settings:
        left: int = settings["num_left"]
        parts.append(f"{left} never taken" if left else "used up before the time was over")
    return f"{', '.join(parts)}; seed {schedule.seed}, sha256 {schedule.sha256[:12]}"


def _window(summary: ClientSummary) -> str:
    window = summary.window
    return (
        f"{_s(window.ends_at - window.begins_at)} s, after {_s(summary.warm_up_ns)} s of warm-up, "
        f"before {_s(summary.cool_down_ns)} s of cool-down"
    )


def _generator(point: Point) -> str:
    validity = point.validity
    parts: list[str] = []
    if validity.lag_p99_ns is None:
        parts.append("no send lag in a closed loop")
    else:
        parts.append(f"send lag ms {_lags(validity)} (limit {_ms(validity.lag_limit_ns)})")
    if validity.achieved is not None:
        parts.append(f"{validity.achieved:.1%} of {validity.intended} sent in time")
    if validity.longest_block_ns is not None:
        parts.append(f"loop blocked at most {_ms(validity.longest_block_ns)} ms")
    if point.load_during is not None:
        parts.append(_cores(point.load_during, validity))
    return "; ".join(parts)


def _lags(validity: Validity) -> str:
    """Of few requests there is no p99; the limit is for their maximum then."""
    median, longest = f"p50 {_ms(validity.lag_p50_ns)}", f"max {_ms(validity.lag_max_ns)}"
    if validity.num_lags < FEWEST_FOR_P99:
        return f"{median}, {longest} (n = {validity.num_lags})"
    return f"{median}, p99 {_ms(validity.lag_p99_ns)}, {longest}"


def _cores(load: LoadFacts, validity: Validity) -> str:
    """Who used how much of the machine; the others as the flag counts them, before and during the run."""
    used = {"client": load.own_cores, "server": load.server_cores, "others": validity.neighbour_cores}
    return "cores: " + ", ".join(f"{who} {cores:.2f}" for who, cores in used.items() if cores is not None)


def _outcomes(summary: ClientSummary) -> Iterator[str]:
    counts = summary.counts
    happened = {name: number for name, number in counts.by_outcome.items() if number}
    total = " + ".join(f"{number} {name}" for name, number in happened.items())
    yield _row("outcomes", f"{counts.intended} intended = {total or 'nothing'}")
    if counts.not_due:
        yield _row("", f"{counts.not_due} of them not due when the run ended")
    yield _row("", f"in the window: {counts.submitted} submitted, {counts.finished} ended normally")
    for title, table in (("errors", counts.by_error), ("statuses", counts.by_status)):
        if table:
            yield _row(title, ", ".join(f"{number} {name}" for name, number in table.items()))


def _rates(title: str, rates: Rates) -> Iterator[str]:
    figures = (
        ("offered", rates.offered_per_s, "/s"),
        ("finished", rates.requests_per_s, "/s"),
        ("output", rates.output_tokens_per_s, "tok/s"),
        ("prompts", rates.prompt_tokens_per_s, "tok/s"),
    )
    text = ", ".join(f"{name} {_per_s(value)} {unit}" for name, value, unit in figures)
    cached = rates.prompt_cached_per_s
    shown = "not told" if cached is None else f"{_per_s(rates.prompt_computed_per_s)} computed, {_per_s(cached)} cached"
    yield _row(title, f"{text} ({shown})")


def _attainment(attainment: Attainment, window: Rates) -> Iterator[str]:
    yield _row("objectives", _objectives(attainment.objectives))
    yield _row(
        "goodput",
        f"{_per_s(window.good_requests_per_s)} /s, {_per_s(window.good_tokens_per_s)} tok/s; "
        f"{_share(attainment.of_submitted)} of submitted, {_share(attainment.of_finished)} of finished, "
        f"served fraction {_share(attainment.served_fraction)}",
    )
    if attainment.misses:
        yield _row("", "missed: " + ", ".join(f"{name} {number}" for name, number in attainment.misses.items()))


def _lengths(point: Point, summary: ClientSummary) -> Iterator[str]:
    lengths = summary.lengths
    if point.keeps_lives:
        frame = ClientWindow(starts_at=summary.window.begins_at, stops_at=summary.window.ends_at)
        yield _row("tokens", _tokens([life for life in point.lives if frame.holds(life)]))
    per_chunk = "-" if lengths.tokens_per_chunk is None else f"{lengths.tokens_per_chunk:.2f}"
    yield _row(
        "lengths",
        f"{lengths.other_output} answers of another length ({_share(lengths.other_output_share)}), "
        f"{lengths.other_prompt} prompts counted otherwise, {per_chunk} tokens a chunk, "
        f"{lengths.sums_differ} marked (chunks differ from the count), {lengths.without_usage} without a count",
    )


def _tokens(lives: Sequence[ClientLife]) -> str:
    finished = [life for life in lives if life.outcome.is_normal]
    asked, got = sum(life.asked_tokens for life in finished), sum(of.num_tokens(life) for life in finished)
    every = sum(life.asked_tokens for life in lives)
    return f"asked {every} of all, {asked} of those that ended normally, which gave {got}"


def _connections(connections: Connections) -> str:
    opened = connections.connect_ns
    took = "" if opened.p50 is None else f" (p50 {_ms(opened.p50)} ms, max {_ms(opened.max)} ms)"
    return f"{connections.opened} opened{took}, {connections.reused} requests on one used before"


def _sweep(points: Sequence[Point], definitions: Definitions) -> Iterator[str]:
    """All points in one table."""
    rows: list[tuple[str, ...]] = [_SWEEP_HEADS]
    for point in points:
        summary = summary_of(point, definitions)
        table, rates, counts = summary.latency.finished, summary.window, summary.counts
        served = None if not counts.submitted else counts.finished / counts.submitted
        rows.append((
            _setting(point.setting),
            str(point.validity.flag),
            str(counts.finished),
            _ms(None if table.ttft_ns is None else table.ttft_ns.p50),
            _ms(None if table.ttft_ns is None else table.ttft_ns.p90),
            _ms(None if table.tpot_ns is None else table.tpot_ns.p50),
            _ms(None if table.e2e_ns is None else table.e2e_ns.p50),
            _per_s(rates.requests_per_s),
            _per_s(rates.output_tokens_per_s),
            _share(served),
        ))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_SWEEP_HEADS))]
    yield "finished requests, ms"
    for row in rows:
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))


def _objectives(slos: ClientSlos) -> str:
    names = (("TTFT", slos.ttft_ns), ("TPOT", slos.tpot_ns), ("E2E", slos.e2e_ns), ("largest gap", slos.largest_gap_ns))
    return ", ".join(f"{name} <= {_ms(value)} ms" for name, value in names if value is not None)


def _setting(setting: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in setting.items())


def _row(title: str, text: str) -> str:
    return f"{title:<{_INDENT}}{text}"


def _ms(ns: float | None) -> str:
    return "-" if ns is None else f"{ns / 1e6:.2f}"


def _s(ns: float) -> str:
    return f"{ns / 1e9:.2f}"


def _per_s(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
