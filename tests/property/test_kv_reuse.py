"""CellManager with reuse and swaps against a memory of lists; see `ReuseWorld` and `SwapWorld`."""

import os
import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from arriero.testing.strategies import hypothesis_pick
from tests.property.kv_reuse_model import pick_world
from tests.property.kv_swap_world import SwapWorld
from tests.property.machines import machine_settings

NUM_STEPS = 10_000
VERBS = (
    "start", "prefill", "decode", "release", "begin_step", "move_down", "clear", "save",
    "swap_out", "swap_in", "abandon",
)  # fmt: skip
WEIGHTS = (8, 8, 8, 6, 8, 2, 0.2, 0.2, 3, 4, 0.5)
EXPECTED_TO_HAPPEN = {
    *(f"started {source}" for source in ("initial_idle", "cancel_freed", "completion_freed", "evicted_reclaim")),
    *(f"started {source}" for source in ("session_reuse", "session_reuse_lcp")),
    *(f"prefix {source}" for source in ("None", "session", "tree", "running", "host", "disk")),
    *(f"lookup {verdict}" for verdict in ("reused", "no_scope", "no_match", "below_minimum", "whole_prompt")),
    *(f"refused {op}Sequence" for op in ("Drop", "Trim", "Copy", "Save", "Restore")),
    "ForgetSaved", "shortage of cells", "shortage of ids", "no room", "preempted", "moved", "in place", "needless",
    "swapped out", "swapped in", "not swapped in", "no room outside", "abandoned",
}  # fmt: skip


class ReuseMachine(RuleBasedStateMachine):
    """Any sequence of verbs; arguments are picked by hypothesis too."""

    world: SwapWorld

    @initialize(data=st.data())
    def build(self, data: st.DataObject) -> None:
        pick = hypothesis_pick(data.draw)
        self.world = SwapWorld(pick_world(pick), pick)

    def use(self, data: st.DataObject, verb: str) -> None:
        self.world.pick = hypothesis_pick(data.draw)
        getattr(self.world, verb)()

    @rule(data=st.data(), verb=st.sampled_from(VERBS))
    def any_verb(self, data: st.DataObject, verb: str) -> None:
        self.use(data, verb)

    @rule(data=st.data())
    def a_request_starts_and_is_computed(self, data: st.DataObject) -> None:
        self.use(data, "start")
        self.use(data, "prefill")

    @rule(data=st.data())
    def a_step_passes(self, data: st.DataObject) -> None:
        self.use(data, "decode")
        self.use(data, "begin_step")

    @invariant()
    def the_books_agree(self) -> None:
        self.world.check()


TestReuse = ReuseMachine.TestCase
TestReuse.settings = settings(
    machine_settings(one_in=5),
    stateful_step_count=80,  # each picks many arguments
    suppress_health_check=[HealthCheck.large_base_example],  # eighty steps are one
)


def run(seed: int, num_steps: int) -> Counter[str]:
    """Use fresh managers until so many verbs were used."""
    rng = random.Random(seed)
    told: Counter[str] = Counter()
    for done in range(0, num_steps, 100):
        world = SwapWorld(pick_world(rng.randint), rng.randint)
        for step in range(100):
            verb = rng.choices(VERBS, WEIGHTS)[0]
            try:
                getattr(world, verb)()
                world.check()
            except Exception as error:
                error.add_note(f"seed {seed}, verb {done + step} of {num_steps}: {verb}, step {step} of {world.setup}")
                raise
        world.end()
        told += world.told
    return told


@pytest.mark.parametrize("number", range(3))
def test_every_rule_holds_over_ten_thousand_random_verbs(number: int) -> None:
    base = int(os.environ.get("ARRIERO_SEED", "20261129"))
    seed = base + number
    print(f"seed {seed} (ARRIERO_SEED={base}), {NUM_STEPS} verbs")  # noqa: T201 - shown if the test fails
    told = run(seed, NUM_STEPS)
    assert told.keys() >= EXPECTED_TO_HAPPEN, f"seed {seed}: never seen: {EXPECTED_TO_HAPPEN - told.keys()}"
