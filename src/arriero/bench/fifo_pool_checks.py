"""What must be so in any run of a context pool; a rule that is broken is told in one line.

broken_rules    of any run
control_rules   of the runs of gate G45, which the gate and the experiment on the pool both ask
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from arriero.bench.fifo_pool_figures import pool_figures
from arriero.bench.fifo_pool_request import PoolLife, PoolOutcome
from arriero.bench.fifo_pool_runners import PoolRun

NONE: Final = "none"
Figure: TypeAlias = int | str | tuple[int, ...] | None


class Rule(NamedTuple):
    """One figure of a run, and what it must be exactly."""

    run: str  # mixed, serial or hindered
    name: str
    seen: Figure
    promised: Figure

    @property
    def holds(self) -> bool:
        """Whether it is so."""
        return self.seen == self.promised


class ControlRuns(NamedTuple):
    """The three runs of one runner; see `fifo_pool_control.py`."""

    mixed: PoolRun
    serial: PoolRun
    hindered: PoolRun


def control_rules(
    runs: ControlRuns, promised: Mapping[int, int], *, errors: Mapping[str, int] | None = None
) -> Iterator[Rule]:
    """Every rule of gate G45.

    Args:
        runs: of one runner.
        promised: budget → the hash of the engine's answer.
        errors: kind → requests that were made to fail in the hindered run; None for none.
    """
    yield from _mixed_rules(runs.mixed, promised)
    yield from _serial_rules(runs.serial)
    yield from _hindered_rules(runs.hindered, promised, {} if errors is None else errors)


def _mixed_rules(run: PoolRun, promised: Mapping[int, int]) -> Iterator[Rule]:
    """Each budget has one answer, the engine's; whoever has nothing to compute takes no context."""
    plan, found = run.plan, pool_figures(run)
    budgets = [plan.budget_of(number) for number in range(plan.requests)]
    num_asked = sum(budget > 0 for budget in budgets)
    yield Rule("mixed", "broken_rules", _broken(run), NONE)
    yield Rule("mixed", "ok", found.ok, plan.requests)
    yield Rule("mixed", "acquires", found.acquires, num_asked)
    yield Rule("mixed", "releases", found.releases, num_asked)
    yield Rule("mixed", "bypassed", found.bypassed, plan.requests - num_asked)
    yield Rule("mixed", "decode_calls", found.decode_calls, sum(budgets))
    yield Rule("mixed", "wakes", found.wakes, found.waits)
    seen = hashes(run)
    for budget in sorted({budget for budget in budgets if budget}):
        yield Rule("mixed", f"hashes_{budget}", hash_words(seen.get(budget, ())), _promised(promised, budget))


def _serial_rules(run: PoolRun) -> Iterator[Rule]:
    """On one context a request begins when the one before it has ended, in the order of asking."""
    ended = sorted(run.lives, key=lambda life: life.ended_at)
    yield Rule("serial", "broken_rules", _broken(run), NONE)
    yield Rule("serial", "peak", pool_figures(run).peak_in_use, 1)
    yield Rule("serial", "order", tuple(life.number for life in ended), tuple(range(run.plan.requests)))


def _hindered_rules(run: PoolRun, promised: Mapping[int, int], errors: Mapping[str, int]) -> Iterator[Rule]:
    """Whoever is cancelled or fails gives its context back, and the others are answered as ever."""
    plan, found = run.plan, pool_figures(run)
    (budget,) = plan.budgets
    yield Rule("hindered", "broken_rules", _broken(run), NONE)
    yield Rule("hindered", "errors", str(found.errors), str(dict(errors)))
    yield Rule("hindered", "cancelled", found.cancelled, len(plan.cancels))
    yield Rule("hindered", "ok", found.ok, plan.requests - len(plan.cancels) - sum(errors.values()))
    yield Rule("hindered", "releases", found.releases, found.acquires)
    yield Rule("hindered", "hashes", hash_words(hashes(run).get(budget, ())), _promised(promised, budget))


def _promised(promised: Mapping[int, int], budget: int) -> str:
    return hash_words([promised[budget]]) if budget in promised else "an answer of the engine"


