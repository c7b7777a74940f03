"""What a cheaper machine sustains, and that rates follow from costs alone."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from arriero.costmodel.models import RoundedMicroseconds
from arriero.metrics.client_figures import ClientSlos
from arriero.sim.asked import by_chance
from arriero.sim.capacity import STEPS, Demand, largest, saturation, sustainable
from arriero.sim.cost_changes import AnyCost, coefficients, scaled, with_coefficient
from tests.unit.sim.whatif_rig import CALIBRATED, asked, setup_of

MS = 1_000_000
costs: st.SearchStrategy[AnyCost] = st.one_of(
    st.builds(
        RoundedMicroseconds,
        base=st.integers(5_000, 40_000),
        prefill_row=st.integers(20, 600),
        decode_row=st.integers(0, 3_000),
    ),
    st.floats(2, 12).map(lambda factor: scaled(CALIBRATED, factor)),
)


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    sizes = draw(st.lists(st.tuples(st.integers(1, 120), st.integers(1, 12)), min_size=12, max_size=30))
    work = by_chance(asked(*((0, prompt, output) for prompt, output in sizes)), draw(st.integers(0, 99)))
    bounds = st.none() | st.integers(20, 900).map(lambda ms: ms * MS)
    slos = ClientSlos(ttft_ns=draw(bounds), largest_gap_ns=draw(bounds), e2e_ns=draw(st.integers(100, 4000)) * MS)
    return Demand(asked=work, slos=slos, share=draw(st.sampled_from([0.5, 0.8, 0.9])))


@settings(max_examples=12)
@given(costs, demands(), st.integers(1, 6), st.floats(0.25, 0.8))
def test_a_cheaper_cost_never_gives_a_lower_sustainable_rate(
    cost: AnyCost, demand: Demand, sequences: int, factor: float
) -> None:
    setup = setup_of(sequences=sequences, cells=512 * sequences)
    dear = sustainable(setup, cost, demand)
    cheap = sustainable(setup, scaled(cost, factor), demand)
    assert cheap.rate_per_s >= dear.rate_per_s
    assert cheap.saturation_per_s >= dear.saturation_per_s


@settings(max_examples=12)
@given(costs, demands(), st.integers(1, 6), st.floats(0.25, 0.8), st.data())
def test_one_cheaper_coefficient_costs_no_more_than_two_steps_of_the_search(
    cost: AnyCost, demand: Demand, sequences: int, factor: float, data: st.DataObject
) -> None:
    setup = setup_of(sequences=sequences, cells=512 * sequences)
    name = data.draw(st.sampled_from(coefficients(cost)))
    dear = sustainable(setup, cost, demand)
    cheap = sustainable(setup, with_coefficient(cost, name, factor), demand)
    assert cheap.saturation_per_s >= dear.saturation_per_s * (1 - 1e-6)
    assert cheap.rate_per_s >= dear.rate_per_s - 2 * dear.saturation_per_s / STEPS


@settings(max_examples=12)
@given(costs, demands(), st.integers(1, 6))
def test_a_run_is_the_same_every_time_and_looser_objectives_never_lower_the_rate(
    cost: AnyCost, demand: Demand, sequences: int
) -> None:
    setup = setup_of(sequences=sequences, cells=512 * sequences)
    found = sustainable(setup, cost, demand)
    assert found == sustainable(setup, cost, demand)
    looser = replace(demand, slos=replace(demand.slos, ttft_ns=None), share=demand.share / 2)
    assert sustainable(setup, cost, looser).rate_per_s >= found.rate_per_s
    assert found.saturation_per_s == saturation(setup, cost, demand.asked)


@given(st.lists(st.booleans(), min_size=65, max_size=65), st.lists(st.booleans(), min_size=65, max_size=65))
def test_what_holds_wherever_something_else_does_reaches_as_far(one: list[bool], more: list[bool]) -> None:
    both = [first or second for first, second in zip(one, more, strict=True)]
    assert largest(both.__getitem__, 64) >= largest(one.__getitem__, 64)
