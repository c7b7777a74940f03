"""Acceptance statements of the mixed-decode experiment."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from arriero.bench.experiments.experiment import Statement
from arriero.bench.experiments.mixed_decode_fit import Fit
from arriero.bench.experiments.mixed_decode_runs import Case, LiveRun
from arriero.bench.experiments.mixed_decode_trace import Trace, first_difference
from arriero.core.request import FinishReason
from arriero.metrics.mixed_decode import MixedPolicy, MixedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One case, run by everybody.

    Attributes:
        lives: runs of the engine; the last one is compared and fitted.
        simulated: the same scheduler, simulated, under the deciding fit.
        presets: the published simulator's policies, under the deciding fit.
        preset_lengths: request → steps that have a row of it in the published simulator.
        fits: by half; the first one decides.
    """

    case: Case
    lives: tuple[LiveRun, ...]
    simulated: Trace
    presets: Mapping[MixedPolicy, MixedRun]
    preset_lengths: Mapping[int, int]
    fits: tuple[Fit, ...]

    @property
    def live(self) -> LiveRun:
        """The run that is compared."""
        return self.lives[-1]


def statements(judged: Sequence[Judged], makespan_tolerance: float) -> Iterator[Statement]:
    """All of them, case by case."""
    for each in judged:
        yield from _decisions(each)
        yield from _answers(each)
        yield from _lengths(each)
        if each.case.slots >= len(each.case.budgets):
            yield from _all_at_once(each)
        yield from _time(each, makespan_tolerance)


def _decisions(judged: Judged) -> Iterator[Statement]:
    name, live, simulated = judged.case.name, judged.live, judged.simulated
    for number, each in enumerate(judged.lives):
        difference = first_difference(each.trace, simulated)
        yield Statement.so(
            f"{name}: rows, slots, admissions and ends of every step of run {number + 1} are those simulated",
            difference or f"{len(each.trace.steps)} steps alike",
            "no step differs",
            holds=difference is None and bool(each.trace.steps),
        )
    total = len(judged.case.budgets)
    for words, ours, theirs in (
        ("admitted", live.trace.admitted_in(), simulated.admitted_in()),
        ("finished", live.trace.finished_in(), simulated.finished_in()),
        ("computed", live.trace.num_steps_of(), simulated.num_steps_of()),
    ):
        alike = sum(request in theirs and ours.get(request) == theirs[request] for request in range(total))
        what = "for as many steps" if words == "computed" else "in the same step"
        yield Statement.equal(f"{name}: requests {words} {what} in both", alike, total)
    yield Statement.so(
        f"{name}: the order of admission is the same",
        f"{len(live.trace.admission_order)} admissions",
        "the simulated order",
        holds=live.trace.admission_order == simulated.admission_order,
    )
    yield Statement.equal(f"{name}: decode calls", live.decode_calls, len(simulated.steps))


def _answers(judged: Judged) -> Iterator[Statement]:
    name = judged.case.name
    whole = sum(result.reason is FinishReason.LENGTH for result in judged.live.results)
    yield Statement.equal(f"{name}: requests that got their whole budget", whole, len(judged.case.budgets))
    first = [result.tokens for result in judged.lives[0].results]
    differing = sum(
        tokens != result.tokens for live in judged.lives[1:] for tokens, result in zip(first, live.results, strict=True)
    )
    yield Statement.equal(f"{name}: answers that a repeated run gives otherwise", differing, 0)


def _lengths(judged: Judged) -> Iterator[Statement]:
    """The published modelling difference: the simulator of rows and slots gives the first token one row later."""
    case = judged.case
    chunks = -(-len(case.prompt) // case.num_rows)
    real = judged.live.trace.num_steps_of()
    as_real = sum(real.get(number) == chunks + budget - 1 for number, budget in enumerate(case.budgets))
    yield Statement.equal(
        f"{case.name}: requests that take ceil(P / rows) + D - 1 steps in reality", as_real, len(case.budgets)
    )
    as_simulated = sum(
        judged.preset_lengths.get(number) == chunks + budget for number, budget in enumerate(case.budgets)
    )
    yield Statement.equal(
        f"{case.name}: requests that take ceil(P / rows) + D steps in the preset", as_simulated, len(case.budgets)
    )
    run = judged.presets[MixedPolicy.CONTINUOUS]
    rows = sum(each.batch_size for each in run.iterations)
    expected = sum(len(case.prompt) + budget for budget in case.budgets)
    yield Statement.equal(f"{case.name}: rows in the preset, one more for each request than in reality", rows, expected)
    live_rows = sum(each.prefill_rows + each.decode_rows for each in judged.live.trace.steps)
    yield Statement.equal(f"{case.name}: rows in reality", live_rows, expected - len(case.budgets))


def _all_at_once(judged: Judged) -> Iterator[Statement]:
    """Everybody has a slot from the start: closed forms for calls, ends and positions."""
    case, live = judged.case, judged.live
    yield Statement.equal(
        f"{case.name}: decode calls, one for each token of the longest", live.decode_calls, max(case.budgets)
    )
    ends = sorted({result.done_step for result in live.results})
    yield Statement.equal(
        f"{case.name}: steps after the prefill in which anybody ends",
        ", ".join(map(str, ends)),
        ", ".join(str(budget - 1) for budget in sorted(set(case.budgets))),
    )
    tops = sorted({-1 if result.pos_max_at_clear is None else result.pos_max_at_clear for result in live.results})
    yield Statement.equal(
        f"{case.name}: highest positions, P + D - 2",
        ", ".join(map(str, tops)),
        ", ".join(str(len(case.prompt) + budget - 2) for budget in sorted(set(case.budgets))),
    )


def _time(judged: Judged, tolerance: float) -> Iterator[Statement]:
    text = f"{judged.case.name}: makespan of the half that was not fitted, predicted / measured - 1"
    if not judged.fits:
        yield Statement.undecided(text, f"within {tolerance:g}", "too few steps to fit and to judge")
        return
    error = judged.fits[0].makespan_error
    yield Statement.between(text, _plain(error), -tolerance, tolerance)
    whole = judged.simulated.makespan / judged.live.trace.makespan - 1 if judged.live.trace.makespan else None
    yield Statement.between(
        f"{judged.case.name}: makespan of the whole simulated run under the same costs, simulated / measured - 1",
        None if whole is None else _plain(whole),
        -tolerance,
        tolerance,
    )


def _plain(error: float) -> float:
    """Five decimals, and no minus before a zero."""
    return round(error, 5) + 0.0
