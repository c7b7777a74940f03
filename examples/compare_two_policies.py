"""A policy of one's own against first come, first served, in virtual time: the same object could serve."""

import random
from statistics import mean

from arriero import Request, Scheduler, Simulator
from arriero.core.events import TokenEmitted
from arriero.core.ids import RequestId
from arriero.kv.cells import CellLayout, CellManager
from arriero.scheduler.planners import DecodeFirst
from arriero.scheduler.policies import FirstComeFirstServed
from arriero.scheduler.scheduler import SchedulerLimits
from arriero.sim.simulator import Submission
from arriero.testing.simulation import CountingAnswers, LinearCost


class ShortestPromptFirst(FirstComeFirstServed):
    """Short prompts overtake; ties end in the arrival number."""

    def rank(self, request: Request, arrival_number: int) -> tuple[int, int]:
        """The place in the queue."""
        return len(request.prompt), arrival_number


def mean_ttft_ms(policy: FirstComeFirstServed) -> float:
    """Mean time to the first token of 400 requests, some short and some long, on 4 slots."""
    draw = random.Random(7)
    requests = [
        Request(request_id=RequestId(i), prompt=(0,) * draw.choice((20, 800)), max_tokens=20, arrival_at=i * 120_000)
        for i in range(400)
    ]
    layout = CellLayout(num_sequences=4, num_cells=8_192, sequence_limit=2_048, unified=False)
    limits = SchedulerLimits(num_rows=512)
    scheduler = Scheduler(kv=CellManager(layout), planner=DecodeFirst(), policy=policy, limits=limits)
    cost = LinearCost(base=4_000, per_decode_row=1_000, per_prefill_row=300)
    first: dict[RequestId, float] = {}
    simulator = Simulator(scheduler=scheduler, cost=cost, answers=CountingAnswers())
    for step in simulator.run([Submission(request) for request in requests]):
        for event in step.events:
            if isinstance(event, TokenEmitted) and event.index == 0:
                first[event.request_id] = event.at - requests[event.request_id].arrival_at
    return mean(first.values()) / 1_000


if __name__ == "__main__":
    for policy in (FirstComeFirstServed(), ShortestPromptFirst()):
        print(f"{type(policy).__name__:>22}: mean TTFT {mean_ttft_ms(policy):8.1f} ms")
