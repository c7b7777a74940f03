import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from arriero.core.errors import DataError
from arriero.lab.ab.plan import AbPlan
from arriero.lab.ab.session import SessionOptions, make_result, read_summary, run_ab
from arriero.lab.ab.variants import Variant
from arriero.metrics.paired_verdict import Verdict
from arriero.record.cpu_lab.ab import AbResult, encode_ab
from arriero.record.cpu_lab.ab_run import AbRecord
from arriero.record.cpu_lab.matrix import RunStatus
from arriero.record.cpu_lab.run_log import Status, read_run
from tests.unit.lab.ab.runs import RATE, SCRIPT, made_result, program, setup

SMALL = AbPlan(num_pairs=6, num_aa_pairs=2, num_warm_ups=1, metrics=(RATE,), timeout_s=20)


def quiet(_line: str) -> None:
    return


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "run.jsonl").read_text().splitlines()]


def test_a_whole_run(tmp_path: Path) -> None:
    result = made_result(tmp_path, SMALL)
    assert (result.status, result.word, result.num_pairs, result.num_aa_pairs) == ("done", "POSITIVE", 6, 2)
    records = lines(tmp_path / "run")
    assert [record["execution_index"] for record in records] == list(range(18))
    assert {record["status"] for record in records} == {"success"}
    assert {record["session"] for record in records} == {0}
    assert str(tmp_path) not in (tmp_path / "run" / "run.jsonl").read_text()
    assert str(tmp_path) not in (tmp_path / "run" / "manifest.json").read_text()
    assert read_summary(tmp_path / "run").run_status is RunStatus.COMPLETED


def test_the_same_result_comes_from_the_files_alone(tmp_path: Path) -> None:
    result = made_result(tmp_path, SMALL)
    assert encode_ab(make_result(tmp_path / "run")) == encode_ab(result)


def test_a_fresh_run_refuses_a_folder_with_a_run(tmp_path: Path) -> None:
    made_result(tmp_path, SMALL)
    with pytest.raises(DataError, match="holds a run already"):
        run_ab(setup(program(tmp_path, 50), program(tmp_path, 60), SMALL), tmp_path / "run", quiet)


def test_a_run_of_something_else_is_not_gone_on_with(tmp_path: Path) -> None:
    made_result(tmp_path, SMALL)
    other = setup(program(tmp_path, 50), program(tmp_path, 61), SMALL)
    with pytest.raises(DataError, match=r"holds a run of something else \(b\)"):
        run_ab(other, tmp_path / "run", quiet, SessionOptions(resume=True))


def failing(folder: Path, at: int, then: str) -> Variant:
    """A side that does something else at one place of the order, once."""
    script = (
        f'if [ ! -e {folder}/failed ] && [ "$(cat {folder}/counter)" = {at} ]; then touch {folder}/failed; {then}; fi\n'
    )
    return program(folder, 50, script=script + SCRIPT)


@pytest.mark.parametrize(
    ("then", "status", "says"),
    [
        ("echo broken >&2; exit 3", "failed", r"ab:0:[ab]: ended with status 3 \(broken\)"),
        ("exec sleep 30", "timed_out", "not done after 1 s"),
        ("echo no figures; exit 0", "parse_error", "printed no JSON object"),
    ],
)
def test_the_first_failure_is_a_record_and_stops_the_run_resumably(
    tmp_path: Path, then: str, status: str, says: str
) -> None:
    plan = AbPlan(
        num_pairs=6, num_aa_pairs=0, num_warm_ups=1, metrics=(RATE,), timeout_s=1.0 if "sleep" in then else 20
    )
    side = failing(tmp_path, 3, then)
    made = setup(side, side, plan)
    result = run_ab(made, tmp_path / "run", quiet)
    assert (result.status, result.verdict) == ("failed", None)
    assert result.error is not None
    records = lines(tmp_path / "run")
    assert [record["status"] for record in records] == ["success"] * 3 + [status]

    assert re.search(says, result.error)
    told = {"failed": "failed", "timed_out": "timed out", "parse_error": "gave no figures that are understood"}[status]
    assert any(re.fullmatch(f"[AB]: 1 of 2 runs {told}", flag) for flag in result.flags)
    again = run_ab(made, tmp_path / "run", quiet, SessionOptions(resume=True))
    assert again.status == "done"
    stored = read_run(tmp_path / "run", AbRecord)
    assert len(stored.records) == 15  # the failed one stays
    assert len(stored.latest) == 14
    assert all(record.status is Status.SUCCESS for record in stored.latest.values())
    assert any("more than one session" in flag for flag in again.flags)
    assert any(re.fullmatch(f"[AB]: 1 of 8 runs {told} and was repeated", flag) for flag in again.flags)
    assert encode_ab(make_result(tmp_path / "run")) == encode_ab(again)


