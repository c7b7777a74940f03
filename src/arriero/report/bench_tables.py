"""Tables of one point of a load generator's result: what became of everybody, how long it took, at which rate."""

from collections.abc import Mapping
from typing import Final

from arriero.metrics.client_figures import ClientSummary, Connections, Counts, Distribution, LatencyTable, Rates
from arriero.metrics.distribution import FEWEST_FOR_P99
from arriero.metrics.validity import Validity
from arriero.record.bench_parts import CalibrationFacts, Offset
from arriero.record.machine_load import LoadFacts
from arriero.report.client_words import FIGURES, LABELS, figure_of
from arriero.report.document import Column, Table
from arriero.report.written import UNDEFINED, Unit, written

_TEXT: Final = Column("", is_number=False)
_DEFINITION: Final = Column("definition", is_number=False, is_small=True)
_HEADS: Final = {"p99_9": "p99.9"}


def latency_table(summary: ClientSummary, words: Mapping[str, str]) -> Table:
    """Both tables of latencies in one: of requests that ended normally, and of all."""
    figures = (Column(_HEADS.get(name, name)) for name in FIGURES)
    columns = (
        Column("latency (ms)", is_number=False),
        Column("of", is_number=False),
        Column("n"),
        Column("failed"),
        *figures,
    )
    groups: list[tuple[str, LatencyTable]] = [("finished", summary.latency.finished)]
    if summary.latency.all is not None:
        groups.append(("all", summary.latency.all))
    rows: list[tuple[str, ...]] = []
    notes: list[str] = []
    for name in LABELS:
        for number, (who, table) in enumerate(groups):
            distribution: Distribution | None = getattr(table, name)
            if distribution is not None and _is_shown(name, summary):
                rows.append(("" if number else LABELS[name], who, *_cells(distribution)))
                notes.append("" if number else words.get(name, ""))
    caption = f"Latencies by the definitions of {summary.definitions}; of all: a failure is larger than every sample"
    return Table(columns, tuple(rows), caption, tuple(notes))


def _is_shown(name: str, summary: ClientSummary) -> bool:
    """Gaps between chunks are those between tokens as long as a chunk carries one."""
    return name != "icl_ns" or summary.lengths.shows_chunks or summary.latency.finished.itl_ns is None


def _cells(distribution: Distribution) -> tuple[str, ...]:
    counts = (written(distribution.n, Unit.COUNT), written(distribution.num_infinite, Unit.COUNT))
    return (*counts, *(figure_of(distribution, name) for name in FIGURES))


def outcome_table(counts: Counts) -> Table:
    """Nothing is dropped: outcomes add up to what was intended."""
    rows = [(f"`{name}`", written(number, Unit.COUNT), "") for name, number in counts.by_outcome.items() if number]
    rows.append(("intended", written(counts.intended, Unit.COUNT), "the sum of the above"))
    rows.append(("in the window", written(counts.submitted, Unit.COUNT), "the denominator of shares"))
    if counts.warm_up:
        rows.append(("warm-up", written(counts.warm_up, Unit.COUNT), "declared before the run, in no figure"))
    if counts.not_due:
        rows.append((
            "not due",
            written(counts.not_due, Unit.COUNT),
            "never sent: the run had stopped before their time",
        ))
    return Table(
        (Column("outcome", is_number=False), Column("requests"), Column("", is_number=False, is_small=True)),
        tuple(rows),
        "What became of every request",
    )


def error_table(counts: Counts) -> Table | None:
    """Failures by kind and by status; None without any."""
    rows = [(f"`{name}`", written(number, Unit.COUNT)) for name, number in counts.by_error.items()]
    rows.extend((f"HTTP {status}", written(number, Unit.COUNT)) for status, number in counts.by_status.items())
    return (
        Table((Column("failure", is_number=False), Column("requests")), tuple(rows), "Failures by kind")
        if rows
        else None
    )


_RATES: Final = (
    ("offered_per_s", "offered requests/s", "intended sends; in a closed loop, sends"),
    ("requests_per_s", "requests/s", "normal ends"),
    ("output_tokens_per_s", "output tokens/s", "tokens that arrived, whatever became of their request"),
    ("prompt_tokens_per_s", "prompt tokens/s", "of requests whose first token arrived"),
    ("prompt_computed_per_s", "prompt tokens/s computed", "of these, computed by the server"),
    ("prompt_cached_per_s", "prompt tokens/s from cache", "of these, cached, as the server says"),
    ("good_requests_per_s", "goodput (1/s)", "ended normally within all objectives"),
    ("good_tokens_per_s", "good tokens/s", "their tokens"),
)


def rate_table(summary: ClientSummary) -> Table:
    """Rates over the measured window and over the whole run."""
    rows: list[tuple[str, ...]] = []
    for name, label, definition in _RATES:
        values = [getattr(rates, name) for rates in (summary.window, summary.whole_run)]
        if any(value is not None for value in values):
            rows.append((label, *(written(value, Unit.RATE) for value in values), definition))
    rows.append(("length (s)", _length(summary.window), _length(summary.whole_run), "whole run: drain included"))
    return Table((_TEXT, Column("window"), Column("whole run"), _DEFINITION), tuple(rows), "Rates")


def _length(rates: Rates) -> str:
    return written((rates.ends_at - rates.begins_at) / 1e3, Unit.SPAN)


