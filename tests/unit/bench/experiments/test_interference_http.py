"""Scenarios over HTTP are told apart and read from the rows of the server's steps."""

from arriero.bench.experiments.interference_http import runs_of, seen_steps
from tests.unit.bench.experiments.rows import step

# an anchor of 3 prompt tokens and 8 output tokens, a probe of 6 in two chunks
ANCHOR_BEGINS = step(rows=3, prefill=3, active=1, emitted=1)
BESIDE = step(rows=4, prefill=3, active=2)
PROBE_SPEAKS = step(rows=4, prefill=3, active=2, emitted=2)
BOTH = step(rows=2, active=2)
ENDS = (3, 3 + 6)


def test_each_scenario_ends_with_the_last_of_its_requests() -> None:
    last = step(completed=1)
    rows = [ANCHOR_BEGINS, BESIDE, last, last, ANCHOR_BEGINS, last, last, BOTH]
    assert list(runs_of(rows, 2)) == [rows[:4], rows[4:7]]


def test_everybody_who_can_speak_does() -> None:
    steps = list(seen_steps([ANCHOR_BEGINS, BESIDE, PROBE_SPEAKS, BOTH], ENDS))
    assert all(each.anchor_speaks for each in steps)
    assert [(each.prefill_rows, each.decode_rows) for each in steps] == [(3, 0), (3, 1), (3, 1), (0, 2)]


def test_silent_anchor_is_not_hidden_by_the_first_token_of_the_probe() -> None:
    silent = step(rows=4, prefill=3, active=2, emitted=1)
    *_, last = seen_steps([ANCHOR_BEGINS, BESIDE, silent], ENDS)
    assert not last.anchor_speaks
