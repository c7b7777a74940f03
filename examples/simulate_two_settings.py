"""What a cap on prefill does to those who are already reading, without a model and without waiting.

Three requests decode when a long prompt arrives. The scheduler is the one that serves; only the clock is simulated, in
microseconds, and a step costs what a formula says.
"""

from itertools import pairwise

from arriero import PrefillBudget, Request, Scheduler, Simulator
from arriero.core.events import TokenEmitted
from arriero.core.ids import RequestId, Time, TokenId
from arriero.kv.cells import CellLayout, CellManager
from arriero.kv.sequence_ids import LowestFirst
from arriero.scheduler.planners import DecodeFirst
from arriero.scheduler.policies import FirstComeFirstServed
from arriero.scheduler.scheduler import SchedulerLimits
from arriero.sim.simulator import Submission
from arriero.testing.simulation import CountingAnswers, LinearCost

LONG = RequestId(99)


def requests() -> list[Submission]:
    """Three short prompts at once, one long prompt 100 ms later."""
    short = [Request(request_id=RequestId(i), prompt=prompt(16), max_tokens=60, arrival_at=0) for i in range(3)]
    long = Request(request_id=LONG, prompt=prompt(1_500), max_tokens=8, arrival_at=100_000)
    return [Submission(request) for request in (*short, long)]


def prompt(num_tokens: int) -> tuple[TokenId, ...]:
    """So many tokens; which ones does not matter here."""
    return tuple(TokenId(i) for i in range(num_tokens))


def token_times(budget: PrefillBudget) -> dict[RequestId, list[Time]]:
    """When each request got its tokens."""
    layout = CellLayout(num_sequences=4, num_cells=8_192, sequence_limit=2_048, unified=False)
    scheduler = Scheduler(
        kv=CellManager(layout, LowestFirst(4)),
        planner=DecodeFirst(),
        policy=FirstComeFirstServed(),
        limits=SchedulerLimits(num_rows=512, budget=budget),
    )
    cost = LinearCost(base=4_000, per_decode_row=1_000, per_prefill_row=800)
    simulator = Simulator(scheduler=scheduler, cost=cost, answers=CountingAnswers(), check=True)
    times: dict[RequestId, list[Time]] = {}
    for step in simulator.run(requests()):
        for event in step.events:
            if isinstance(event, TokenEmitted):
                times.setdefault(event.request_id, []).append(step.ended_at)
    return times


def main() -> None:
    """Compare both settings."""
    print("prefill rows a step   longest gap between tokens   first token of the long prompt")
    for name, budget in (("no limit", PrefillBudget()), ("64", PrefillBudget(per_step=64))):
        times = token_times(budget)
        gap = max(after - before for i in range(3) for before, after in pairwise(times[RequestId(i)]))
        first = times[LONG][0] - 100_000
        print(f"{name:>19}   {gap / 1_000:23.1f} ms   {first / 1_000:27.1f} ms")


if __name__ == "__main__":
    main()
