"""`arriero bench compare`: what flags mean, what is refused, and what is printed and stored."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from arriero.bench.compare_plan import ComparePlan
from arriero.bench.prompts import PromptForm
from arriero.bench.rounds import Order, Side
from arriero.bench.servers import free_port
from arriero.cli.bench.compare import _parser, main
from arriero.cli.bench.compare_flags import plan_of
from arriero.core.errors import ConfigError
from arriero.metrics.paired_verdict import Verdict
from arriero.record.bench_compare import read_comparison

NULL = "{python} -m arriero.bench.null_server --port {port} --first-s 0.001 --chunks 4 --gap-s"
QUIET = ("--busy-ok", "--no-calibration", "--aa-rounds", "2", "--rounds", "6", "--requests", "2", "--clients", "1")


def plan(*words: str) -> ComparePlan:
    return plan_of(_parser().parse_args(words))


def two(*words: str) -> ComparePlan:
    """Two commands and further flags."""
    return plan("--a-command", "x {port}", "--b-command", "y {port}", *words)


def test_servers_known_by_name_get_their_commands(tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    model.touch()
    made = plan(
        "--a", "llama-server", "--a-binary", "/opt/llama-server", "--a-flags", "-fa on", "--b", "arriero",
        "--model", str(model), "--threads", "3", "--clients", "1,16",
    )  # fmt: skip
    peer, ours = (made.sides[side].command for side in Side)
    assert peer is not None
    assert ours is not None
    words = peer.filled(replace(made.values(made.cells[1]), port=1))
    assert words[0] == "/opt/llama-server"
    assert words[-2:] == ("-fa", "on")
    assert words[words.index("-np") + 1] == "16"
    assert words[words.index("-t") + 1] == "3"
    assert made.sides[Side.A].fields == {"cache_prompt": False}
    assert [cell.slots for cell in made.cells] == [8, 16], "as many as clients, at least eight"
    assert ours.words[1:4] == ("-m", "arriero", "serve")
    assert [(made.sides[side].peer, made.sides[side].flags) for side in Side] == [
        ("llama-server", ("-fa", "on")),
        ("arriero", ()),
    ]


def test_a_command_of_ones_own_is_no_peer() -> None:
    side = two("--a-flags=-x 1").sides[Side.A]
    assert (side.peer, side.flags) == (None, ("-x", "1"))
    assert side.command is not None
    assert side.command.words == ("x", "{port}", "-x", "1")


def test_kv_is_sized_by_the_longest_request() -> None:
    assert [cell.slot_context for cell in two("--workload", "120x64", "--workload", "1000x100").cells] == [256, 1280]
    assert two("--workload", "120x64", "--slot-context", "512").cells[0].slot_context == 512


@pytest.mark.parametrize("name", ["short", "long", "mixed"])
def test_the_shipped_workloads_can_be_compared_on(root: Path, name: str) -> None:
    made = two("--workload", str(root / "definitions" / "comparison" / f"{name}.toml"), "--clients", "1,16")
    assert made.cells[0].work.name == name
    assert made.cells[0].slot_context <= 1280
    assert len(made.schedule(made.cells[1], "x").planned) == 48


def test_text_is_sent_to_both_if_one_takes_nothing_else() -> None:
    made = plan("--a", "llama-cpp-python", "--b-command", "x {port}", "--model", __file__)
    assert made.form() is PromptForm.TEXT
    assert isinstance(made.schedule(made.cells[0], "x").planned[0].ask.prompt, str)
    assert two().form() is PromptForm.TOKENS
    assert two("--b-prompts", "text").form() is PromptForm.TEXT


def test_every_round_asks_so_many_requests_in_full_length() -> None:
    made = two("--clients", "4", "--workload", "10x5")
    schedule = made.schedule(made.cells[0], "x")
    assert len(schedule.planned) == 12
    assert len(schedule.client_starts) == 4
    assert schedule.planned[0].ask.fields == {"temperature": 0, "ignore_eos": True}
    assert len(made.schedule(made.cells[0], "x", is_warm_up=True).planned) == 12
    fewer = two("--clients", "4", "--warm-up", "3", "--requests", "20")
    assert len(fewer.schedule(fewer.cells[0], "x").planned) == 20
    assert len(fewer.schedule(fewer.cells[0], "x", is_warm_up=True).planned) == 3


def test_what_decides_is_asked_about_first_and_once() -> None:
    rules = two("--decides", "itl_p99,ttft_p50", "--also", "ttft_p50,e2e_p50", "--least-difference", "2%").rules
    assert [(each.metric, each.decides, each.margin) for each in rules.questions()] == [
        ("itl_p99", True, 0.02),
        ("ttft_p50", True, 0.02),
        ("e2e_p50", False, 0.02),
    ]
    assert [each.higher_is_better for each in two().rules.questions()][:2] == [True, False]


def test_rounds_and_orders() -> None:
    made = two("--order", "seeded", "--rounds", "8", "--aa-rounds", "0", "--seed", "3")
    assert (made.order, made.num_rounds, made.num_aa_rounds, made.seed) == (Order.SEEDED, 8, 0, 3)
    assert two("--rounds", "8").num_aa_rounds == 8


def test_stable_sides() -> None:
    assert two("--must-be-stable", "a,b").rules.stable == set(Side)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--b-command", "x {port}"), "--a: give an address, one of arriero, llama-server, llama-cpp-python"),
        (("--a", "arriero", "--a-command", "x {port}", "--b", "arriero"), "and one of them only"),
        (("--a", "vllm", "--b", "arriero"), "--a vllm: no server of this name"),
        (("--a", "http://h:1", "--a-flags=-x", "--b", "arriero"), "--a-flags: only for a server that is started"),
        (("--a-command", "x {port}", "--a-binary", "y", "--b", "arriero"), "--a-binary: --a-command names its program"),
        (("--a-command", "x", "--b", "arriero"), r"--a-command: no \{port\} in it"),
        (("--a-command", "x {port} '", "--b", "arriero"), "--a-command: no closing quotation"),
        (("--a", "arriero", "--a-flags", "'", "--b", "arriero"), "--a-flags: no closing quotation"),
        (("--a", "arriero", "--b", "arriero"), r"--a arriero: \{model\} has no value; give --model"),
        (("--a", "llama-server", "--b", "arriero", "--model", "smollm2-135m"), "--model smollm2-135m: no such file"),
        (("--a", "http://h:1", "--b", "http://h:2", "--one-at-a-time"), "cannot be started anew"),
        (("--a", "http://h:1", "--a-search", "default", "--b", "http://h:2"), "only a server known by name"),
        (("--a-fields", "[]"), "--a-fields .*: no JSON object"),
        (("--a-search", "default"), "--a-search default: only a server known by name has a default"),
        (("--rounds", "4"), "--rounds 4: no verdict"),
        (("--rounds", "7"), "7 rounds: use an even number of at least 6"),
        (("--aa-rounds", "3"), "--aa-rounds 3: use an even number, or 0"),
        (("--order", "sequential"), "--order sequential: all of one side"),
        (("--decides", "speed"), "speed: no metric; use output_throughput"),
        (("--decides", ""), "--decides: empty"),
        (("--least-difference", "2"), "argument --least-difference: 2 is no share between 0 and 1"),
        (("--must-be-stable", "c"), "--must-be-stable c: no side"),
        (("--clients", "1,x"), "argument --clients: x is no whole number"),
    ],
)
def test_what_cannot_work_is_told_before_anything_is_started(words: tuple[str, ...], says: str) -> None:
    sides = () if "--a" in words or "--a-command" in words or "--b-command" in words else BOTH
    with pytest.raises(ConfigError, match=says):
        plan(*sides, *words)


BOTH = ("--a-command", "x {port}", "--b-command", "y {port}")


def test_a_workload_that_is_too_small_is_told_before_anything_is_started(tmp_path: Path) -> None:
    work = tmp_path / "w.jsonl"
    line = {
        "schema_version": "serving-workload-v1", "request_id": "r", "arrival_time_us": 0, "prompt_token_count": 3,
        "max_new_tokens": 2, "workload_class": "chat",
    }  # fmt: skip
    work.write_text(json.dumps(line) + "\n")
    with pytest.raises(ConfigError, match="has 1 requests and the run needs 24"):
        two("--workload", str(work))


@pytest.mark.slow
def test_a_comparison_is_printed_and_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "r.json"
    words = ("--a-command", f"{NULL} 0.01", "--b-command", f"{NULL} 0.002", "--b-name", "quick", "--out", str(out))
    status = main([*words, *QUIET, "--decides", "itl_p50"])
    said = capsys.readouterr()
    result = read_comparison(out)
    assert result.status == "done"
    assert result.b.name == "quick"
    assert result.run.command[:3] == ("arriero", "bench", "compare")
    assert result.b.command is not None
    assert "{port}" in result.b.command
    assert str(tmp_path) not in out.read_text(encoding="utf-8"), "no absolute path is stored"
    assert said.out.startswith("- Validity: ")
    assert "- A is `command A`, version unknown\n- B is `quick`, version unknown\n" in said.out
    started = next(line for line in said.out.splitlines() if line.startswith("- B at "))
    assert started.startswith("- B at 1 client, 120x64, 8 slots, slot_context 256: `")
    assert started.endswith("--first-s 0.001 --chunks 4 --gap-s 0.002`")
    assert "{" not in started, "it is filled in"
    assert "| 1 | 120x64 | **itl_p50** (ms) |" in said.out
    assert "ab 6 A: " in said.err
    assert sorted(path.name for path in (tmp_path / "r" / "logs" / "cell-1").iterdir()) == [
        "001-a-command A.log",
        "002-b-quick.log",
    ]
    if result.cells[0].verdicts:  # else a round was invalid, because the machine is busy with other things
        verdict = result.cells[0].verdicts["itl_p50"].verdict
        assert verdict in {Verdict.BETTER, Verdict.NO_VERDICT}, "on a busy machine never a wrong one"
        assert (status == 0) is (verdict is Verdict.BETTER)
        assert f"| {verdict.replace('_', ' ')} |" in said.out
    with pytest.raises(ConfigError, match="exists already"):
        main([*words, *QUIET])


@pytest.mark.slow
def test_a_server_that_does_not_start_ends_with_status_1_and_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "r.json"
    fails = "{python} -c 'raise SystemExit(\"no model {port}\")'"
    assert main(["--a-command", f"{NULL} 0.01", "--b-command", fails, "--out", str(out), *QUIET]) == 1
    said = capsys.readouterr()
    assert "command B: ended with status 1 before it answered" in said.err
    assert "- Status: failed: command B: ended" in said.out
    result = read_comparison(out)
    assert result.status == "failed"
    assert [(run.side, run.how) for run in result.cells[0].servers] == [("a", "terminated"), ("b", "exited")]


def test_nobody_at_an_address_is_told(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ConfigError, match=f"{url}: nobody answers there"):
        main(["--a", url, "--b", url, "--out", str(tmp_path / "r.json"), *QUIET])


@pytest.mark.slow
def test_ctrl_c_ends_in_order_and_keeps_what_was_measured(tmp_path: Path, root: Path) -> None:
    out = tmp_path / "r.json"
    words = [
        *("--a-command", f"{NULL} 0.02", "--b-command", f"{NULL} 0.02", "--out", str(out), *QUIET),
        *("--requests", "5", "--rounds", "1000"),
    ]
    code = "import sys; from arriero.cli.bench.compare import main; sys.exit(main(sys.argv[1:]))"
    with subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=root, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "ab 3 " in line:
                break
        os.kill(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "- Status: interrupted" in output
    result = read_comparison(out)
    assert result.status == "interrupted"
    assert [run.how for run in result.cells[0].servers] == ["terminated", "terminated"]
    assert result.cells[0].verdicts == {}
