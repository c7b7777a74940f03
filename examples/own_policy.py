"""A policy of one's own: short answers first, and nobody waits for ever. The class is all that it takes.

Here it orders requests in virtual time and in an engine. A server takes it by its name, started in this folder:
`arriero serve --policy own_policy:ShortAnswersFirst`; and so does a simulation, in the field `policy`.
"""

from arriero import Dedicated, Engine, EngineOptions, Request, Scheduler, Simulator, SyntheticBackend, SyntheticOptions
from arriero.core.events import Finished
from arriero.core.ids import RequestId
from arriero.kv.cells import CellLayout, CellManager
from arriero.scheduler.planners import DecodeFirst
from arriero.scheduler.policy_spec import PolicySpec
from arriero.scheduler.ranked import Ranked
from arriero.scheduler.rules import SchedulerLimits
from arriero.sim.simulator import Submission
from arriero.testing.simulation import CountingAnswers, LinearCost

TOKEN_TIME = 50_000
"""Microseconds of waiting that are worth one token: who asks for 100 tokens is passed for five seconds at most."""

ANSWERS = (40, 3, 12, 5, 8)


class ShortAnswersFirst(Ranked):
    """Smaller goes first; the arrival number ends every rank, so that no two are equal."""

    def rank(self, request: Request, arrival_number: int) -> tuple[int | float, ...]:
        """When a request without an answer would have to come to go first."""
        return (request.arrival_at + request.max_tokens * TOKEN_TIME, arrival_number)


def simulated() -> list[int]:
    """The lengths of the answers in the order in which they end, all asked for at once, on one slot."""
    scheduler = Scheduler(
        kv=CellManager(CellLayout(num_sequences=1, num_cells=256, sequence_limit=256, unified=False)),
        planner=DecodeFirst(),
        policy=ShortAnswersFirst(),
        limits=SchedulerLimits(num_rows=64),
    )
    asked = [
        Request(request_id=RequestId(number), prompt=(1, 2, 3), max_tokens=length, arrival_at=0)
        for number, length in enumerate(ANSWERS)
    ]
    simulator = Simulator(scheduler=scheduler, cost=LinearCost(10_000), answers=CountingAnswers())
    steps = simulator.run([Submission(request) for request in asked])
    return [event.num_decoded for step in steps for event in step.events if isinstance(event, Finished)]


def served() -> list[int]:
    """The same from an engine, without a model; requests that come before the start are all there at once."""
    options = EngineOptions(policy=PolicySpec(word="own_policy:ShortAnswersFirst", own=ShortAnswersFirst))
    engine = Engine(SyntheticBackend(SyntheticOptions(num_sequences=1)), options)
    handles = [engine.submit([1, 2, 3], max_tokens=length, end_tokens=frozenset()) for length in ANSWERS]
    engine.start(Dedicated())
    results = [handle.wait(timeout_s=10) for handle in handles]
    engine.shutdown()
    engine.join(timeout_s=10)
    results.sort(key=lambda result: result.done_step)
    return [result.num_decoded for result in results]


def main() -> None:
    """The order of the answers, in both worlds."""
    print("asked for ", *ANSWERS)
    print("simulated ", *simulated())
    print("served    ", *served())


if __name__ == "__main__":
    main()
