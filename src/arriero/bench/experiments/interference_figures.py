"""What interference scenarios come to: counts against their closed form, times as ratios, and statements."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, linear_regression
from typing import Final

from arriero.bench.experiments.experiment import EvidenceLabel, Statement, Table, Value
from arriero.bench.experiments.interference_runs import Scenario, promised_steps
from arriero.bench.experiments.samples import median, ratio, rounded, samples, stable

US_PER_MS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Unbounded:
    """One prompt length without caps; median microseconds of decode calls.

    Attributes:
        alone: the prompt in one piece, with nothing beside it.
        decode: one decode row alone.
        together: both in one call.
    """

    length: int
    alone: float
    decode: float
    together: float

    @property
    def residual(self) -> float:
        """How far one call for both is from the sum of two, as a share of it."""
        return (self.together - self.alone - self.decode) / self.together


def judge_counts(scenarios: Sequence[Scenario], remaining: int) -> Statement:
    """Engine only: as many interference steps as the closed form says, in every scenario."""
    wrong = [each for each in scenarios if len(each.interference()) != _promised(each, remaining)]
    return Statement.so(
        "engine: interference steps of each scenario follow the closed form",
        _share_of(wrong, scenarios),
        f"min({remaining}, ceil(P / B)) in each; B = 0: 1",
        holds=bool(scenarios) and not wrong,
    )


def judge_http_counts(scenarios: Sequence[Scenario], remaining: int) -> Statement:
    """Over HTTP the probe arrives when it does: at least one step, and never more than the closed form."""
    wrong = [each for each in scenarios if not 1 <= len(each.interference()) <= _promised(each, remaining)]
    return Statement.so(
        "http: interference steps of each scenario lie within the closed form",
        _share_of(wrong, scenarios),
        f"1 to min({remaining}, ceil(P / B)) in each",
        holds=bool(scenarios) and not wrong,
    )


def judge(word: str, scenarios: Sequence[Scenario]) -> Iterator[Statement]:
    """What must hold in every scenario, whichever way it was driven."""
    steps = [(each, step) for each in scenarios for step in each.interference()]
    over = sum(step.prefill_rows > each.bound for each, step in steps)
    yield Statement.equal(f"{word}: interference steps with more prompt rows than the caps allow", over, 0)
    silent = sum(not step.anchor_speaks for _, step in steps)
    yield Statement.equal(f"{word}: interference steps in which the anchor got no token", silent, 0)
    lost = sum(sum(step.prefill_rows for step in each.steps) != each.asked_rows for each in scenarios)
    yield Statement.equal(f"{word}: scenarios whose prompt rows do not add up to their prompts", lost, 0)
    problems = [problem for each in scenarios for problem in each.problems]
    seen = f"{len(problems)}" + (f", such as {problems[0]}" if problems else "")
    yield Statement.so(f"{word}: requests that failed, were rejected or ended early", seen, "none", holds=not problems)
    hashes: dict[object, set[str]] = {"the anchor": {each.anchor_hash for each in scenarios}} if scenarios else {}
    yield stable(f"{word}: the anchor's answer is the same for every B and every probe", hashes)


def judge_two(free: Sequence[Scenario], capped: Sequence[Scenario]) -> Iterator[Statement]:
    """Two probes at once: B bounds each of them, S bounds both together."""
    caps = capped[0].caps
    yield Statement.equal("two probes, B alone: most prompt rows of a step", _most(free), 2 * caps.per_sequence)
    yield Statement.equal("two probes, step cap S: most prompt rows of a step", _most(capped), caps.per_step)
    largest = max((step.largest_chunk or 0 for each in (*free, *capped) for step in each.interference()), default=0)
    yield Statement.equal("two probes: most prompt rows of one sequence", largest, caps.per_sequence)
    yield from judge("two probes", (*free, *capped))


def class_table(word: str, label: EvidenceLabel, scenarios: Sequence[Scenario], remaining: int) -> Table:
    """One row for each prompt length and cap."""
    rows: list[tuple[Value, ...]] = []
    for (length, cap), members in _classes(scenarios).items():
        steps = [step for each in members for step in each.interference()]
        times = samples((step.decode_us for step in steps), US_PER_MS)
        plain = median(us for each in members for us in each.plain_us())
        rows.append((
            f"L{length}",
            cap,
            len(members),
            max((step.prefill_rows for step in steps), default=0),
            len(steps),
            len(members) * promised_steps(length, cap, remaining),
            rounded(times.p50),
            rounded(times.p95),
            rounded(ratio(median(step.decode_us for step in steps), plain)),
        ))  # fmt: skip
    return Table(
        title=f"Interference, {word}",
        label=label,
        heads=(
            "prompt", "B", "cycles", "most prompt rows", "interference steps", "closed form",
            "decode call p50, ms", "p95, ms", "p50 / plain decode",
        ),
        rows=tuple(rows),
        note=f"Closed form: min({remaining}, ceil(P / B)) a cycle. Plain decode: one decode row alone, same scenarios.",
    )  # fmt: skip


def unbounded_table(label: EvidenceLabel, found: Sequence[Unbounded]) -> Table:
    """Whether the time of a mixed call is linear in its prompt rows and the sum of its two parts."""
    slope, r2 = linear_fit([(each.length, each.together) for each in found])
    rows = tuple(
        (
            f"L{each.length}",
            *(rounded(us / US_PER_MS) for us in (each.alone, each.decode, each.together)),
            rounded(each.residual, 3),
        )
        for each in found
    )
    return Table(
        title="Without caps: one decode row and a whole prompt in one call",
        label=label,
        heads=("prompt", "prefill alone, ms", "decode alone, ms", "together, ms", "residual share"),
        rows=rows,
        note=f"Together against prompt rows: {rounded(slope)} us a row, R2 {rounded(r2)}; medians over the cycles.",
    )


def linear_fit(points: Sequence[tuple[float, float]]) -> tuple[float | None, float | None]:
    """Slope and R2 of a straight line; None with fewer than three points, or if all lie at one place."""
    if len(points) < 3 or len({x for x, _ in points}) < 2:
        return None, None
    slope, start = linear_regression([x for x, _ in points], [y for _, y in points])
    mean = fmean(y for _, y in points)
    spread = sum((y - mean) ** 2 for _, y in points)
    rest = sum((y - slope * x - start) ** 2 for x, y in points)
    return slope, 1 - rest / spread if spread else None


def _classes(scenarios: Sequence[Scenario]) -> dict[tuple[int, int], list[Scenario]]:
    """By prompt length and cap of a sequence, ascending."""
    found: dict[tuple[int, int], list[Scenario]] = {}
    for each in sorted(scenarios, key=lambda one: (one.length, one.caps.per_sequence)):
        found.setdefault((each.length, each.caps.per_sequence), []).append(each)
    return found


def _promised(scenario: Scenario, remaining: int) -> int:
    return promised_steps(scenario.length, scenario.caps.per_sequence, remaining)


def _share_of(wrong: Sequence[Scenario], scenarios: Sequence[Scenario]) -> str:
    said = f"{len(wrong)} of {len(scenarios)} do not"
    if not wrong:
        return said
    first = wrong[0]
    return f"{said}, such as L{first.length} B{first.caps.per_sequence}: {len(first.interference())}"


def _most(scenarios: Sequence[Scenario]) -> int:
    return max((step.prefill_rows for each in scenarios for step in each.interference()), default=0)
