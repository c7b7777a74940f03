"""Prints every step of some random runs; started as a program by the tests beside it."""

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from arriero.core.events import CancelById, CancelByToken, CancelEverything, CancelTarget
from arriero.core.ids import Epoch, RequestId
from arriero.core.plan import BatchPlan, StepOutcome
from arriero.sim.simulator import Cancellation, Message, SimulatedStep, Simulator, Submission
from arriero.testing.simulation import LinearCost
from arriero.testing.strategies import pick_outcome, pick_request, pick_setup

NUM_RUNS = 40
NUM_MESSAGES = 60


@dataclass
class PickedAnswers:
    """Outcomes by a seeded generator, faults included."""

    rng: random.Random
    num_sequences: int

    def to(self, plan: BatchPlan) -> StepOutcome:
        """The outcome of one plan with rows."""
        return pick_outcome(self.rng.randint, plan, self.num_sequences)


def messages(rng: random.Random) -> list[Message]:
    """Submissions and cancels at random times; ids live again."""
    posted: list[Message] = []
    for epoch in range(1, NUM_MESSAGES + 1):
        at = rng.randint(0, 300)
        request_id = RequestId(rng.randint(1, 20))
        request = pick_request(
            rng.randint, request_id=request_id, epoch=epoch, arrival_at=at, preloaded=rng.random() < 0.1
        )
        posted.append(Submission(request))
        targets: list[CancelTarget] = [CancelById(request_id), CancelByToken(request_id, Epoch(epoch))]
        if rng.random() < 0.4:
            posted.append(Cancellation(rng.choice(targets), at + rng.randint(-20, 40)))
    return [*posted, Cancellation(CancelEverything(), 400)]


def steps(seed: int) -> Iterator[SimulatedStep]:
    """One run on a setup of its own."""
    rng = random.Random(seed)
    setup = pick_setup(rng.randint)
    sim = Simulator(
        scheduler=setup.new_scheduler(),
        cost=LinearCost(2, per_prefill_row=1),
        answers=PickedAnswers(rng, setup.layout.num_sequences),
    )
    return sim.run(messages(rng))


def main() -> None:
    """One line for each step."""
    for seed in range(NUM_RUNS):
        for step in steps(seed):
            sys.stdout.write(f"{step}\n")


if __name__ == "__main__":
    main()
