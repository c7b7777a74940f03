"""Equal decode steps taken in one give what single steps give, in arriero's own mode and whatever is composed."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from arriero.core.events import Admitted
from arriero.core.ids import RequestId
from arriero.core.plan import Counted
from arriero.core.request import BlankTokens, Request
from arriero.costmodel.models import BatchMicroseconds
from arriero.kv.cells import CellLayout, CellManager
from arriero.kv.places import PlaceManager
from arriero.metrics.served import Outcome
from arriero.record.sim_rows import SimRequestRow, SimTotals, StepRow
from arriero.record.simulation_config import SimulationConfig
from arriero.scheduler.fair_share import FairShare
from arriero.scheduler.planners import DecodeFirst
from arriero.scheduler.policies import FirstComeFirstServed
from arriero.scheduler.rules import SchedulerLimits
from arriero.scheduler.scheduler import Scheduler
from arriero.sim.runs import run_simulation
from arriero.sim.simulator import ArrivalInbox, NoAnswers, Simulator, always, never
from arriero.workload.notes import Notes, as_metadata
from arriero.workload.records import WorkloadRecord
from tests.equivalence.lab_worlds import prompts, record

KINDS: st.SearchStrategy[dict[str, Any]] = st.sampled_from([
    {"kind": "slots"},
    {"kind": "cells", "num_cells": 60},
    {"kind": "cells", "num_cells": 40, "sequence_limit": 30, "headroom_per_sequence": 0},
    {"kind": "blocks", "total_blocks": 12, "block_size": 4, "prefix_cache": True},
    {"kind": "blocks", "total_blocks": 30, "block_size": 2, "prefix_cache": True, "share_within_step": True},
    {"kind": "blocks", "total_blocks": 24, "block_size": 2},
])


def policies_of(planner: str, kv: dict[str, Any]) -> list[str]:
    """Those that go with them; the usual one more often."""
    words = ["fcfs", "fcfs", "priority", "shortest-prefill", "deadline"]
    if planner == "decode-first":
        words += ["fair-share", "longest-match"] if kv.get("prefix_cache") else ["fair-share"]
    return words


@st.composite
def noted(draw: st.DrawFn, plain: WorkloadRecord) -> WorkloadRecord:
    """With what policies look at."""
    notes = Notes(priority=draw(st.integers(-1, 1)), tenant=draw(st.sampled_from((None, "a", "b"))))
    due = draw(st.none() | st.integers(0, 200))
    return msgspec.structs.replace(plain, metadata=as_metadata(notes), deadline_us=due)


@st.composite
def own_worlds(draw: st.DrawFn) -> tuple[SimulationConfig, list[WorkloadRecord]]:
    sequences = draw(st.integers(1, 5))
    planner = draw(st.sampled_from(["decode-first", "arrival-order"]))
    kv = draw(KINDS)
    values = {
        "schema_version": "arriero-simulation-v1",
        "name": "test",
        "planner": planner,
        "policy": draw(st.sampled_from(policies_of(planner, kv))),
        "start_rule": draw(st.sampled_from(["continuous", "continuous", "all-slots-free", "one-at-a-time"])),
        "limits": {
            "sequences": sequences,
            "rows": draw(st.integers(sequences, 24)),
            "prefill_rows_per_step": draw(st.none() | st.integers(1, 9)),
            "prefill_rows_per_seq": draw(st.none() | st.integers(1, 9)),
            "chunked_prefill": draw(st.booleans()),
        },
        "kv": kv,
        "cost": {"base_us": draw(st.sampled_from([0, 3.3, 10])), "decode_row_us": draw(st.sampled_from([0, 1.5]))},
        "workload": {"path": "w.jsonl"},
        "trace": draw(st.sampled_from(["counts", "full"])),
    }
    arrivals = st.integers(0, 5) | st.integers(0, 300)
    records = [
        draw(noted(record(str(each), draw(arrivals), draw(prompts(4)), draw(st.integers(0, 20)))))
        for each in range(draw(st.integers(0, 10)))
    ]
    return msgspec.convert(values, SimulationConfig), records


@given(own_worlds())
@settings(max_examples=max(300, settings().max_examples))
def test_a_run_without_step_rows_is_the_same_run(world: tuple[SimulationConfig, list[WorkloadRecord]]) -> None:
    config, records = world
    slow = list(run_simulation(config, records, check=True, jumps=False))
    assert slow == list(run_simulation(config, records, check=True))
    fast = list(run_simulation(msgspec.structs.replace(config, trace="off"), records, check=True))
    assert fast == [row for row in slow if not isinstance(row, StepRow)]
    *requests, totals = fast
    assert isinstance(totals, SimTotals)
    # Everybody who was not refused on arrival ends, whatever the memory.
    for row in requests:
        assert isinstance(row, SimRequestRow)
        assert row.outcome is not Outcome.UNFINISHED
        assert row.generated_tokens == (row.max_new_tokens if row.outcome is Outcome.FINISHED else 0)


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9), st.integers(1, 30)), max_size=8),
    st.sampled_from([0, 1, 7]),
    st.integers(1, 4),
)
def test_jumps_cover_the_same_steps(asks: list[tuple[int, int, int]], base: int, num_sequences: int) -> None:
    def run(*, jumps: bool) -> list[tuple[object, ...]]:
        scheduler = Scheduler(
            kv=PlaceManager(num_sequences),
            planner=DecodeFirst(),
            policy=FirstComeFirstServed(),
            limits=SchedulerLimits(num_rows=16),
        )
        requests = [
            Request(request_id=RequestId(each), prompt=BlankTokens(prompt), max_tokens=output, arrival_at=arrival)
            for each, (arrival, prompt, output) in enumerate(sorted(asks))
        ]
        cost = BatchMicroseconds(base=base, prefill_row=1, decode_row=0, sequence=1)
        simulator = Simulator(
            scheduler=scheduler, cost=cost, answers=NoAnswers(), check=True, jumps=always if jumps else never
        )
        seen: list[tuple[object, ...]] = []
        for step in simulator.run_from(ArrivalInbox(requests)):
            times = step.outcome.times if isinstance(step.outcome, Counted) else 0
            assert len(step.ends) == times
            starts = [(row.request.request_id, row.start) for row in step.plan.rows]
            seen += [
                (end, [(who, start + ahead) for who, start in starts], step.plan.shape.num_running)
                for ahead, end in enumerate(step.ends)
            ]
        return seen

    assert run(jumps=True) == run(jumps=False)


def test_a_long_answer_alone_is_one_pass() -> None:
    scheduler = Scheduler(
        kv=PlaceManager(1), planner=DecodeFirst(), policy=FirstComeFirstServed(), limits=SchedulerLimits(num_rows=8)
    )
    request = Request(request_id=RequestId(1), prompt=BlankTokens(3), max_tokens=1000, arrival_at=0)
    cost = BatchMicroseconds(base=5, prefill_row=0, decode_row=0, sequence=0)
    simulator = Simulator(scheduler=scheduler, cost=cost, answers=NoAnswers(), jumps=always)
    steps = list(simulator.run_from(ArrivalInbox([request])))
    assert [len(step.ends) for step in steps] == [1, 999, 0]
    assert steps[-1].ended_at == 5000


def test_a_jump_ends_where_a_policy_would_offer_another_one_who_fits() -> None:
    def starts(*, jumps: bool) -> list[tuple[int, float]]:
        layout = CellLayout(num_sequences=3, num_cells=80, sequence_limit=80, unified=True)
        scheduler = Scheduler(
            kv=CellManager(layout),
            planner=DecodeFirst(),
            policy=FairShare(),
            limits=SchedulerLimits(num_rows=80, headroom_per_sequence=0),
        )
        # the second one of b does not fit, and keeps that of a waiting until b has got more than a
        asks = [("a", 40, 1, 0), ("b", 12, 60, 0), ("b", 70, 2, 1), ("a", 4, 2, 1)]
        requests = [
            Request(
                request_id=RequestId(number),
                prompt=BlankTokens(prompt),
                max_tokens=output,
                arrival_at=at,
                tenant=tenant,
            )
            for number, (tenant, prompt, output, at) in enumerate(asks)
        ]
        cost = BatchMicroseconds(base=10, prefill_row=0, decode_row=0, sequence=0)
        rule = always if jumps else never
        simulator = Simulator(scheduler=scheduler, cost=cost, answers=NoAnswers(), check=True, jumps=rule)
        events = [event for step in simulator.run_from(ArrivalInbox(requests)) for event in step.events]
        return [(event.request.request_id, event.at) for event in events if isinstance(event, Admitted)]

    alone = starts(jumps=False)
    assert [number for number, _ in alone] == [0, 1, 3, 2]
    assert 10 < alone[2][1] < 600, "the order has changed while one was decoding"
    assert starts(jumps=True) == alone


def test_equal_steps_in_which_the_order_of_the_waiting_moves_are_told_one_by_one() -> None:
    values = {
        "schema_version": "arriero-simulation-v1",
        "name": "test",
        "policy": "fair-share",
        "limits": {"sequences": 1, "rows": 1, "chunked_prefill": False},
        "kv": {"kind": "slots"},
        "cost": {"base_us": 3},
        "workload": {"path": "w.jsonl"},
        "trace": "full",
    }
    config = msgspec.convert(values, SimulationConfig)
    tenant = as_metadata(Notes(priority=0, tenant="a"))
    records = [
        record("0", 0, 1, 3),
        record("1", 0, 1, 1),
        msgspec.structs.replace(record("2", 1, 1, 1), metadata=tenant),
    ]
    slow = list(run_simulation(config, records, check=True, jumps=False))
    assert slow == list(run_simulation(config, records, check=True))
    orders = [[each.request_id for each in row.deferred_ids or ()] for row in slow if isinstance(row, StepRow)]
    assert [2, 3] in orders
    assert [3, 2] in orders
