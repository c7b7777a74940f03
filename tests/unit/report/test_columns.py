import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from arriero.metrics.goodput import Slos
from arriero.metrics.run_summary import latency_tables, run_summary
from arriero.metrics.served import Outcome, Served, ServedTally
from arriero.metrics.steps import StepTally
from arriero.report.columns import Asked, RequestTable
from arriero.report.latencies import measured
from arriero.report.measures import GROUPS
from tests.unit.report.runs import made, run_view

SUFFIXED = ("queue", "ttft", "tpot", "e2e", "itl_max")


def served(each: Asked) -> Served:
    return Served(
        life=each.life,
        outcome=Outcome(each.outcome),
        prompt_tokens=each.prompt_tokens,
        cached_tokens=each.cached_tokens,
        was_looked_up=each.looked_up,
        largest_gap=None,
        num_preemptions=each.preemptions,
        recomputed_tokens=each.recomputed_tokens,
    )


def tally_of(asked: list[Asked]) -> ServedTally:
    tally = ServedTally()
    for each in asked:
        tally.add(served(each), each.token_at)
    return tally


@given(st.integers(0, 150), st.integers(0, 99))
def test_distributions_are_those_of_the_summary(num: int, seed: int) -> None:
    tally = tally_of(made(num, seed))
    expected = latency_tables(tally.requests, tally)
    found = measured(run_view(num=num, seed=seed))
    for name in SUFFIXED:
        assert found.finished[name] == expected["finished"][f"{name}_us"]
        assert found.everybody[name] == expected["all"][f"{name}_us"]
    assert found.itl == expected["itl_us_token_weighted"]


@given(st.integers(1, 150), st.integers(0, 99))
def test_measures_are_those_of_the_summary(num: int, seed: int) -> None:
    run = run_view(num=num, seed=seed)
    first = float(run.requests.moments["arrival"].min())
    expected = run_summary(
        tally_of(made(num, seed)),
        StepTally(64, 512).figures(),
        makespan_us=int(run.ended_at - first),
        slos=Slos(ttft=900),
    )
    found = measured(run)
    values = {measure.name: measure.of(found) for group in GROUPS for measure in group.measures}
    for name in ("submitted", "finished", "rejected", "unfinished", "served_fraction"):
        assert values[name] == expected["counts"][name], name
    for name in ("makespan_us", "requests_per_s", "output_tokens_per_s", "prompt_tokens_computed_per_s",
                 "prompt_tokens_cached_per_s", "good_requests_per_s", "good_of_submitted"):  # fmt: skip
        assert values[name] == expected["whole_run"][name], name
    for name in ("preemptions", "recomputed_tokens"):
        assert values[name] == expected["preemption"][name], name
    rate = expected["prefix_cache"]["token_hit_rate"]
    assert values["token_hit_rate"] == (None if isinstance(rate, dict) else rate)


def test_an_undefined_latency_breaks_no_objective_and_a_bound_itself_is_kept() -> None:
    table = RequestTable()
    for each in made(50):
        table.add(each)
    requests = table.columns()
    finished = requests.ended_as(Outcome.FINISHED)
    assert (requests.keeping({}) == finished).all()
    one_token = finished & np.isnan(requests.latencies["tpot"])
    assert one_token.any()
    assert (requests.keeping({"tpot": 0.0}) == one_token).all()
    largest = float(np.nanmax(requests.latencies["ttft"][finished]))
    assert (requests.keeping({"ttft": largest}) == finished).all()
    assert requests.keeping({"ttft": largest - 1}).sum() < finished.sum()


def test_the_largest_gap_is_known_with_its_place() -> None:
    table = RequestTable()
    asked = made(60)
    for each in asked:
        table.add(each)
    moments = table.columns().moments
    for number, each in enumerate(asked):
        gaps = [
            (later - earlier, earlier, later) for earlier, later in zip(each.token_at, each.token_at[1:], strict=False)
        ]
        if not gaps:
            assert np.isnan(moments["stall_from"][number])
            continue
        widest = max(gap for gap, _, _ in gaps)
        place = next((earlier, later) for gap, earlier, later in gaps if gap == widest)
        assert (moments["stall_from"][number], moments["stall_until"][number]) == place
