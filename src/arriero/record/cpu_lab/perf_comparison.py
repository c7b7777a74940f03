"""What runs of the profiler say together: medians, quotients, ratios between models at one workload, hot functions.

Everything here can be made again from `run.jsonl`; nothing is measured twice or pooled over two workloads.
"""

from arriero.metrics.symbol_families import Family
from arriero.record.bench_parts import BenchPart, Evidence
from arriero.record.cpu_lab.perf import PerfCase, PerfMode
from arriero.record.cpu_lab.perf_attribution import Attribution, Portion
from arriero.record.cpu_lab.perf_counters import Percent
from arriero.record.cpu_lab.pretty_json import pretty_json
from arriero.record.strict import Count, Name, Positive, Sha256


class CounterFigure(BenchPart, frozen=True, kw_only=True):
    """One counter, or a quotient of two, over the repetitions of one case.

    Attributes:
        name: event or quotient.
        unit: of the value.
        value: median; null with a reason.
        low: smallest.
        high: largest.
        num: repetitions that have a value.
        running_percent: the least time on a hardware counter; null where it is not told.
        reason: why there is no value.
    """

    name: Name
    unit: str
    value: float | None
    low: float | None
    high: float | None
    num: Count
    running_percent: Percent | None = None
    reason: str | None = None


class CaseCounters(BenchPart, frozen=True, kw_only=True):
    """All figures of one case.

    Attributes:
        run_id: of its run; only figures of one run are set against each other.
        case: what ran.
        mode: how it was counted.
        scope: the part of the program that they are about.
        counters: events, in the order of the run, and `elapsed`.
        quotients: instructions per cycle, miss rates, counters per token.
    """

    run_id: Name
    case: PerfCase
    mode: PerfMode
    scope: Name
    counters: tuple[CounterFigure, ...]
    quotients: tuple[CounterFigure, ...]

    @property
    def scope_word(self) -> str:
        """The part of the program that the figures are about."""
        return self.scope


class CounterRatio(BenchPart, frozen=True, kw_only=True):
    """One figure of a model over that of the reference, at the exact same workload.

    Attributes:
        workload: of both.
        mode: of both.
        scope: of both.
        target: the model.
        reference: the model below the line.
        name: of the figure.
        value: median over median; null with a reason.
        reason: why there is none.
    """

    workload: Name
    mode: PerfMode
    scope: Name
    target: Name
    reference: Name
    name: Name
    value: float | None
    reason: str | None = None


class FamilyShare(BenchPart, frozen=True, kw_only=True):
    """A family's part of everything that is above the limit."""

    family: Family
    share: Portion


class HotFunction(BenchPart, frozen=True, kw_only=True):
    """One function in its place.

    Attributes:
        rank: from 1.
        symbol: its name.
        shared_object: the file it lies in.
        family: by its name.
        is_resolved: whether the file names it.
        called_by: of a function without a name, who called it in most of its samples; null if unknown.
        share: of everything.
        cumulative: of it and all before it.
        bound: speed-up of the whole if it took no time (Amdahl); null for a share of everything.
    """

    rank: Positive
    symbol: Name
    shared_object: Name
    family: Family
    is_resolved: bool
    share: Portion
    cumulative: Portion
    bound: float | None
    called_by: str | None = None


class CaseHot(BenchPart, frozen=True, kw_only=True):
    """The hot functions of one case, over its repetitions.

    Attributes:
        run_id: of its run.
        case: what ran.
        mode: how it was watched.
        num: repetitions; shares are their means.
        attribution: of the pooled repetitions.
        functions: the first twenty.
        top_5: what the first five hold together.
        top_20: what the first twenty hold together.
        families: the largest first.
    """

    run_id: Name
    case: PerfCase
    mode: PerfMode
    num: Positive
    attribution: Attribution
    functions: tuple[HotFunction, ...]
    top_5: Portion
    top_20: Portion
    families: tuple[FamilyShare, ...]

    @property
    def scope_word(self) -> str:
        """The part of the program that the shares are about."""
        return self.attribution.scope


class RunNote(BenchPart, frozen=True, kw_only=True):
    """One run that was read.

    Attributes:
        folder: its base name.
        run_id: of the run.
        fingerprint: of its manifest.
        mode: what was asked of the tool.
        tool: its name and version.
        counted: invocations whose figures are used.
        failures: invocation id and reason of each measured one that is not a success.
        library: base name -> SHA-256 of the llama.cpp that was profiled.
    """

    folder: Name
    run_id: Name
    fingerprint: Sha256
    mode: PerfMode
    tool: str
    counted: Count
    failures: tuple[tuple[str, str], ...]
    library: dict[str, str]


class PerfComparison(BenchPart, frozen=True, kw_only=True):
    """Everything that a report is made of.

    Attributes:
        runs: that were read.
        reference: the model below the line of all ratios; null without models.
        counters: by case.
        ratios: by workload and model.
        hot: by case.
        evidence: PROFILED.
    """

    runs: tuple[RunNote, ...]
    reference: str | None
    counters: tuple[CaseCounters, ...]
    ratios: tuple[CounterRatio, ...]
    hot: tuple[CaseHot, ...]
    evidence: Evidence = Evidence.PROFILED

    def encode(self) -> bytes:
        """As JSON with line ends."""
        return pretty_json(self)
