"""A comparison is printed with everything that qualifies it."""

import io
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from arriero.bench.compare_plan import ComparePlan
from arriero.bench.compare_result import Circumstances, assemble
from arriero.bench.rounds import Side
from arriero.bench.search import Knob, SearchPlan, Stage
from arriero.cli.bench.compare_view import Lines, markdown, search_table
from arriero.record.bench_compare import CompareResult, decode_comparison, encode_comparison
from arriero.record.bench_compare_parts import Search, SearchTrial
from arriero.record.machine import machine_facts
from tests.unit.bench.compare_rig import Formula, Heard, little_plan, run_plan


async def printed(plan: ComparePlan, formula: Formula, lines: Lines | None = None) -> tuple[CompareResult, str]:
    heard = Heard()
    compared = await run_plan(plan, formula, heard)
    if lines is not None:
        for each in heard.rounds:
            lines.round_ended(each)
        for cell in heard.ended:
            lines.cell_ended(cell)
    circumstances = Circumstances(["arriero", "bench"], datetime.now(UTC), 1.0, machine_facts(), None)
    result = assemble(plan, compared, circumstances)
    assert decode_comparison(encode_comparison(result), file="x") == result
    return result, markdown(result)


async def test_a_resolved_comparison(tmp_path: Path) -> None:
    stream = io.StringIO()
    lines = Lines("output_throughput", stream)
    _, text = await printed(little_plan(tmp_path), Formula({"a": 10, "b": 8}, noise=0.01), lines)
    row = next(line for line in text.splitlines() if "**output_throughput**" in line)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:3] == ["2", "5x4", "**output_throughput** (tokens/s)"]
    assert 1.2 < float(cells[5]) < 1.3
    assert cells[-1] == "better"
    assert text.startswith("- Validity: valid\n- Status: done\n")
    assert "order ABBAABBAABBAABBAABBA, 8 slots" in text
    assert "0 of 4 equal prompts got different answers on a over the rounds" in text
    assert "aa 1 A: " in stream.getvalue()
    assert "  better: median ratio" in stream.getvalue()


async def test_what_withholds_a_verdict_is_printed(tmp_path: Path) -> None:
    plan = little_plan(tmp_path)
    plan = replace(plan, rules=replace(plan.rules, stable=frozenset({Side.B})))
    stream = io.StringIO()
    lines = Lines("output_throughput", stream)
    result, text = await printed(plan, Formula({"a": 10, "b": 8}, unstable=frozenset({"b"})), lines)
    assert "| withheld |" in text
    assert "2 clients, 5x4: withheld for output_throughput, ttft_p50: b: 4 of 4 equal prompts" in text
    assert "got different answers on b over the rounds, which must not be" in text
    assert f"for instance {result.cells[0].texts['b'].examples[0]}" in text
    assert "  withheld: b: 4 of 4" in stream.getvalue()


async def test_a_comparison_that_ended_early_says_so_first(tmp_path: Path) -> None:
    _, text = await printed(little_plan(tmp_path), Formula({"a": 10, "b": 8}, stops_at=1))
    assert text.startswith("- Validity: no round was measured\n- Status: interrupted: stopped by the user\n")
    assert "| none |" in text


async def test_one_that_ended_in_its_search_is_a_file_too(tmp_path: Path) -> None:
    plan = replace(
        little_plan(tmp_path, what=("answers", "fails")),
        searches={Side.B: SearchPlan(stages=(Stage(knobs=(Knob(name="x", choices=((), ("y",))),)),))},
    )
    result, text = await printed(plan, Formula({"a": 10, "b": 8}))
    assert result.cells[0].rounds == ()
    assert "no candidate could be measured" in text


def test_every_trial_of_a_search_is_printed() -> None:
    kept = SearchTrial(stage=0, rung=1, flags=("-fa", "on"), values=(1.0, None), score=1.25, kept=True, failed=None)
    out = SearchTrial(stage=0, rung=0, flags=(), values=(), score=None, kept=False, failed="did not start")
    text = search_table(
        Search(side="a", setting={"clients": 4}, plan={}, metric="itl_p50", trials=(out, kept), best=("-fa", "on"))
    )
    assert text.splitlines()[0] == "Search for the flags of A (clients 4): best `-fa on`"
    assert "| 1.1 | (none) |  | - | did not start |" in text
    assert "| 1.2 | `-fa on` | 1.0 - | 1.250 | kept |" in text


def test_progress_of_a_search_is_told(tmp_path: Path) -> None:
    stream = io.StringIO()
    lines = Lines("itl_p50", stream)
    plan = little_plan(tmp_path)
    lines.cell_begins(plan.cells[0], 1, 2)
    lines.search_begins(Side.B, plan.cells[0])
    lines.trial_ended(
        Side.B, SearchTrial(stage=1, rung=0, flags=("x",), values=(1.0,), score=0.5, kept=False, failed=None)
    )
    assert stream.getvalue().splitlines() == [
        "cell 1 of 2: clients 2, workload 5x4, slots 8, slot_context 256",
        "searching the flags of B with 2 clients, 5x4",
        "  B 2.1 `x`: 0.500, dropped",
    ]
