"""The parts of a comparison: questions, rounds, servers, texts, the search for flags, and one cell of all that."""

from typing import Any, Literal, TypeAlias

from arriero.metrics.paired_verdict import NoiseFloor, PairedVerdict
from arriero.record.bench_parts import BenchPart, Point
from arriero.record.strict import Count, Name

SideName: TypeAlias = Literal["a", "b"]


class Question(BenchPart, frozen=True, kw_only=True):
    """What decides, stated before the run.

    Attributes:
        metric: a name that `Round.values` has.
        higher_is_better: throughputs yes, latencies no.
        margin: the smallest difference that matters, relative; null if none was stated.
        decides: whether the verdict on this metric is the comparison's; else it is for information.
    """

    metric: Name
    higher_is_better: bool
    margin: float | None = None
    decides: bool = True


class Round(BenchPart, frozen=True, kw_only=True):
    """One run of one side.

    Attributes:
        index: place in the order of running within the cell, over all phases, ascending from 0.
        phase: `warm_up` in no verdict, `aa` the first side against itself, `ab` the comparison, `check` the warm-up's
            prompts once more, for the texts alone.
        pair: number within cell and phase, from 0; two rounds share it. Null outside pairs.
        side: of the pair; in an A/A phase both are the same target.
        values: metric -> figure of this round; a missing figure is null.
        server_cores: that the measured side's server kept busy; null if it is elsewhere.
        idle_cores: that the other side's server kept busy meanwhile; null if there is none.
        point: everything about the run.
    """

    index: Count
    phase: Literal["warm_up", "aa", "ab", "check"]
    pair: Count | None
    side: SideName
    values: dict[str, float | None]
    server_cores: float | None = None
    idle_cores: float | None = None
    point: Point


class TextChanges(BenchPart, frozen=True, kw_only=True):
    """Whether equal prompts got equal texts.

    Attributes:
        prompts: answered more than once.
        changed: of them, with different texts.
        examples: a sentence each.
        must_be_stable: a change is a fault, because the server promises none.
    """

    prompts: Count
    changed: Count
    examples: tuple[str, ...]
    must_be_stable: bool


class ServerRun(BenchPart, frozen=True, kw_only=True):
    """One process that served a side.

    Attributes:
        side: served.
        command: its words, without absolute paths.
        log: name of the file with its output.
        ready_s: from start to the first healthy answer.
        resident_bytes: of memory at the end of its rounds; null where it cannot be read.
        peak_bytes: the most of it.
        how: it ended.
        status: of its exit; null if it was killed.
    """

    side: SideName
    command: tuple[str, ...]
    log: str
    ready_s: float
    resident_bytes: Count | None
    peak_bytes: Count | None
    how: Literal["exited", "terminated", "killed"]
    status: int | None


class SearchTrial(BenchPart, frozen=True, kw_only=True):
    """One set of flags that was tried.

    Attributes:
        stage: of the search, from 0.
        rung: within the stage, from 0; later rungs measure longer.
        flags: added to the command.
        values: of the metric, a round each; null for a round that failed or was invalid.
        score: what the trial was ranked by; null if it failed.
        kept: it went on to the next rung, or was the best.
        failed: why; null if it did not.
    """

    stage: Count
    rung: Count
    flags: tuple[str, ...]
    values: tuple[float | None, ...]
    score: float | None
    kept: bool
    failed: str | None


class Search(BenchPart, frozen=True, kw_only=True):
    """The search for a side's best flags, printed whole.

    Attributes:
        side: whose flags.
        setting: of the cell it was made for.
        plan: declared before: candidates, rungs, budget.
        metric: that decided.
        trials: all of them, in the order of trying.
        best: the flags that were then compared.
    """

    side: SideName
    setting: dict[str, Any]
    plan: dict[str, Any]
    metric: Name
    trials: tuple[SearchTrial, ...]
    best: tuple[str, ...]


class CompareCell(BenchPart, frozen=True, kw_only=True):
    """The comparison at one setting.

    Attributes:
        setting: such as `{"clients": 4, "slots": 8, "workload": "short"}`.
        order: sides of the `ab` rounds as planned, in the order of running, such as `ABBAABBA`.
        floors: metric -> noise floor of the A/A phase; empty without one.
        verdicts: metric -> verdict; empty if the cell was not finished.
        withheld: metric -> why its verdict may not be used; empty if there is nothing of the kind.
        texts: `a`, `b` and `across` -> whether equal prompts got equal texts.
        servers: all processes that served a side here.
        rounds: in the order of running; none if it failed before.
    """

    setting: dict[str, Any]
    order: str
    floors: dict[str, NoiseFloor]
    verdicts: dict[str, PairedVerdict]
    withheld: dict[str, str]
    texts: dict[str, TextChanges]
    servers: tuple[ServerRun, ...]
    rounds: tuple[Round, ...]
