"""The command behind `arriero gate`: lines, file, status, knobs, and what it says about misuse."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from arriero.core.config import BackendKind, PlacementKind, ServeConfig
from arriero.core.errors import ConfigError
from arriero.core.gate_args import Compositions, ExactnessKnobs, GateArgs, GateKnobs, GateVerb, StormKnobs
from arriero.testing.gates import GateReport, main
from arriero.testing.gates.command import size_of, tell
from arriero.testing.gates.figures import distinct, quantile, spread

CONFIG = ServeConfig(backend=BackendKind.SYNTHETIC, ctx_size=16 * 512, sequences=16, batch=512)


def gate_args(**changes: Any) -> GateArgs:  # noqa: ANN401 - fields of every type
    return replace(GateArgs(config=CONFIG), **changes)


def test_each_gate_has_a_line_in_each_placement(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(gate_args(names=("G7", "G13"))) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["PASS", "G7", "dedicated"],
        ["PASS", "G7", "shared"],
        ["PASS", "G13", "dedicated"],
        ["PASS", "G13", "shared"],
    ]
    assert "duplicates=1" in lines[0]


def test_file_holds_every_report(tmp_path: Path) -> None:
    file = tmp_path / "gates.json"
    assert main(gate_args(names=("G6",), json_file=str(file), placements=(PlacementKind.SHARED,))) == 0
    content = json.loads(file.read_text(encoding="utf-8"))
    assert content["schema"] == 1
    (report,) = content["reports"]
    assert (report["name"], report["placement"], report["passed"]) == ("G6", "shared", True)
    assert report["counts"]["stale_epoch"] == 1
    assert report["reason"] is None


def test_status_is_1_if_any_gate_fails(capsys: pytest.CaptureFixture[str]) -> None:
    # a batch in which not every sequence has its row
    assert main(gate_args(names=("G1", "G49"), config=replace(CONFIG, prefill_rows_per_seq=None, batch=2))) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("FAIL G49") and "--batch" in line for line in lines)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"names": ("G99",)}, "G99: no such gate; there are G1, G2"),
        ({"config": replace(CONFIG, sequences=8)}, "--sequences 8 is too few for gates; use 12 or more"),
        ({"verb": GateVerb.RUN, "knobs": GateKnobs(active=17)}, "--active 17 is more than --sequences 16"),
        ({"verb": GateVerb.RUN, "knobs": GateKnobs(prompts_file="/nowhere/prompts")}, "--prompts-file /nowhere"),
        ({"names": ("G6",), "json_file": "/nowhere/gates.json"}, "--json /nowhere/gates.json: cannot be written"),
        (
            {"verb": GateVerb.RUN, "config": replace(CONFIG, batch=100)},
            "preloaded prompts have 272 tokens together and one batch has 100 rows",
        ),
    ],
)
def test_misuse_is_told_in_one_line(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        main(gate_args(**changes))
    assert words in str(raised.value)


def test_fewer_sequences_shrink_what_waits_and_what_is_cancelled() -> None:
    published = size_of(gate_args(config=replace(CONFIG, sequences=99)))
    assert published.cancel_plan == (1, 4, 7, 2, 5, 8)
    assert published.num_waiting == 9
    assert size_of(gate_args()).cancel_plan == (1, 4, 2, 5)


# ── run ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def figures(capsys: pytest.CaptureFixture[str], **knobs: Any) -> dict[str, str]:  # noqa: ANN401 - fields of every type
    """The metrics block of one run in one placement."""
    args = gate_args(verb=GateVerb.RUN, knobs=GateKnobs(**knobs), placements=(PlacementKind.DEDICATED,))
    assert main(args) == 0
    *lines, verdict = capsys.readouterr().out.splitlines()
    assert verdict == "PASS"
    return dict(line.split(": ", 1) for line in lines)


def test_run_prints_the_published_figures(capsys: pytest.CaptureFixture[str]) -> None:
    seen = figures(
        capsys,
        active=12,
        budgets=(4, 10, 20),
        cancel_plan=(1, 2, 4, 5),
        cancel_after=6,
        waiting=4,
        waiting_budget=11,
    )
    assert seen["decode_calls"] == "20"
    assert seen["update_iterations"] == "19"
    assert (seen["completed_4"], seen["cancelled_4"]) == ("4", "0")
    assert (seen["completed_10"], seen["cancelled_10"]) == ("2", "2")
    assert seen["admission_iter_set"] == "[7]"
    assert seen["reused_seq_id_set"] == "[1,2,4,5]"
    assert (seen["queued_count"], seen["admitted_count"]) == ("4", "4")
    assert seen["queue_depth_after_admission"] == "[0,4,4]"
    assert seen["engine_task_count"] == "1"
    assert seen["residual_kv_empty"] == "1"


def test_run_takes_arrivals_reuse_and_repeats(capsys: pytest.CaptureFixture[str]) -> None:
    seen = figures(
        capsys,
        active=6,
        budgets=(4, 10, 20),
        cancel_plan=(),
        waiting=2,
        waiting_budget=3,
        external=1,
        external_budget=2,
        release_step=2,
        reuse_completed=True,
        stream_all=True,
        repeats=2,
    )
    assert (seen["iter_release_fired"], seen["submitter_ack_observed"]) == ("1", "1")
    assert seen["admission_iter_set"] == "[4,7]"
    assert seen["completed_count"] == "9"
    assert seen["repeats_alike"] == "2"


def test_run_cancels_before_the_first_token_if_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    seen = figures(capsys, active=3, budgets=(4,), cancel_plan=(1,), cancel_after=0)
    assert (seen["completed_count"], seen["cancelled_count"]) == ("2", "1")


def test_run_without_active_requests_uses_every_slot(capsys: pytest.CaptureFixture[str]) -> None:
    seen = figures(capsys, active=0, cancel_plan=(), external=20, external_budget=3)
    assert seen["completed_count"] == "20"
    assert seen["active_seqs_per_iter"].endswith("16]")


def test_run_takes_prompts_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "prompts"
    file.write_text("one\n\nthree and more\n", encoding="utf-8")
    seen = figures(capsys, active=2, budgets=(4,), cancel_plan=(), prompts_file=str(file))
    assert seen["rows_per_batch"] == f"[2,{len('one') + len('three and more')},{len('one') + len('three and more')}]"


def test_reference_agrees_with_the_engine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(gate_args(verb=GateVerb.REFERENCE)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert "same_tokens=16 same_hashes=16 same_steps=16 same_positions=16" in lines[2]


def test_exactness_compares_every_row_and_then_requests_by_chance_in_both_modes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    knobs = ExactnessKnobs(requests=20)
    assert main(gate_args(verb=GateVerb.EXACTNESS, placements=(PlacementKind.SHARED,), exactness=knobs)) == 0
    rows, exact, fast = capsys.readouterr().out.splitlines()
    assert "rows=192 same_rows_exact_B0=192 same_tokens_exact_B0=8" in rows
    assert exact.startswith("PASS MIX-EXACT shared")
    assert "rows_different=0 different=0" in exact
    assert fast.startswith("PASS MIX-FAST shared")
    assert "mismatch_percent=0.0" in fast


def test_exactness_in_one_mode_has_one_line_more(capsys: pytest.CaptureFixture[str]) -> None:
    knobs = ExactnessKnobs(requests=5, mode=Compositions.FAST)
    assert main(gate_args(verb=GateVerb.EXACTNESS, placements=(PlacementKind.SHARED,), exactness=knobs)) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == ["EXACT", "MIX-FAST"]


def test_a_storm_runs_once_whatever_the_placements(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(gate_args(verb=GateVerb.STORM, storm=StormKnobs(requests=120, seed=7))) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("PASS STORM dedicated")
    assert "seed=7" in line
    assert "requests=120" in line


def test_notes_stand_below_the_line_of_their_gate(capsys: pytest.CaptureFixture[str]) -> None:
    report = GateReport(
        name="G0", title="t", placement="-", passed=True, counts={}, reason=None, seconds=0.0, notes=["one", "two"]
    )
    tell(Console(), report, block=False)
    assert [line.strip() for line in capsys.readouterr().out.splitlines()[1:]] == ["one", "two"]


# ── figures ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_quantiles_are_values_that_occur() -> None:
    depths = [6] * 16 + [0] * 239
    assert spread(depths) == [0, 6, 6]
    assert quantile([3, 1, 2], 0.5) == 2
    assert quantile([], 0.5) == 0
    assert distinct([5, None, 5, 2]) == [-1, 2, 5]
