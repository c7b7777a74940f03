"""The rows that fit a time, against trying every number."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from arriero.core.option_kinds import Threads
from arriero.costmodel.calibrated import CalibratedCost, HostCosts, Outside, ValidRange
from arriero.costmodel.chunk_limit import most_within, rows_within, rows_worth, with_chunk
from arriero.costmodel.chunk_times import ChunkTimes
from arriero.costmodel.passes import PassRules, Stretch
from arriero.costmodel.terms import TERMS, PassCosts

# Few rows in a stream cost far more for each key than a tile does, so that 64 rows are cheaper than 63.
STEEP = PassCosts.of({
    "pass": 3000, "build": 800, "rows_0": 2000, "rows_16": 1600, "rows_64": 1500, "rows_256": 1500, "stream": 300,
    "few_key": 24, "one_key": 24, "many_key": 2.2, "logits": 500, "logit_row": 900,
})  # fmt: skip
COST = CalibratedCost(
    rules=PassRules(micro_batch=512, unified=False, stream_cells=4096),
    passes={1: STEEP},
    threads=Threads(1, 1),
    host=HostCosts(step=100, entry=5, token=10),
    valid=ValidRange(rows=512, sequences=8, context=4096, pool=32_768),
)
costs = st.lists(st.floats(0, 100), min_size=len(TERMS), max_size=len(TERMS)).map(lambda each: PassCosts(tuple(each)))


def decodes(count: int, start: int = 200) -> list[Stretch]:
    return [Stretch(number, start, 1, wants_logits=True) for number in range(count)]


def brute(cost: CalibratedCost, rows: list[Stretch], chunk: Stretch, limit: int) -> int:
    fitting = [
        number
        for number in range(1, chunk.num_rows + 1)
        if cost.time([*rows, chunk._replace(num_rows=number, wants_logits=number == chunk.num_rows)]) <= limit
    ]
    return max(fitting, default=0)


@given(st.integers(0, 4), st.integers(0, 1000), st.integers(1, 600), st.integers(0, 1_500_000))
def test_it_is_the_most_that_fits_beside_decode_rows(count: int, start: int, wanted: int, limit: int) -> None:
    rows, chunk = decodes(count), Stretch(count, start, wanted, wants_logits=True)
    assert rows_within(COST, rows, chunk, limit=limit) == brute(COST, rows, chunk, limit)


@given(costs, st.integers(0, 3), st.integers(1, 200), st.sampled_from([32, 64, 100, 512]), st.floats(0, 1.2))
def test_whatever_the_costs_the_number_fits(
    terms: PassCosts, count: int, wanted: int, micro_batch: int, part: float
) -> None:
    cost = replace(COST, passes={1: terms}, rules=replace(COST.rules, micro_batch=micro_batch))
    rows, chunk = decodes(count), Stretch(count + 1, 0, wanted, wants_logits=True)
    limit = int(part * cost.time([*rows, chunk]))
    found = rows_within(cost, rows, chunk, limit=limit)
    assert 0 <= found <= wanted
    if found:
        part_of = chunk._replace(num_rows=found, wants_logits=found == wanted)
        assert cost.time([*rows, part_of]) <= limit


@given(st.integers(1, 300), st.integers(0, 600_000), st.booleans())
def test_the_number_fits_beside_another_prompt(others: int, limit: int, unified: bool) -> None:  # noqa: FBT001
    cost = replace(COST, rules=replace(COST.rules, unified=unified))
    rows = [*decodes(2), Stretch(3, 0, others, wants_logits=False)]
    chunk = Stretch(2, 64, 400, wants_logits=False)
    found = rows_within(cost, rows, chunk, limit=limit)
    if found:
        assert cost.time([*rows[:2], chunk._replace(num_rows=found), rows[2]]) <= limit


def test_a_chunk_is_predicted_at_its_place() -> None:
    rows, chunk = decodes(3), Stretch(1, 0, 90, wants_logits=False)
    others = [rows[0], rows[2]]
    assert with_chunk(COST, others, chunk) == COST.predict([rows[0], chunk, rows[2]])
    assert with_chunk(COST, rows, Stretch(3, 5000, 4, wants_logits=False)).outside == (Outside.CONTEXT,)


def test_64_rows_are_taken_where_63_would_take_too_long() -> None:
    rows, chunk = decodes(3), Stretch(3, 500, 400, wants_logits=False)

    def time(number: int) -> int:
        return COST.time([*rows, chunk._replace(num_rows=number)])

    # one row goes with the decode rows, so it is 65 here
    assert time(65) < time(64)
    assert rows_within(COST, rows, chunk, limit=time(65)) >= 65


def test_exactly_a_tile_is_taken_where_only_that_fits() -> None:
    chunk = Stretch(0, 500, 400, wants_logits=False)
    alone = COST.time([chunk._replace(num_rows=64)])
    assert alone < COST.time([chunk._replace(num_rows=63)])
    assert rows_within(COST, [], chunk, limit=alone) == 64


def test_nothing_fits_where_the_decode_rows_alone_take_too_long() -> None:
    assert rows_within(COST, decodes(4), Stretch(4, 0, 100, wants_logits=False), limit=1000) == 0
    assert rows_within(COST, [], Stretch(0, 0, 0, wants_logits=False), limit=10**9) == 0


def test_a_target_is_met_whatever_a_row_costs() -> None:
    """As in the case of the 120 ms target: 20 ms with four decode rows, 0.4 ms or 0.8 ms for each prompt row."""
    for row_us, expected in ((400, 250), (800, 125)):
        slopes = dict.fromkeys(("rows_0", "rows_16", "rows_64", "rows_256"), row_us)
        terms = PassCosts.of({"pass": 20_000 - 4 * row_us, **slopes})
        pooled = PassRules(micro_batch=512, unified=True, stream_cells=16_384)
        cost = replace(COST, passes={1: terms}, host=HostCosts(), rules=pooled)
        assert cost.time(decodes(4)) == 20_000
        assert rows_within(cost, decodes(4), Stretch(4, 0, 9000, wants_logits=True), limit=120_000) == expected


@given(
    st.sets(st.integers(0, 6), max_size=5),
    st.integers(0, 1000),
    st.integers(1, 600),
    st.one_of(costs, st.just(STEEP)),
    st.sampled_from([32, 64, 512]),
    st.booleans(),
)
def test_times_of_a_chunk_are_those_of_the_step_and_never_less(
    ids: set[int],
    start: int,
    wanted: int,
    terms: PassCosts,
    micro_batch: int,
    unified: bool,  # noqa: FBT001
) -> None:
    cost = replace(
        COST, passes={1: terms}, rules=PassRules(micro_batch=micro_batch, unified=unified, stream_cells=4096)
    )
    own, others = 3, sorted(ids - {3})
    rows = [Stretch(each, 300 + each, 1, wants_logits=True) for each in others]
    chunk = Stretch(own, start, wanted, wants_logits=True)
    times = ChunkTimes(cost, rows, chunk, pool=2000)
    for number in {1, 2, min(wanted, 33), min(wanted, 64), min(wanted, 65), wanted}:
        if number <= wanted:
            part = chunk._replace(num_rows=number, wants_logits=number == wanted)
            whole = cost.time(sorted([*rows, part]), pool=2000)
            assert whole <= times.time(number) <= whole + 1


def test_a_search_along_a_straight_line_asks_few_times() -> None:
    class Counted(ChunkTimes):
        asked = 0

        def time(self, num_rows: int) -> int:
            self.asked += num_rows not in self._known
            return super().time(num_rows)

    flat = replace(COST, passes={1: PassCosts.of(dict.fromkeys(("rows_0", "rows_16", "rows_64", "rows_256"), 400))})
    times = Counted(flat, decodes(4), Stretch(4, 0, 500, wants_logits=True))
    limit = flat.time([*decodes(4), Stretch(4, 0, 250, wants_logits=False)])
    assert most_within(times.time, 500, flat.rules, limit) == 250
    assert times.asked <= 8


def test_a_few_rows_are_left_out_where_they_would_begin_another_tile() -> None:
    rows, chunk = decodes(3), Stretch(3, 500, 400, wants_logits=False)

    def time(number: int) -> int:
        return COST.time([*rows, chunk._replace(num_rows=number)])

    # one row goes with the decode rows: 65 are a tile and it, 70 are two tiles
    assert rows_within(COST, rows, chunk, limit=time(70)) == 70
    assert rows_worth(COST, rows, chunk, limit=time(70)) == 65
    assert rows_worth(COST, rows, chunk, limit=time(70), least=66) == 70
    assert rows_worth(COST, rows, chunk, limit=10**9) == 400


@given(
    st.one_of(costs, st.just(STEEP)), st.integers(0, 3), st.integers(0, 300), st.booleans(), st.floats(0, 1.1),
)  # fmt: skip
def test_rows_that_are_worth_it_fit_and_none_that_fit_cost_less_each(
    terms: PassCosts,
    count: int,
    wanted: int,
    unified: bool,  # noqa: FBT001
    part: float,
) -> None:
    cost = replace(COST, passes={1: terms}, rules=PassRules(micro_batch=96, unified=unified, stream_cells=4096))
    rows, chunk = decodes(count), Stretch(count, 64, wanted, wants_logits=True)
    limit = int(part * cost.time([*rows, chunk]))
    most = rows_within(cost, rows, chunk, limit=limit, pool=900)
    found = rows_worth(cost, rows, chunk, limit=limit, pool=900)
    assert (found == 0) == (most == 0)
    assert found <= most
    if found:
        times = ChunkTimes(cost, rows, chunk, pool=900)
        assert times.time(found) <= limit
        assert times.time(found) / found <= times.time(most) / most
