"""What must be so in any run of a context pool; a rule that is broken is told in one line.

Gate G45 and the experiment on the pool ask the same functions.
"""

from collections.abc import Iterator
from itertools import pairwise

from arriero.bench.fifo_pool_request import PoolLife, PoolOutcome
from arriero.bench.fifo_pool_runners import PoolRun


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
