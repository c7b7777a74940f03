"""E1 and E4 on the real model, short: counts and hashes; times are nothing to judge while other tests run."""

import pytest
from msgspec.structs import replace

from arriero.bench.experiments.definition import read_definition
from arriero.bench.experiments.interference import EXPERIMENT as INTERFERENCE
from arriero.bench.experiments.interference import Interference, TwoProbes
from arriero.bench.experiments.responsiveness import EXPERIMENT as RESPONSIVENESS
from arriero.bench.experiments.responsiveness import Responsiveness
from tests.unit.bench.experiments.running import definition, not_so, rows_of

pytestmark = [pytest.mark.model, pytest.mark.slow]


def test_e1_queued_cancels_resolve_without_a_decode_call_in_every_placement() -> None:
    whole = read_definition(definition(RESPONSIVENESS), Responsiveness)
    config = replace(whole, rounds=1, cancels=40, fewest_cancels=40, fan_outs=3, yardstick_tokens=9)
    outcome = RESPONSIVENESS.run(config, lambda _: None)
    assert not_so(outcome.statements, "as a share of the median decode step") == []
    assert outcome.facts["model_bytes"] > 1_000_000


def test_e4_prompt_rows_are_bounded_and_the_anchor_speaks_in_every_step() -> None:
    whole = read_definition(definition(INTERFERENCE), Interference)
    config = replace(
        whole,
        lengths=(11, 79),
        caps=(0, 16),
        cycles=1,
        two_probes=TwoProbes(length=48, per_sequence=16, per_step=16),
        yardstick_tokens=9,
        slot_tokens=256,
        threads=1,
        over_http=False,
    )
    outcome = INTERFERENCE.run(config, lambda _: None)
    assert not_so(outcome.statements) == []
    steps = {(row["prompt"], row["B"]): row["interference steps"] for row in rows_of(outcome, "Interference")}
    assert steps == {("L11", 0): 1, ("L11", 16): 1, ("L79", 0): 1, ("L79", 16): 5}