def _broken(run: PoolRun) -> str:
    return "; ".join(broken_rules(run)) or NONE


def hash_words(token_hashes: Iterable[int]) -> str:
    """Hashes as they are written."""
    return " ".join(f"0x{each:016x}" for each in token_hashes)


def broken_rules(run: PoolRun) -> list[str]:
    """Every rule that a run broke."""
    return [*_broken_lives(run), *_broken_hashes(run), *_broken_pool(run), *_broken_turns(run)]


def hashes(run: PoolRun) -> dict[int, list[int]]:
    """The distinct hashes of whole greedy answers, by budget; both ascending."""
    found: dict[int, set[int]] = {}
    for life in run.lives:
        if life.outcome is PoolOutcome.OK and life.budget:
            found.setdefault(life.budget, set()).add(life.token_hash)
    return {budget: sorted(values) for budget, values in sorted(found.items())}


def _broken_lives(run: PoolRun) -> Iterator[str]:
    numbers = [life.number for life in run.lives]
    if numbers != list(range(run.plan.requests)):
        yield f"{run.plan.requests} requests were asked and {len(numbers)} ended, not each of them once"
    for life in run.lives:
        said = len(life.tokens)
        is_short = life.outcome is PoolOutcome.OK and said != life.budget and not run.plan.heeds_end
        if said > life.budget or is_short:
            yield f"request {life.number} ended as {life.outcome} with {said} of {life.budget} tokens"
        if (life.outcome is PoolOutcome.ERROR) != (life.error is not None):
            yield f"request {life.number} ended as {life.outcome} with the error {life.error}"
        known = (life.asked_at, life.started_at, life.first_at, life.ended_at)
        if any(earlier > later for earlier, later in pairwise(each for each in known if each is not None)):
            yield f"request {life.number}: its moments {known} are out of order"


def _broken_hashes(run: PoolRun) -> Iterator[str]:
    if run.plan.temperature or run.plan.heeds_end:
        return
    for budget, values in hashes(run).items():
        if len(values) != 1:
            yield f"budget {budget} gave {len(values)} different answers to one prompt"


def _broken_pool(run: PoolRun) -> Iterator[str]:
    counts, plan = run.counts, run.plan
    if counts is None:
        return
    if counts.acquires != counts.releases:
        yield f"{counts.acquires} acquires and {counts.releases} releases"
    if counts.in_use:
        yield f"{counts.in_use} contexts are held at the end"
    if counts.peak > plan.contexts:
        yield f"{counts.peak} of {plan.contexts} contexts were held at once"
    if counts.wakes + counts.left != counts.waits:
        yield f"{counts.waits} waited, {counts.wakes} were woken and {counts.left} left"
    if list(counts.order) != sorted(counts.order):
        yield "contexts were handed out in another order than they were asked for"
    asked = sum(life.budget > 0 for life in run.lives)
    if counts.acquires + counts.left != asked:
        yield f"{asked} requests had something to compute, {counts.acquires} got a context and {counts.left} left"


def _broken_turns(run: PoolRun) -> Iterator[str]:
    """A context serves one request at a time, and a request without budget is served by none."""
    turns: dict[int, list[PoolLife]] = {}
    for life in run.lives:
        if life.budget == 0 and (life.started_at is not None or life.decode_calls):
            yield f"request {life.number} has budget 0 and was computed"
        if life.started_at is not None and life.context is not None and run.counts is not None:
            turns.setdefault(life.context, []).append(life)
    for context, lives in sorted(turns.items()):
        in_order = sorted(lives, key=_started_at)
        # a cancel sets the end at once, before the context is given back
        pairs = [(one, next_one) for one, next_one in pairwise(in_order) if one.outcome is not PoolOutcome.CANCELLED]
        for one, next_one in pairs:
            if one.ended_at > _started_at(next_one):
                yield f"context {context} ran request {next_one.number} before request {one.number} had ended"


def _started_at(life: PoolLife) -> int:
    assert life.started_at is not None, "only requests that were computed are asked"
    return life.started_at
