"""`arriero bench run` from its flags to its file, its tables and its exit status."""

import asyncio
import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from arriero.bench.loops_watch import RunWatch
from arriero.bench.null_server import NullServer
from arriero.bench.null_server_options import NullOptions
from arriero.cli.bench.run_measure import without_secrets
from arriero.cli.bench.run_progress import live_progress, progress_line
from arriero.cli.main import main
from arriero.record.bench_result import BenchResult, read_result

SIM = """
schema_version = "arriero-simulation-v1"
name = "small-cpu"
limits = {sequences = 4, rows = 512}
kv = {kind = "cells", num_cells = 16384}
cost = {base_us = 4000, prefill_row_us = 500, decode_row_us = 500}
workload = {path = "unused"}
"""
TALK = """
schema_version = "serving-workload-v1"
generator = "arriero-composed-v1"
workload_class = "chat"
request_count = 12
seed = 1
arrival = {mode = "poisson", rate_per_s = 20}
prompt_length = {distribution = "uniform", low = 10, high = 20}
output_length = {distribution = "uniform", low = 3, high = 6}
[sessions]
turns = {distribution = "uniform", low = 1, high = 3}
think_time_us = {distribution = "constant", value = 5000}
pacing = "answer"
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ARRIERO_CONFIG", raising=False)
    (tmp_path / "lab.toml").write_text(SIM)
    (tmp_path / "talk.toml").write_text(TALK)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    words = [sys.executable, "-m", "arriero.bench.null_server", "--port", "0", "--until-stdin-closes",
             "--chunks", "max_tokens"]  # fmt: skip
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.stdin.close()


def run(*words: str, status: int = 0) -> BenchResult:
    got = main(["bench", "run", *words, "--out", "r.json", "--force"])
    result = read_result(Path("r.json"))
    # On a machine that is busy with other things the generator is late, and says so: no fault of a test.
    is_starved = got == 3 and status < 2 and "sim" not in words and result.validity.flag == "invalid"
    assert got == status or is_starved
    return result


def misuse(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["bench", "run", *words]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert not Path("r.json").exists()
    return told.err.removeprefix("arriero: ").rstrip()


QUICK = ("--no-calibration", "--look", "0")
SIMULATED = ("--target", "sim", "--sim", "lab.toml")
ENGINE = ("--target", "in-process", "--backend", "synthetic", *QUICK)


def test_the_same_words_give_the_same_schedule_to_all_targets(server: str) -> None:
    words = ("16x4", "--clients", "2", "--requests", "6", "--ignore-eos", "--vocabulary", "32:90")
    simulated = run(*words, *SIMULATED)
    measured = run(*words, *ENGINE)
    served = run(*words, "--target", server, *QUICK)
    hashes = {each.points[0].schedule.sha256 for each in (simulated, measured, served)}
    assert len(hashes) == 1
    assert [str(each.evidence) for each in (simulated, measured, served)] == ["SIMULATED", "MEASURED", "END-TO-END"]
    assert [each.target.kind for each in (simulated, measured, served)] == ["simulated", "in-process", "http"]
    for each in (simulated, measured, served):
        assert each.points[0].summary.counts.by_outcome["length"] == 6
    assert served.target.model == "null"


def test_conversations_go_through_all_targets(server: str) -> None:
    for words in (
        SIMULATED,
        ENGINE,
        ("--target", server, *QUICK, "--endpoint", "chat", "--answers", "real"),
    ):
        point = run("talk.toml", "--replay", *words).points[0]
        assert sum(point.summary.counts.by_outcome.values()) == 12
        sent = {life.request_id: life for life in point.lives}
        for life in point.lives:
            if life.turn:
                before = sent[life.request_id[:-4] + f"{life.turn - 1:04d}"]
                assert life.intended_at == (before.closed_at or 0) + 5_000_000


def test_the_table_begins_with_the_flag_and_shows_what_it_must(capsys: pytest.CaptureFixture[str]) -> None:
    run("16x4", "--rate", "40", "--requests", "30", "--slo-ttft", "100", "--cancel-rate", "0.2", *SIMULATED)
    told = capsys.readouterr()
    lines = told.out.splitlines()
    assert lines[0] == "VALID"
    assert "SIMULATED" in lines[1]
    for word in ("definitions", "outcomes", "30 intended = ", "cancelled_by_client", "send lag", "served fraction",
                 "asked", "which gave", "TTFT", "finished, ms", "all: the same", "30 requests of 16x4"):  # fmt: skip
        assert word in told.out, word
    assert told.err == "r.json: written\n"


def test_of_few_requests_the_longest_lag_is_shown_and_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    run("16x4", "--rate", "40", "--requests", "99", *SIMULATED)
    assert "send lag ms p50 0.00, max 0.00 (n = 99) (limit " in capsys.readouterr().out
    run("16x4", "--rate", "40", "--requests", "100", *SIMULATED)
    assert "send lag ms p50 0.00, p99 0.00, max 0.00 (limit " in capsys.readouterr().out


def test_connections_are_told_where_there_are_some(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    few = ("16x4", "--clients", "1", "--requests", "3")
    for words in (SIMULATED, ENGINE):
        run(*few, *words)
        assert "connections   -\n" in capsys.readouterr().out
    connections = run(*few, "--target", server, *QUICK).points[0].summary.connections
    assert connections.opened + connections.reused == 3
    told = f"connections   {connections.opened} opened (p50 "
    assert told in (out := capsys.readouterr().out)
    assert f", {connections.reused} requests on one used before\n" in out


def test_a_sweep_ends_with_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    result = run("16x4", "--clients", "1,2", "--requests", "10", *SIMULATED)
    assert [point.setting for point in result.points] == [{"clients": 1}, {"clients": 2}]
    out = capsys.readouterr().out
    assert "point 2 of 2: clients 2" in out
    assert out.splitlines()[-1].startswith("clients 2  valid")


def test_other_definitions_are_views_of_the_same_events(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("16x4", "--clients", "2", "--requests", "10", *SIMULATED)
    ours = run(*words)
    theirs = run(*words, "--definitions", "guidellm")
    assert ours.points == theirs.points
    assert "guidellm" in capsys.readouterr().out


def test_json_is_the_result_without_the_raw_events(capsys: pytest.CaptureFixture[str]) -> None:
    result = run("16x4", "--clients", "1", "--requests", "3", "--json", *SIMULATED)
    printed = json.loads(capsys.readouterr().out)
    assert printed["validity"]["flag"] == "valid"
    assert printed["points"][0]["lives"] == []
    assert len(result.points[0].lives) == 3
    assert len(run("16x4", "--clients", "1", "--requests", "3", "--no-raw", *SIMULATED).points[0].lives) == 0


def test_nothing_that_ends_normally_is_a_failure() -> None:
    result = run(
        "900x4", "--clients", "1", "--requests", "2", *ENGINE, "--sequences", "1", "--ctx-size", "512", status=1
    )
    assert result.points[0].summary.counts.by_error == {"context_too_long": 2}


@pytest.mark.slow
def test_a_generator_that_cannot_keep_up_ends_with_its_own_status(
    server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("8x1", "--rate", "200000", "--arrivals", "constant", "--requests", "4000", "--drain", "20s")
    result = run(*words, "--target", server, *QUICK, status=3)
    assert result.validity.flag == "invalid"
    assert capsys.readouterr().out.startswith("INVALID; ")


@pytest.mark.slow
def test_the_instrument_is_measured_before_a_live_run(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = run("8x2", "--clients", "1", "--requests", "3", "--target", server, "--look", "100ms")
    assert result.calibration is not None
    assert result.calibration.num_requests == 100
    assert "instrument    adds" in capsys.readouterr().out


def test_secrets_are_in_no_file(server: str) -> None:
    words = ("8x2", "--clients", "1", "--requests", "2", "--target", server, *QUICK)
    result = run(*words, "--api-key", "SECRET1", "--header", "X-Thing: SECRET2")
    assert "SECRET" not in Path("r.json").read_text()
    assert result.run.command.count("HIDDEN") == 2
    assert without_secrets(["--api-key=SECRET", "--out", "x"]) == ["--api-key=HIDDEN", "--out", "x"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("16x4", *SIMULATED), "how often?"),
        (("16x4", "--rate", "1", "--clients", "2", *SIMULATED), "how often?"),
        (("16x4", "--rate", "0", *SIMULATED), "--rate"),
        (("16x4", "--rate", "1", "--ramp", "1:2:3", *SIMULATED), "--ramp"),
        (("16x4", "--clients", "3", "--ramp", "1:2:3", *SIMULATED), "ends at 2 clients"),
        (("16x4", "--rate", "1", "--speed", "2", *SIMULATED), "--speed"),
        (("16x4", "--rate", "1", "--cv", "2", *SIMULATED), "--cv"),
        (("16x4", "--rate", "1", "--target", "sim"), "--sim"),
        (("16x4", "--rate", "1", "--target", "ftp://x"), "no target"),
        (("16x4", "--rate", "1", "--target", "http://127.0.0.1:1", "--ctx-size", "512"), "--ctx-size"),
        (("16x4", "--rate", "1", "--target", "http://127.0.0.1:1"), "no server answers there"),
        (("16x4", "--rate", "1", "--api-key", "k", *SIMULATED), "--api-key"),
        (("16x4", "--rate", "1", "--endpoint", "chat", *SIMULATED), "token ids only"),
        (("16x4", "--rate", "1", "--answers", "real", "--target", "http://127.0.0.1:1"), "--answers real"),
        (("16x4", "--rate", "1", "--duration", "2s", "--warm-up", "2s", *SIMULATED), "leave nothing"),
        (("16x4", "--rate", "1", "--warm-up", "1.5", *SIMULATED), "no warm-up"),
        (("16x4", "--rate", "1", "--requests", "5", "--warm-up", "5", *SIMULATED), "leave none of 5"),
        (("nothing.jsonl", "--rate", "1", *SIMULATED), "no such file"),
        (("16x4", "--rate", "1", "--field", "x", *SIMULATED), "names no field"),
        (("16x4", "--rate", "1", "--vocabulary", "5", *SIMULATED), "FIRST:SIZE"),
        (("16x4", "--rate", "1", "--vocabulary", "5:1", *SIMULATED), "size"),
        (("16x4", "--rate", "1", "--header", "x", *SIMULATED), "no header"),
        (("16x4", "--rate", "1", "--cancel-rate", "2", *SIMULATED), "no share"),
        (("16x4", "--rate", "1", "--model", "recommended", *ENGINE), "--backend synthetic loads no file"),
    ],
)
def test_what_cannot_work_is_one_line(words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert says in misuse(capsys, *words)


def test_a_result_is_not_replaced_unless_told_to(capsys: pytest.CaptureFixture[str]) -> None:
    Path("r.json").write_text("mine")
    assert main(["bench", "run", "16x4", "--clients", "1", "--requests", "1", *SIMULATED, "--out", "r.json"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert Path("r.json").read_text() == "mine"


def test_results_go_below_artifacts_by_default() -> None:
    assert main(["bench", "run", "16x4", "--clients", "1", "--requests", "1", *SIMULATED]) == 0
    assert len(list(Path(".artifacts/bench").glob("run-*.json"))) == 1


def test_verbs_are_found_and_misspelled_ones_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--help"]) == 0
    assert "compare" in capsys.readouterr().out
    assert main(["bench", "rum"]) == 2
    assert "did you mean run?" in capsys.readouterr().err
    assert main(["bench"]) == 2


async def test_an_interrupt_keeps_what_was_measured(tmp_path: Path) -> None:
    came = asyncio.Event()

    class _Telling(NullServer):
        def note_request(self, at: int) -> None:
            super().note_request(at)
            if self.num_requests == 20:
                came.set()

    server = await _Telling(NullOptions(num_chunks=4)).listen()
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    words = [
        "bench",
        "run",
        "8x4",
        "--rate",
        "50",
        "--arrivals",
        "constant",
        "--requests",
        "5000",
        "--target",
        url,
        *QUICK,
    ]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "arriero", *words, "--out", str(tmp_path / "r.json"),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    await came.wait()
    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()
    server.close()
    await server.wait_closed()
    assert process.returncode == 130, err
    assert b"interrupted" in out
    assert b"what was measured is kept" in err
    assert not list(tmp_path.glob(".r.json*"))  # noqa: ASYNC240 - nothing else runs by now
    result = read_result(tmp_path / "r.json")
    assert result.run.was_interrupted
    counts = result.points[0].summary.counts
    assert counts.by_outcome["length"] >= 19
    assert counts.intended == 5000


async def test_progress_is_shown_on_a_terminal_and_nowhere_else() -> None:
    class _Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, shows in ((_Terminal(), True), (io.StringIO(), False)):
        async with live_progress(RunWatch(), lambda: 0, lambda: "here", stream):
            await asyncio.sleep(0)
        assert ("here: getting ready" in stream.getvalue()) is shows


def test_the_line_of_progress_says_how_far_a_run_has_come() -> None:
    watch = RunWatch()
    watch.begin(100, 0)
    for _ in range(10):
        watch.note_sent(2_500_000)
    watch.failed, watch.ended = 1, 4
    line = progress_line(watch, 2_000_000_000, "clients 4")
    assert line == "clients 4: 2 s, 5.0/s, 6 running, 4/100 done, 1 failed, lag 2.5 ms (worst 2.5)"
