"""Which rows count."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.lab.analysis.groups import groups_of
from arriero.lab.analysis.rows import Row, sift
from arriero.record.bench_parts import Evidence
from arriero.record.cpu_lab.run_key import FIELDS, differing, without
from tests.unit.lab.analysis.matrix_rows import key, row

OTHERWISE: dict[str, Any] = {
    "evidence": Evidence.SIMULATED, "executor": "llama-bench", "machine": "n", "library": "k", "model": "other",
    "model_sha256": "0" * 64, "weights": "Q8_0", "threads": 2, "batch_threads": 2, "prompt_tokens": 64,
    "generated_tokens": 16, "context_size": 1024, "batch_size": 512, "micro_batch": 256, "kv_key": "q8_0",
    "kv_value": "q8_0", "flash_attention": "on", "mmap": False,
}  # fmt: skip


def test_every_field_of_a_setting_is_tried_below() -> None:
    assert set(OTHERWISE) == set(FIELDS)


@pytest.mark.parametrize("name", FIELDS)
def test_whatever_distinguishes_a_setting_keeps_rows_apart(name: str) -> None:
    # the published analyser pooled rows of two models, as its key lacked the model
    fields: dict[str, Any] = {"model": "same", "model_sha256": "1" * 64, "weights": "Q4_0", "batch_threads": 1}
    one, other = row(100.0, **fields), row(200.0, **(fields | {name: OTHERWISE[name]}))
    assert differing([one.key, other.key]) == (name,)
    sifted = sift([one, other])
    assert not sifted.excluded
    assert [group.prefill.mean for group in groups_of(sifted.rows) if group.prefill] == [100.0, 200.0]


def test_fields_that_may_differ_are_all_that_may() -> None:
    assert without(key(threads=1), {"threads", "batch_threads"}) == without(
        key(threads=2), {"threads", "batch_threads"}
    )
    assert without(key(threads=1), {"threads"}) != without(key(threads=2), {"threads"})


def test_duplicates_are_excluded_counted_and_told() -> None:
    sifted = sift([row(100.0), row(300.0), row(200.0, repetition=2)])
    assert [each.prefill for each in sifted.rows] == [100.0, 200.0]
    assert sifted.excluded == {"duplicate": 1}
    assert sifted.warnings == ("q4_0:t1:1 is left out: its run holds this repetition of this setting already",)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (row(None), "no prompt rate"),
        (row(decode=None), "no generation rate"),
        (row(math.nan), "a prompt rate of nan"),
        (row(decode=0.0), "a generation rate of 0.0"),
        (row(-1.0), "a prompt rate of -1.0"),
        (row(elapsed_s=-1.0), "a duration of -1.0"),
        (row(peak_rss_kib=-1), "a peak memory of -1"),
        (row(context_size=100), "a context of 100 does not hold 128 + 32 tokens"),
        (row(repetition=0), "repetition 0 is below 1"),
        (row()._replace(problem="2 results instead of one"), "2 results instead of one"),
    ],
)
def test_malformed_rows_are_excluded_counted_and_told(bad: Row, why: str) -> None:
    sifted = sift([bad, row(repetition=5)])
    assert [each.repetition for each in sifted.rows] == [5]
    assert sifted.excluded == {"malformed": 1}
    assert why in sifted.warnings[0]


def test_a_phase_that_was_not_asked_for_needs_no_rate() -> None:
    assert len(sift([row(None, prompt_tokens=0)]).rows) == 1


def test_repetitions_of_several_runs_are_pooled_and_it_is_said() -> None:
    sifted = sift([row(run_id="a"), row(run_id="b")])
    assert len(sifted.rows) == 2
    assert "measured in several runs" in sifted.warnings[0]


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), st.floats(allow_nan=True)), max_size=30))
def test_every_row_is_either_kept_or_counted(drawn: list[tuple[int, int, float]]) -> None:
    rows = [row(rate, repetition=repetition, threads=threads) for threads, repetition, rate in drawn]
    sifted = sift(rows)
    assert len(sifted.rows) + sum(sifted.excluded.values()) == len(rows)
    assert len({(each.key, each.repetition) for each in sifted.rows}) == len(sifted.rows)