def test_a_program_that_says_nothing_of_a_deciding_metric_stops_the_run(tmp_path: Path) -> None:
    side = program(tmp_path, 50, keys=())
    result = run_ab(setup(side, side, SMALL), tmp_path / "run", quiet)
    assert result.error == "warm_up:0:a: it says nothing of rate"


def test_a_variant_that_changes_while_it_runs_is_found(tmp_path: Path) -> None:
    side = program(tmp_path, 50, script=SCRIPT + 'if [ "$n" = 5 ]; then echo "# more" >> "$0"; fi\n')
    result = run_ab(setup(side, side, SMALL), tmp_path / "run", quiet)
    assert result.error == (
        "a: print.sh was changed while it ran; begin another run, or if the command writes it, name it behind --out"
    )


def test_an_interim_look_that_decides_ends_the_run(tmp_path: Path) -> None:
    plan = AbPlan(num_pairs=16, num_aa_pairs=3, num_warm_ups=0, metrics=(RATE,), num_looks=2, timeout_s=20)
    result = made_result(tmp_path, plan)
    assert (result.word, result.stopped_early, result.num_pairs) == ("POSITIVE", True, 8)
    assert result.confidence == pytest.approx(0.975)
    assert made_result_again(tmp_path, plan).num_pairs == 8


def made_result_again(folder: Path, plan: AbPlan) -> AbResult:
    made = setup(program(folder, 50), program(folder, 60), plan)
    return run_ab(made, folder / "run", quiet, SessionOptions(resume=True))


def test_a_look_that_finds_nothing_goes_on_to_the_end(tmp_path: Path) -> None:
    plan = AbPlan(num_pairs=16, num_aa_pairs=3, num_warm_ups=0, metrics=(RATE,), num_looks=2, timeout_s=20)
    result = made_result(tmp_path, plan, levels=(50, 50))
    assert (result.word, result.stopped_early, result.num_pairs) == ("INCONCLUSIVE", False, 16)
    assert result.verdict in {Verdict.NOT_RESOLVED, Verdict.NO_VERDICT}


KILLED = """
    import sys
    from pathlib import Path
    from arriero.lab.ab.session import SessionOptions, run_ab
    from tests.unit.lab.ab.runs import program, setup
    from tests.unit.lab.ab.test_runner import SMALL
    folder = Path(sys.argv[1])
    made = setup(program(folder, 50), program(folder, 60), SMALL)
    resumes = (folder / "run" / "manifest.json").exists()
    run_ab(made, folder / "run", lambda line: print(line, flush=True), SessionOptions(resume=resumes, repair=resumes))
"""


def test_a_run_that_is_killed_again_and_again_loses_nothing_and_counts_nothing_twice(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path)]
    for num_lines in (2, 9):  # killed as soon as it has said so much: once between two runs, once within one
        # ours as we see it: where this process has loaded llama.cpp, that has set variables behind Python's back, which
        # a child would inherit and find to be another run's
        environment, place = dict(os.environ), Path(__file__).parents[4]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=place, env=environment) as child:
            assert child.stdout is not None
            for _ in range(num_lines):
                child.stdout.readline()
            child.send_signal(signal.SIGKILL)
    before = len(lines(tmp_path / "run"))
    assert 0 < before < 18
    made = setup(program(tmp_path, 50), program(tmp_path, 60), SMALL)
    result = run_ab(made, tmp_path / "run", quiet, SessionOptions(resume=True, repair=True))
    records = lines(tmp_path / "run")
    assert result.status == "done"
    assert [record["execution_index"] for record in records] == list(range(18))
    assert len({record["invocation_id"] for record in records}) == 18
    assert {record["run_id"] for record in records} == {result.run_id}
