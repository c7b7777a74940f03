"""The parts of a step, of a real engine over a formula."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.core.ids import TokenId
from arriero.lab.operators.host_split import StepWatcher, WatchedEngine, host_point, parts_of, serve
from arriero.lab.operators.stopwatch import Stopwatch, Taken
from arriero.record.cpu_lab.host_split import HostPart

TIMES = st.integers(0, 10**8)


def test_a_stopwatch_counts_calls_and_begins_anew() -> None:
    ticks = count()
    stopwatch = Stopwatch(clock=lambda: next(ticks))
    timed = stopwatch.timed("part", lambda value: value + 1)
    assert timed(1) == 2
    assert timed(5) == 6
    assert stopwatch.take() == Taken(ns=5, spent={"part": 2}, began={"part": 3})
    assert stopwatch.take() == Taken(ns=1, spent={}, began={})


def test_a_call_that_raises_counts_too() -> None:
    ticks = count()
    stopwatch = Stopwatch(clock=lambda: next(ticks))

    def fail() -> None:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - the bare one from above
        stopwatch.timed("part", fail)()
    assert stopwatch.take().spent == {"part": 1}


@given(st.lists(TIMES, min_size=9, max_size=9))
def test_parts_sum_up_to_the_step(times: list[int]) -> None:
    plan, fill, call, fetch, sample, commit, deliver, rest, start = times
    decode = fill + call + fetch
    taken = Taken(
        ns=plan + decode + sample + commit + deliver + rest,
        spent={"plan": plan, "run": decode + sample, "decode": decode, "decode call": call, "commit": commit,
               "delivery": deliver},
        began={"decode": start, "decode call": start + fill},
    )  # fmt: skip
    found = parts_of(taken)
    expected = (plan, fill, call, fetch, sample, commit, deliver, rest)
    assert tuple(found[part] for part in HostPart) == expected
    assert sum(found.values()) == taken.ns


def test_an_engine_that_is_watched_answers_and_every_step_is_split() -> None:
    end = TokenId(1)
    options = SyntheticOptions(
        num_sequences=4, num_rows=256, micro_batch=256, num_cells=1024, unified=False, vocab_size=300,
        end_tokens=frozenset({end}), speaks=(TokenId(7), end), base_s=0.0, per_row_s=0.0,
    )  # fmt: skip
    stopwatch = Stopwatch()
    watcher = StepWatcher(stopwatch, 4)
    backend = SyntheticBackend(options)
    serve(WatchedEngine(backend, stopwatch, watcher), 4, 12)
    backend.close()
    point = host_point(4, watcher.steps)
    assert len(point.step_ns) >= 9
    for place, step in enumerate(point.step_ns):
        parts = {each.part: each.ns[place] for each in point.parts}
        assert sum(parts.values()) == step
        for part in (HostPart.PLAN, HostPart.SAMPLE, HostPart.COMMIT, HostPart.DELIVER):
            assert parts[part] > 0
    assert all(ns >= 1000 * us for ns, us in zip(point.step_ns, point.iter_wall_us, strict=True))