def attainment_table(summary: ClientSummary) -> Table | None:
    """The three shares, never apart; None without objectives."""
    attainment = summary.attainment
    if attainment is None:
        return None
    bounds = attainment.objectives
    named = (("TTFT", bounds.ttft_ns, "ttft_ns"), ("TPOT", bounds.tpot_ns, "tpot_ns"), ("E2E", bounds.e2e_ns, "e2e_ns"),
             ("largest gap", bounds.largest_gap_ns, "largest_gap_ns"))  # fmt: skip
    rows: list[tuple[str, str, str]] = [
        (
            "good of submitted",
            written(attainment.of_submitted, Unit.SHARE),
            "rejected and failed ones are in the denominator",
        ),
        ("good of finished", written(attainment.of_finished, Unit.SHARE), "never without the one above"),
        ("served", written(attainment.served_fraction, Unit.SHARE), "normal ends / submitted"),
    ]
    for label, bound, name in named:
        if bound is not None:
            missed = written(attainment.misses.get(name, 0), Unit.COUNT)
            rows.append((f"broke {label}", missed, f"at most {written(bound / 1e3, Unit.TIME)} ms; normal ends only"))
    return Table((_TEXT, Column("value"), _DEFINITION), tuple(rows), "Objectives")


def instrument_table(summary: ClientSummary, validity: Validity, *, has_connections: bool) -> Table:
    """How far the client itself can be trusted, with the limits it is judged by."""
    limits = validity.limits
    rows = [
        *_lag_rows(validity),
        (
            "rate achieved",
            written(validity.achieved, Unit.SHARE),
            f"valid: at least {written(limits.valid.achieved, Unit.SHARE)}, sent in time",
        ),
        ("longest block of the event loop", _ms(validity.longest_block_ns), f"at most {_ms(limits.blocked_ns)}"),
        (
            "cores of other processes",
            written(validity.neighbour_cores, Unit.NUMBER),
            f"valid: at most {limits.neighbour_cores:g}",
        ),
    ]
    lengths = summary.lengths
    rows.extend([
        (
            "tokens a chunk",
            written(lengths.tokens_per_chunk, Unit.NUMBER),
            "above 1.05 the gaps between chunks are shown, too",
        ),
        (
            "token sums that differ",
            written(lengths.sums_differ, Unit.COUNT),
            "requests whose chunks do not add up to the server's count",
        ),
        (
            "answers of another length",
            written(lengths.other_output_share, Unit.SHARE),
            "than asked for, of normal ends",
        ),
        ("prompts of another length", written(lengths.other_prompt, Unit.COUNT), "by the server's own count"),
        _connection_row(summary.connections) if has_connections else ("connections opened", UNDEFINED, "has none"),
    ])
    return Table(
        (_TEXT, Column("value"), Column("what it means", is_number=False, is_small=True)), tuple(rows), "The instrument"
    )


def _lag_rows(validity: Validity) -> list[tuple[str, str, str]]:
    """Of few requests there is no p99; the limit is for their maximum then."""
    level, few = validity.limits.valid, 0 < validity.num_lags < FEWEST_FOR_P99
    part = f"{written(level.lag_share, Unit.SHARE)} of the median service TTFT"
    bound = f"up to the larger of {_ms(level.lag_ns)} and {part}; here {_ms(validity.lag_limit_ns)}"
    median = ("send lag p50", _ms(validity.lag_p50_ns), "actual - intended send")
    if few:
        return [median, (f"send lag max (n = {validity.num_lags})", _ms(validity.lag_max_ns), f"valid: {bound}")]
    return [
        median,
        ("send lag p99", _ms(validity.lag_p99_ns), f"valid: p99 {bound}"),
        ("send lag max", _ms(validity.lag_max_ns), ""),
    ]


def _connection_row(connections: Connections) -> tuple[str, str, str]:
    opened = written(connections.opened, Unit.COUNT)
    return "connections opened", opened, f"{connections.reused:,} requests used one that was open"


def calibration_table(calibration: CalibrationFacts) -> Table:
    """What the instrument adds to known times; printed, never subtracted."""
    named: list[tuple[str, int, Offset | None]] = [
        ("TTFT", calibration.delay_ns, calibration.ttft_ns), ("gap", calibration.gap_ns, calibration.itl_ns),
    ]  # fmt: skip
    rows = tuple(
        (
            label,
            written(known / 1e3, Unit.TIME),
            written(offset.n, Unit.COUNT),
            _fine(offset.p50_ns),
            _fine(offset.p99_ns) if offset.n >= FEWEST_FOR_P99 else UNDEFINED,
            _fine(offset.max_ns),
        )
        for label, known, offset in named
        if offset is not None
    )
    columns = (
        _TEXT,
        Column("known (ms)"),
        Column("n"),
        Column("offset p50 (ms)"),
        Column("p99 (ms)"),
        Column("max (ms)"),
    )
    return Table(columns, rows, "Calibration against a null server; offsets are printed and never subtracted")


def load_table(before: LoadFacts | None, during: LoadFacts | None) -> Table | None:
    """What the machine was busy with; None if nobody looked."""
    named = [(label, load) for label, load in (("before", before), ("during", during)) if load is not None]
    if not named:
        return None
    rows = tuple(
        (
            label,
            *(
                written(value, Unit.NUMBER)
                for value in (load.own_cores, load.server_cores, load.other_cores, load.stolen_cores)
            ),
            UNDEFINED if load.load_average is None else " ".join(f"{each:.2f}" for each in load.load_average),
            ", ".join(f"{each.name} {each.cores:.2f}" for each in load.others),
        )
        for label, load in named
    )
    columns = (
        _TEXT, Column("client"), Column("server"), Column("others"), Column("stolen"),
        Column("load average 1, 5, 15 min", is_number=False), Column("busiest others", is_number=False, is_small=True),
    )  # fmt: skip
    return Table(columns, rows, "Cores that were kept busy")


def _ms(value: float | None) -> str:
    return UNDEFINED if value is None else f"{written(value / 1e3, Unit.TIME)} ms"


def _fine(value: float) -> str:
    return f"{value / 1e6:,.3f}"
