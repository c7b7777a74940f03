"""Experiments on prefixes with the real model, short: counts and texts; times are nothing to judge here."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from arriero.backend.vocabulary import LlamaVocabulary
from arriero.bench.experiments.burst_load import BurstShape
from arriero.bench.experiments.burst_rounds import BurstLab
from arriero.bench.experiments.cold_fan_out import EXPERIMENT as COLD_FAN_OUT
from arriero.bench.experiments.contexts import ContextShape, ModelSettings, open_model
from arriero.bench.experiments.definition import read_definition
from arriero.bench.experiments.holes_engine import run_engine
from arriero.bench.experiments.holes_load import Population, plan_of
from arriero.bench.experiments.near_ties import Parting, near_ties
from arriero.bench.experiments.prefix_reuse import W_CHAT, W_CONTROL, PrefixReuse
from arriero.bench.experiments.prefix_reuse_cells import Way
from arriero.bench.experiments.prefix_reuse_workloads import Workload, WorkloadSize, turns_of
from arriero.metrics.client_life import Outcome
from tests.unit.bench.experiments.running import definition, not_so, rows_of

pytestmark = [pytest.mark.model, pytest.mark.slow]

TIMES = ("TTFT", "tok/s")


def test_no_two_prompts_of_the_control_have_a_first_token_in_common(vocabulary: LlamaVocabulary) -> None:
    texts = read_definition(definition(W_CONTROL), PrefixReuse).texts
    turns = turns_of(Workload.CONTROL, texts, WorkloadSize(measured=40, warm_ups=2, turns=1, interleaved=1))
    firsts = [vocabulary.encode(turn.text, add_special=True, parse_special=True)[0] for turn in turns]
    assert len(set(firsts)) == 42


def test_cold_fan_out_computes_the_prefix_once(short_path: Path) -> None:
    whole = read_definition(definition(COLD_FAN_OUT), BurstLab)
    burst = BurstShape(requests=4, clients=4, prefix_tokens=90, own_tokens=7, budget=3, first_token=1000,
                       vocabulary=30_000)  # fmt: skip
    # attention is chosen, so that no server tries which one is faster
    model = replace(whole.model, reference=str(short_path), flash_attention="off")
    config = replace(whole, model=model, burst=burst, rounds=1, slots=4, slot_tokens=256, threads=1)
    outcome = COLD_FAN_OUT.run(config, lambda _: None)
    assert not_so(outcome.statements, "llama-server") == []
    (row,) = rows_of(outcome, "Bursts over HTTP")
    assert row["prompt rows"] == f"{90 + 4 * 7} ... {90 + 4 * 7}"


@pytest.mark.timeout(300)  # six servers, two of which prove exact mode at their start
def test_chat_is_continued_in_every_way_and_exact_mode_changes_no_answer() -> None:
    whole = read_definition(definition(W_CHAT), PrefixReuse)
    quick = read_definition(definition(W_CHAT), PrefixReuse, quick=True)  # on the formula, with shorter texts
    config = replace(
        quick,
        model=whole.model,  # whole: a session continues what was said, so it must be text that reads back alike
        flags=("--batch", "128", "--micro-batch", "128"),
        measured=3,
        warm_ups=0,
        turns=3,
        slot_tokens=256,
        threads=1,
    )
    outcome = W_CHAT.run(config, lambda _: None)
    assert not_so(outcome.statements, *TIMES, "share of prompt rows skipped") == []
    shares = {row["way"]: row["share skipped"] for row in rows_of(outcome, "Prefix reuse")}
    assert shares[str(Way.OFF)] == shares[str(Way.EXACT_OFF)] == 0
    for way in (Way.SESSION_EXACT, Way.SESSION_PARTIAL, Way.TREE, Way.EXACT_TREE):
        share = shares[str(way)]
        assert isinstance(share, float)
        assert share > 0.4, "two of three turns continue"


def test_run_of_an_engine_is_computed_again_on_contiguous_ids() -> None:
    population = Population(
        requests=12, fewest=2, most=4, prompt_low=4, prompt_high=20, output_low=2, output_high=10, first_token=1000,
        vocabulary=30_000,
    )  # fmt: skip
    with open_model(ModelSettings()) as source:
        shape = ContextShape(num_sequences=8, positions=64, threads=1)
        run = run_engine(source, shape, plan_of(population, 3, 0), 0, closes_holes=True)
    assert all(life.outcome is Outcome.LENGTH for life in run.lives)
    assert sum(step.num_rows for step in run.steps) >= sum(life.asked_prompt_tokens or 0 for life in run.lives)
    assert run.against_contiguous is not None


def test_gap_of_two_answers_is_that_of_their_first_different_tokens() -> None:
    with open_model(ModelSettings()) as source:
        parting = Parting(name="r", prompt="The capital of France is", text=" Paris", other=" London")
        (found,) = near_ties(source, [parting], budget=4, slot_tokens=64)
    assert (found.index, found.token, found.other) == (0, " Paris", " London")
    assert found.gap is not None
    assert found.gap > 1
