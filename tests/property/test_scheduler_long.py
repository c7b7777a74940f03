import os
import random
from collections import Counter

import pytest

from arriero.testing.strategies import pick_setup
from tests.property.scheduler_user import SchedulerUser

NUM_STEPS = 10_000
EXPECTED_TO_HAPPEN = {
    "queued", "rejected", "admitted", "token", "preempted", "observed", "ignored",
    "Sampled", "NoRoom", "Interrupted", "Failed",
    "finished stop", "finished length", "finished cancelled", "finished aborted", "finished failed",
    "save", "restore", "forget",
}  # fmt: skip


def run(seed: int, num_steps: int) -> Counter[str]:
    """Use fresh schedulers until so many steps were planned; each serves until most of its ids are out of service."""
    rng = random.Random(seed)
    told: Counter[str] = Counter()
    done = 0
    while done < num_steps:
        user = SchedulerUser(pick_setup(rng.randint), rng.randint)
        for _ in range(rng.randint(0, 3)):
            user.submit(preloaded=True)
        while done < num_steps and user.witness.num_steps < 400 and user.can_go_on():
            for _ in range(rng.choice((0, 0, 1, 2))):
                user.submit()
            if rng.random() < 0.15:
                user.cancel()
            try:
                user.step()
            except Exception as error:
                note = f"seed {seed}, step {done} of {num_steps}, step {user.witness.num_steps} of {user.setup}"
                error.add_note(note)
                raise
            done += 1
        user.drain()
        told += user.told
    return told


@pytest.mark.parametrize("number", range(3))
def test_every_rule_holds_over_ten_thousand_random_steps(number: int) -> None:
    base = int(os.environ.get("ARRIERO_SEED", "20261129"))
    seed = base + number
    print(f"seed {seed} (ARRIERO_SEED={base}), {NUM_STEPS} steps")  # noqa: T201 - shown if the test fails
    told = run(seed, NUM_STEPS)
    assert told.keys() >= EXPECTED_TO_HAPPEN, f"seed {seed}: never seen: {EXPECTED_TO_HAPPEN - told.keys()}"
