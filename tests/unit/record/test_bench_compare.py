import json
from pathlib import Path
from typing import Any

import pytest

from arriero.core.errors import DataError
from arriero.metrics.paired_verdict import Verdict
from arriero.metrics.validity import Flag
from arriero.record.bench_compare import (
    CompareResult,
    decode_comparison,
    encode_comparison,
    read_comparison,
    write_comparison,
)
from arriero.record.bench_compare_check import pairs_of
from arriero.record.bench_result import encode_result
from tests.unit.record.bench_files import (
    QUESTIONS,
    cell,
    comparison,
    late_point,
    replace_struct,
    result,
    rounds,
    withheld,
)


def refused(comparison_: CompareResult) -> str:
    with pytest.raises(DataError) as caught:
        encode_comparison(comparison_)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_comparison_comes_back_equal_and_in_the_same_bytes(tmp_path: Path) -> None:
    whole = comparison()
    text = encode_comparison(whole)
    assert text.startswith(b'{\n"validity":{"flag":"valid"')
    assert decode_comparison(text, file="c.json") == whole
    assert encode_comparison(decode_comparison(text, file="c.json")) == text
    write_comparison(tmp_path / "c.json", whole)
    assert read_comparison(tmp_path / "c.json") == whole


def test_a_line_for_each_round_and_each_trial() -> None:
    lines = encode_comparison(comparison()).splitlines()
    assert sum(line.startswith(b'{"index"') for line in lines) == len(rounds())
    assert sum(line.startswith(b'{"stage"') for line in lines) == 1


def test_the_verdict_is_in_it() -> None:
    verdicts = comparison().cells[0].verdicts
    assert verdicts["output_tokens_per_s"].verdict is Verdict.BETTER
    assert verdicts["ttft_p50_ns"].verdict is Verdict.BETTER


def test_files_of_the_two_kinds_are_told_apart() -> None:
    with pytest.raises(DataError, match="'arriero-bench-v1' is not arriero-bench-compare-v1"):
        decode_comparison(encode_result(result()), file="r.json")


def test_f1_no_verdict_stands_on_an_invalid_round() -> None:
    made = rounds()
    made[7] = replace_struct(made[7], point=late_point())
    bad = cell(made)
    assert comparison(bad).validity is not None
    assert comparison(bad).validity.flag is Flag.INVALID  # type: ignore[union-attr]
    said = refused(comparison(bad))
    assert "verdicts.output_tokens_per_s: round 7 is invalid (requests left late" in said
    assert said.endswith("so no verdict stands on it; withhold it")
    for question in QUESTIONS:
        bad = replace_struct(bad, withheld={**bad.withheld, question.metric: "round 7 is invalid"})
    withheld_all = replace_struct(bad, verdicts={})
    assert decode_comparison(encode_comparison(comparison(withheld_all)), file="c") == comparison(withheld_all)


def test_an_invalid_warm_up_disturbs_nobody() -> None:
    assert rounds()[0].point.validity.flag is Flag.INVALID
    assert encode_comparison(comparison())


def test_f7_a_sequential_order_is_refused() -> None:
    assert "sequential order" in refused(comparison(replace_struct(cell(), order="AAAAAABBBBBB")))
    assert "use A and B alone" in refused(comparison(replace_struct(cell(), order="ABC")))


def test_the_rounds_ran_as_planned() -> None:
    said = refused(comparison(replace_struct(cell(), order="BAABBAABBAAB")))
    assert said == "cells[0].order: planned BAABBAABBAAB, but the rounds ran ABBAABBAABBA; run again"


def test_a_verdict_has_to_follow_from_its_rounds() -> None:
    made = cell()
    other = list(made.rounds)
    other[8] = replace_struct(other[8], values={**other[8].values, "output_tokens_per_s": 99.0})
    said = refused(comparison(replace_struct(made, rounds=tuple(other))))
    assert said.startswith("cells[0].verdicts.output_tokens_per_s.")
    assert said.endswith("does not follow from the values of the rounds; run again")


