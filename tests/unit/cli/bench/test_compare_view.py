"""A comparison is printed with everything that qualifies it."""

import hashlib
import io
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from arriero.bench.compare import Compared
from arriero.bench.compare_plan import ComparePlan
from arriero.bench.compare_result import Circumstances, assemble, model_file
from arriero.bench.rounds import Side
from arriero.bench.search import Knob, SearchPlan, Stage
from arriero.bench.servers_commands import with_flags
from arriero.cli.bench.compare_view import Lines, markdown, search_table
from arriero.record.bench_compare import CompareResult, decode_comparison, encode_comparison
from arriero.record.bench_compare_parts import Search, SearchTrial
from arriero.record.machine import machine_facts
from arriero.report.compare_sides import flag_lines
from tests.unit.bench.compare_rig import Formula, Heard, little_plan, run_plan


async def printed(plan: ComparePlan, formula: Formula, lines: Lines | None = None) -> tuple[CompareResult, str]:
    heard = Heard()
    compared = await run_plan(plan, formula, heard)
    if lines is not None:
        for each in heard.rounds:
            lines.round_ended(each)
        for cell in heard.ended:
            lines.cell_ended(cell)
    return filed(plan, compared)


def filed(plan: ComparePlan, compared: Compared, **more: Any) -> tuple[CompareResult, str]:  # noqa: ANN401 - fields
    """The result as it comes back from its file, and what is printed of it."""
    circumstances = Circumstances(["arriero", "bench"], datetime.now(UTC), 1.0, machine_facts(), None, **more)
    result = assemble(plan, compared, circumstances)
    assert decode_comparison(encode_comparison(result), file="x") == result
    return result, markdown(result)


def line_of(text: str, begins: str) -> str:
    """The one line that begins so."""
    (found,) = [line for line in text.splitlines() if line.startswith(begins)]
    return found


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


async def test_the_interval_is_the_one_that_the_verdict_rests_on(tmp_path: Path) -> None:
    result, text = await printed(little_plan(tmp_path), Formula({"a": 10, "b": 8}, noise=0.05))
    verdict = result.cells[0].verdicts["output_throughput"]
    assert verdict.low is not None
    assert verdict.high is not None
    assert verdict.exact_low is not None
    assert verdict.exact_high is not None
    assert (verdict.exact_low, verdict.exact_high) != (verdict.low, verdict.high), "else nothing is tested"
    low, high = min(verdict.low, verdict.exact_low), max(verdict.high, verdict.exact_high)
    assert f"| {low:.3f} ... {high:.3f} |" in line_of(text, "| 2 | 5x4 | **output_throughput**")
    assert f"interval {low:.4f} to {high:.4f}" in verdict.reasons[0]


async def test_what_served_is_named_with_its_version_threads_model_and_command(tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    model.write_bytes(b"GGUF" * 500_000)
    plan = little_plan(tmp_path)
    command = plan.sides[Side.A].command
    assert command is not None
    started = with_flags(command, ("{model}", "{threads}", "{slots}"))
    sides = {**plan.sides, Side.A: replace(plan.sides[Side.A], command=started)}
    plan = replace(plan, sides=sides, hold=replace(plan.hold, model=str(model), threads=3), num_aa_rounds=0)
    compared = await run_plan(plan, Formula({"a": 10, "b": 8}), Heard())
    facts = model_file(model)
    assert facts is not None
    result, text = filed(plan, compared, model=facts, versions={Side.A: "version: 1 (abc)"})
    assert line_of(text, "- A is") == "- A is `little a`, version: 1 (abc), 3 threads"
    assert line_of(text, "- B is") == "- B is `little b`, version unknown", "its command names no threads"
    sha256 = hashlib.sha256(model.read_bytes()).hexdigest()
    assert line_of(text, "- Model:") == f"- Model: m.gguf, 2.0 MB, sha256 {sha256}"
    assert line_of(text, "- A at").startswith("- A at 2 clients, 5x4, 8 slots, slot_context 256: `")
    assert " m.gguf 3 8`\n" in text, "as it was executed, without absolute paths"
    assert (result.a.model, result.b.model) == ("m.gguf", None)
    known = {name: result.a.facts[name] for name in ("version", "threads", "model_file", "model_bytes", "model_sha256")}
    assert known == {
        "version": "version: 1 (abc)",
        "threads": 3,
        "model_file": "m.gguf",
        "model_bytes": 2_000_000,
        "model_sha256": sha256,
    }
    assert not {"threads", "model_sha256", "version"} & set(result.b.facts)


def test_a_model_that_is_no_file_here_has_no_facts(tmp_path: Path) -> None:
    assert model_file(tmp_path / "m.gguf") is None
    assert model_file(tmp_path) is None


@pytest.mark.parametrize(("flags", "says"), [((), "none given"), (("-fa", "on", "x y"), "given: `-fa on 'x y'`")])
async def test_flags_that_were_not_searched_are_told_below_the_verdicts(
    tmp_path: Path, flags: tuple[str, ...], says: str
) -> None:
    plan = little_plan(tmp_path)
    sides = {**plan.sides, Side.A: replace(plan.sides[Side.A], peer="llama-server", flags=flags)}
    result, text = await printed(replace(plan, sides=sides, num_aa_rounds=0), Formula({"a": 10, "b": 8}))
    said = f"- A: the flags of llama-server were not searched (`--a-search default` does it); {says}"
    assert said in text.splitlines()
    assert text.index("**output_throughput**") < text.index(said) < text.index("order ABBA")
    assert "flags of B" not in text
    assert "- B: the flags" not in text, "a command of one's own has no best flags that are known"
    assert list(flag_lines(result)) == [said.removeprefix("- ")]


async def test_flags_that_were_searched_are_not_said_to_be_unsearched(tmp_path: Path) -> None:
    plan = little_plan(tmp_path)
    searched = SearchPlan(stages=(Stage(knobs=(Knob(name="x", choices=((), ("y",))),)),), num_rounds=1)
    for flags, says in (((), []), (("-z",), ["B: arriero got flags beside those that were searched; given: `-z`"])):
        sides = {**plan.sides, Side.B: replace(plan.sides[Side.B], peer="arriero", flags=flags)}
        changed = replace(plan, sides=sides, searches={Side.B: searched}, num_aa_rounds=0, num_rounds=6)
        result, text = await printed(changed, Formula({"a": 10, "b": 8}))
        assert list(flag_lines(result)) == says
        assert "Search for the flags of B" in text


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
