import os
import random
from collections import Counter

from arriero.testing.strategies import pick_reuse_setup
from tests.property.reuse_user import ReuseUser

NUM_STEPS = 10_000
STEPS_OF_ONE = 300
EXPECTED_TO_HAPPEN = {
    "from tree", "from running", "from host", "from session", "from None", "moved", "preempted", "followers",
    "session_reuse", "session_reuse_lcp", "evicted_reclaim", "swapped out", "swapped in",
    "CopySequence", "RestoreSequence", "SaveSequence", "ForgetSaved", "TrimSequence", "MoveSequence", "DropSequence",
    "refused CopySequence", "refused RestoreSequence", "refused SaveSequence", "refused TrimSequence",
    "refused DropSequence", "Sampled", "NoRoom", "Interrupted", "Failed",
    "finished stop", "finished length", "finished cancelled", "finished failed",
}  # fmt: skip


def run(seed: int, num_steps: int) -> Counter[str]:
    """Use fresh schedulers until so many steps were planned."""
    rng = random.Random(seed)
    told: Counter[str] = Counter()
    while told["steps"] < num_steps:
        user = ReuseUser(pick_reuse_setup(rng.randint), rng.randint)
        try:
            use(user, rng)
        except Exception as error:
            error.add_note(f"seed {seed}, step {told['steps'] + user.num_steps}, step {user.num_steps} of {user.setup}")
            raise
        told += user.told
        told.update(user.memory.counts)
        told["steps"] += user.num_steps
    return told


def use(user: ReuseUser, rng: random.Random) -> None:
    """One scheduler, from its first request to its end."""
    while user.num_steps < STEPS_OF_ONE:
        for _ in range(rng.choice((0, 0, 1, 1, 3))):
            user.submit()
        if rng.random() < 0.15:
            user.cancel()
        if rng.random() < 0.02:
            user.tend()
        if rng.random() < 0.02:
            user.recalibrate()
        user.step()
    user.drain()


def test_prefixes_are_right_over_three_times_ten_thousand_random_steps() -> None:
    base = int(os.environ.get("ARRIERO_SEED", "20261130"))
    told: Counter[str] = Counter()
    for seed in range(base, base + 3):
        print(f"seed {seed} (ARRIERO_SEED={base}), {NUM_STEPS} steps")  # noqa: T201 - shown if the test fails
        told += run(seed, NUM_STEPS)
    assert told.keys() >= EXPECTED_TO_HAPPEN, f"seed {base}: never seen: {EXPECTED_TO_HAPPEN - told.keys()}"
