"""E6 on the real model, short: a slot is never empty while somebody waits."""

import pytest
from msgspec.structs import replace

from arriero.bench.experiments.definition import read_definition
from arriero.bench.experiments.occupancy import EXPERIMENT, OccupancyLab
from tests.unit.bench.experiments.running import definition, find, not_so

pytestmark = [pytest.mark.model, pytest.mark.slow]


def test_e6_every_slot_is_busy_while_somebody_waits() -> None:
    whole = read_definition(definition(EXPERIMENT), OccupancyLab)
    config = replace(
        whole,
        threads=1,
        slot_tokens=256,
        prompt="Hello",
        budget=4,
        requests_per_client=10,
        ladder=(1,),
        ladder_requests=4,
        offered_shares=(),
    )
    outcome = EXPERIMENT.run(config, lambda _: None)
    # one in a hundred is less than two steps here, and so many may pass until four clients have connected
    assert not_so(outcome.statements, "steps for") == []
    steps = find(outcome.statements, "steps for").measured
    assert isinstance(steps, int)
    assert 160 <= steps <= 160 + 2 * config.budget
    assert find(outcome.statements, "mean active while the queue").measured == 4.0
