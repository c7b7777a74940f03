"""check_scheduler(): every rule that holds between two steps.

Called after every step by property tests, by the simulator under `--check` and by the engine under `--check`.
O(requests alive); it changes nothing.
"""

from arriero.core.errors import InvariantViolation
from arriero.core.request import RequestState
from arriero.kv.protocol import KvUsage
from arriero.scheduler.scheduler import Scheduler
from arriero.scheduler.views import SchedulerView


def check_scheduler(scheduler: Scheduler) -> None:
    """Verify the books of a scheduler that has no uncommitted plan.

    Raises:
        InvariantViolation: names the rule and the figures.
    """
    view = scheduler.inspect()
    view.kv.check()
    usage = view.kv.usage()
    running, waiting = view.running, view.waiting
    held = [progress.held_sequence for progress in running]
    alive = {*map(id, running), *map(id, waiting)}
    cells = sum(
        progress.num_known if progress.state is RequestState.PREFILLING else progress.num_computed
        for progress in running
    )
    rules = (
        (len(set(held)) == len(held), "two requests hold one sequence"),
        (usage.sequences_held == len(running), "sequences held and requests running differ"),
        (usage.held_tokens == cells, "places held and tokens that need a place differ"),
        (usage.active_cells <= usage.held_tokens, "more cells are held than there are tokens in them"),
        (
            usage.active_cells + usage.retained_cells + usage.free_cells == usage.num_cells,
            "active, retained and free cells do not add up to all",
        ),
        (alive == set(map(id, view.alive)), "a request is alive but neither waits nor runs, or the reverse"),
        (len(view.alive) == len(running) + len(waiting), "a request waits and runs at once"),
        *_waiting_rules(view, usage),
        (
            all(progress.num_remaining >= progress.lag for progress in running),
            "a running request has nothing left to compute",
        ),
        (
            all(0 <= progress.num_computed <= progress.num_known for progress in running),
            "a running request has more computed tokens than known ones",
        ),
        (
            # Where decode rows give their own token, one without allowed output lives until its prompt is computed.
            all(progress.num_decoded < max(progress.request.max_tokens, 1 - progress.lag) for progress in view.alive),
            "a request is alive beyond its last token",
        ),
        (
            [progress.admission for progress in running] == sorted(progress.admission for progress in running),
            "running requests are not in admission order",
        ),
        (
            all(
                progress.num_remaining == progress.lag and progress.num_decoded >= progress.lag
                for progress in running
                if progress.state is RequestState.DECODING
            ),
            "a decoding request is not exactly one token behind, or none where decode rows give their own token",
        ),
    )
    for holds, rule in rules:
        if not holds:
            message = f"{rule}: {usage}, running {held}, waiting {len(waiting)}"
            raise InvariantViolation(message)


def _waiting_rules(view: SchedulerView, usage: KvUsage) -> tuple[tuple[bool, str], ...]:
    waiting = view.waiting
    return (
        (all(progress.state is RequestState.WAITING for progress in waiting), "a waiting request is in another state"),
        (all(progress.num_computed == 0 for progress in waiting), "a waiting request has computed tokens"),
        (
            sum(view.kv.swaps.length(progress.request.request_id) for progress in waiting) == usage.swapped_tokens,
            "tokens are kept outside for somebody who does not wait",
        ),
    )