def test_a_verdict_counts_the_pairs_that_ran() -> None:
    made = cell()
    fewer = made.rounds[:-2]
    said = refused(comparison(replace_struct(made, rounds=fewer)))
    assert said == "cells[0].verdicts.output_tokens_per_s.num_pairs: 6, but the rounds make 5; run again"


def test_every_question_is_answered_or_withheld_and_none_is_made_up() -> None:
    made = cell()
    one = {"output_tokens_per_s": made.verdicts["output_tokens_per_s"]}
    assert "ttft_p50_ns has neither a verdict nor a reason" in refused(comparison(replace_struct(made, verdicts=one)))
    more = {**made.verdicts, "invented": made.verdicts["ttft_p50_ns"]}
    assert "invented: nobody asked" in refused(comparison(replace_struct(made, verdicts=more)))
    assert encode_comparison(comparison(withheld(made, "ttft_p50_ns", "3 requests failed")))
    both = replace_struct(made, withheld={"ttft_p50_ns": "3 requests failed"})
    assert "a withheld verdict is not told" in refused(comparison(both))


def test_a_round_without_a_figure_gives_no_verdict_and_the_file_says_so() -> None:
    made = rounds()
    made[-1] = replace_struct(made[-1], values={**made[-1].values, "ttft_p50_ns": None})
    bare = cell(made)
    assert bare.verdicts["ttft_p50_ns"].verdict is Verdict.NO_VERDICT
    assert decode_comparison(encode_comparison(comparison(bare)), file="c") == comparison(bare)


def test_a_question_changed_afterwards_is_found() -> None:
    turned = (replace_struct(QUESTIONS[0], margin=0.5), QUESTIONS[1])
    assert "another question" in refused(comparison(questions=turned))


def test_a_failed_comparison_keeps_what_it_has() -> None:
    made = cell()
    part = replace_struct(made, rounds=made.rounds[:6], verdicts={}, floors={})
    failed = comparison(part, status="failed", error="the server of side b ended with status 1")
    assert decode_comparison(encode_comparison(failed), file="c") == failed
    nothing = comparison(replace_struct(part, rounds=()), status="failed", error="the server never answered")
    assert nothing.validity is None
    assert encode_comparison(nothing)
    assert "does not fit the status failed" in refused(replace_struct(failed, error=None))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"questions": ()}, "questions: at least one"),
        ({"questions": (QUESTIONS[0], QUESTIONS[0])}, "questions: at least one, and each metric once"),
        ({"cells": ()}, "cells: a comparison has at least one"),
        ({"validity": None}, "validity: is not that of the least trustworthy round"),
    ],
)
def test_a_comparison_that_contradicts_itself_is_refused(changes: dict[str, Any], said: str) -> None:
    assert refused(replace_struct(comparison(), **changes)).startswith(said)


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"index": 9}, ".index: 9, but rounds"), ({"pair": None}, ".pair: None in phase aa")],
)
def test_rounds_are_numbered(changes: dict[str, Any], said: str) -> None:
    made = list(cell().rounds)
    made[1] = replace_struct(made[1], **changes)
    assert said in refused(comparison(replace_struct(cell(), rounds=tuple(made))))


def test_unknown_fields_are_refused_inside_of_verdicts() -> None:
    values = json.loads(encode_comparison(comparison()))
    values["cells"][0]["verdicts"]["ttft_p50_ns"]["p"] = 0.04
    with pytest.raises(DataError, match=r"cells\[0\].verdicts.ttft_p50_ns.p: unknown field"):
        decode_comparison(json.dumps(values).encode(), file="c.json")


def test_pairs_come_in_the_order_of_running_with_their_sides() -> None:
    pairs = pairs_of(cell(), "output_tokens_per_s")
    assert len(pairs) == 6
    assert all(a < 101 and b >= 120 for a, b in pairs)
    made = list(cell().rounds)
    made[-1] = replace_struct(made[-1], values={"output_tokens_per_s": None})
    (*_, (a, b)) = pairs_of(replace_struct(cell(), rounds=tuple(made)), "output_tokens_per_s")
    assert a != a or b != b  # noqa: PLR0124 - one is not a number
    assert len(pairs_of(cell(), "output_tokens_per_s", "aa")) == 2
