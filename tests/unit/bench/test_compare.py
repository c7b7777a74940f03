"""A comparison from plan to verdict, and what is left when something goes wrong on the way."""

import asyncio
import signal
import socket
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from arriero.bench.compare_metrics import metric_of
from arriero.bench.compare_rounds import Reading
from arriero.bench.compare_verdicts import Rules, Status
from arriero.bench.rounds import Order, Side
from arriero.bench.runner import Driver
from arriero.bench.runner_server import listening_pids
from arriero.bench.schedule import Schedule
from arriero.bench.search import Knob, SearchPlan, Stage
from arriero.bench.servers import free_port, started
from arriero.bench.servers_health import status_of
from arriero.core.errors import ConfigError
from arriero.metrics.paired_verdict import Verdict
from arriero.record.bench_compare_parts import CompareCell, Round
from tests.unit.bench.compare_rig import Formula, Heard, QuietDriver, little_plan, run_plan
from tests.unit.bench.servers_rig import VALUES, Witness, is_gone, little_server, witnessed

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")
THROUGHPUT = "output_throughput"


async def test_a_quicker_side_is_better_in_every_metric(tmp_path: Path) -> None:
    found = await run_plan(little_plan(tmp_path), Formula({"a": 10, "b": 8}, noise=0.01))
    (cell,) = found.cells
    assert found.status == "done"
    assert {name: each.verdict for name, each in cell.verdicts.items()} == dict.fromkeys(
        (THROUGHPUT, "ttft_p50"), Verdict.BETTER
    )
    assert cell.verdicts[THROUGHPUT].median_ratio == pytest.approx(10 / 8, rel=0.02)
    assert found.verdict(little_plan(tmp_path)) is Status.DECIDED


async def test_a_slower_side_is_worse(tmp_path: Path) -> None:
    plan = little_plan(tmp_path)
    found = await run_plan(plan, Formula({"a": 8, "b": 10}, noise=0.01))
    assert found.cells[0].verdicts[THROUGHPUT].verdict is Verdict.WORSE
    assert found.verdict(plan) is Status.WORSE


async def test_f5_noise_is_not_resolved_and_a_small_difference_is_another_verdict(tmp_path: Path) -> None:
    plan = little_plan(tmp_path)
    noisy = await run_plan(plan, Formula({"a": 10, "b": 10}, noise=0.2))
    assert noisy.cells[0].verdicts[THROUGHPUT].verdict is Verdict.NOT_RESOLVED
    assert noisy.cells[0].floors[THROUGHPUT].value > 0.01
    assert noisy.verdict(plan) is Status.NOT_RESOLVED
    quiet = await run_plan(plan, Formula({"a": 10, "b": 10}, noise=0.002))
    assert quiet.cells[0].verdicts[THROUGHPUT].verdict is Verdict.NO_LARGER_DIFFERENCE
    assert quiet.verdict(plan) is Status.DECIDED


async def test_f7_sides_take_turns_and_the_order_is_stored(tmp_path: Path) -> None:
    formula = Formula({"a": 10, "b": 8})
    found = await run_plan(little_plan(tmp_path), formula)
    (cell,) = found.cells
    assert cell.order == "ABBA" * 5
    assert [each.phase for each in cell.rounds] == ["warm_up"] * 2 + ["aa"] * 20 + ["ab"] * 20 + ["check"] * 2
    assert formula.read_from == ["a", "b"] + ["a"] * 20 + list("abba" * 5) + ["a", "b"]
    assert [each.side for each in cell.rounds if each.phase == "aa"] == list("abba" * 5)


async def test_f7_a_linear_drift_gives_no_wrong_verdict(tmp_path: Path) -> None:
    for order in Order:
        plan = replace(little_plan(tmp_path / order), order=order)
        found = await run_plan(plan, Formula({"a": 10, "b": 10}, drift=0.01, noise=0.005))
        assert found.cells[0].verdicts[THROUGHPUT].verdict not in {Verdict.BETTER, Verdict.WORSE}


async def test_f4_a_run_that_is_still_warming_up_gives_no_verdict(tmp_path: Path) -> None:
    class Warming(Formula):
        async def read(self, driver: Driver, schedule: Schedule) -> Reading:
            self.noise = 0.005
            self.gaps = {"a": 25, "b": 24} if len(self.read_from) < 32 else {"a": 15, "b": 14}
            return await super().read(driver, schedule)

    plan = little_plan(tmp_path)
    found = await run_plan(plan, Warming({}))
    assert found.cells[0].verdicts[THROUGHPUT].verdict is Verdict.NO_VERDICT
    assert found.verdict(plan) is Status.NO_VERDICT


async def test_both_sides_of_a_pair_are_asked_the_same_and_no_two_rounds_are(tmp_path: Path) -> None:
    formula = Formula({"a": 10, "b": 8})
    found = await run_plan(little_plan(tmp_path), formula)
    by_pair: dict[tuple[str, int | None], set[str]] = {}
    for each, sha256 in zip(found.cells[0].rounds, formula.asked, strict=True):
        by_pair.setdefault((each.phase, each.pair), set()).add(sha256)
        assert each.point.schedule.sha256 == sha256
    num_kinds = {key: len(each) for key, each in by_pair.items()}
    assert {num for (phase, _), num in num_kinds.items() if phase == "ab"} == {1}
    assert {num for (phase, _), num in num_kinds.items() if phase == "aa"} == {2}, "one server is not asked it twice"
    assert by_pair["warm_up", None] == by_pair["check", None]
    assert len(set(formula.asked)) == sum(num_kinds.values()) - 1


async def test_both_servers_stay_loaded_and_what_they_used_is_kept(tmp_path: Path) -> None:
    found = await run_plan(little_plan(tmp_path), Formula({"a": 10, "b": 8}))
    (cell,) = found.cells
    assert [(run.side, run.how, run.status) for run in cell.servers] == [
        (side, "terminated", -signal.SIGTERM) for side in "ab"
    ]
    assert all(run.ready_s > 0 for run in cell.servers)
    assert {each.idle_cores is None for each in cell.rounds if each.phase == "ab"} == {
        each.server_cores is None for each in cell.rounds if each.phase == "ab"
    }


async def test_one_at_a_time_starts_a_fresh_server_for_each_round(tmp_path: Path) -> None:
    plan = replace(little_plan(tmp_path), num_rounds=6, num_aa_rounds=2)
    plan = replace(plan, hold=replace(plan.hold, one_at_a_time=True))
    formula = Formula({"a": 10, "b": 8})
    found = await run_plan(plan, formula)
    phases = [each.phase for each in found.cells[0].rounds]
    assert phases[::2] == ["warm_up"] * (len(phases) // 2), "each of them is cold"
    assert len(found.cells[0].servers) == 4 + 12 + 2
    assert len({run.log for run in found.cells[0].servers}) == 18


async def test_each_number_of_clients_is_a_cell_of_its_own(tmp_path: Path) -> None:
    heard = Heard()
    found = await run_plan(little_plan(tmp_path, clients=(1, 4)), Formula({"a": 10, "b": 8}), heard)
    assert [cell.setting["clients"] for cell in found.cells] == [1, 4]
    assert heard.cells == [(1, 2), (2, 2)]
    assert heard.ended == found.cells
    assert [*found.cells[0].rounds, *found.cells[1].rounds] == heard.rounds


async def test_without_an_aa_run_there_is_no_floor_and_the_verdict_says_so(tmp_path: Path) -> None:
    plan = replace(little_plan(tmp_path), num_aa_rounds=0)
    found = await run_plan(plan, Formula({"a": 10, "b": 8}, noise=0.01))
    assert found.cells[0].floors == {}
    assert any("no A/A run" in flag for flag in found.cells[0].verdicts[THROUGHPUT].flags)


async def test_failed_requests_withhold_the_verdict_unless_they_are_accepted(tmp_path: Path) -> None:
    plan = little_plan(tmp_path)
    found = await run_plan(plan, Formula({"a": 10, "b": 8}, fails={"b": 1}))
    assert found.cells[0].verdicts == {}
    assert found.cells[0].withheld[THROUGHPUT] == "b: 10 of 40 requests failed"
    assert found.verdict(plan) is Status.NO_VERDICT
    accepting = replace(plan, rules=replace(plan.rules, accepts_failures=True))
    assert THROUGHPUT in (await run_plan(accepting, Formula({"a": 10, "b": 8}, fails={"b": 1}))).cells[0].verdicts


async def test_an_invalid_round_withholds_the_verdict(tmp_path: Path) -> None:
    found = await run_plan(little_plan(tmp_path), Formula({"a": 10, "b": 8}, blocked_ns=200_000_000))
    assert "is invalid" in found.cells[0].withheld[THROUGHPUT]


async def test_a_metric_that_is_undefined_withholds_its_own_verdict_alone(tmp_path: Path) -> None:
    plan = little_plan(tmp_path)
    rules = Rules(metrics=(metric_of(THROUGHPUT), metric_of("ttft_p99")), decides=(THROUGHPUT,))
    found = await run_plan(replace(plan, rules=rules), Formula({"a": 10, "b": 8}))
    assert set(found.cells[0].verdicts) == {THROUGHPUT}
    assert "give each round more requests" in found.cells[0].withheld["ttft_p99"]


async def test_answers_that_must_be_stable_and_are_not_fail_the_comparison(tmp_path: Path) -> None:
    plan = little_plan(tmp_path)
    plan = replace(plan, rules=replace(plan.rules, stable=frozenset({Side.B})))
    found = await run_plan(plan, Formula({"a": 10, "b": 8}, unstable=frozenset({"b"})))
    (cell,) = found.cells
    assert (cell.texts["b"].prompts, cell.texts["b"].changed) == (4, 4)
    assert cell.texts["b"].examples
    assert cell.withheld[THROUGHPUT] == "b: 4 of 4 equal prompts got different answers, and must not"
    assert found.verdict(plan) is Status.FAILED


async def test_answers_that_differ_otherwise_are_only_counted(tmp_path: Path) -> None:
    plan = little_plan(tmp_path)
    found = await run_plan(plan, Formula({"a": 10, "b": 8}, unstable=frozenset({"b"})))
    (cell,) = found.cells
    assert cell.texts["b"].changed == 4
    assert cell.texts["a"].changed == 0
    assert cell.texts["across"].changed == cell.texts["across"].prompts > 0, "their sides stand in the texts"
    assert found.verdict(plan) is Status.DECIDED


class Deadly(Formula):
    """Kills the server that it is to read for the 26th time, and waits until its guard knows."""

    victim = ""

    async def read(self, driver: Driver, schedule: Schedule) -> Reading:
        if len(self.read_from) == 25:
            assert isinstance(driver, QuietDriver)
            self.victim = driver.name
            guard = parent_of(pid_of(driver.url))
            await status_of(driver.url, "/die")
            async with asyncio.timeout(60):
                while state_of(guard) != "Z":  # noqa: ASYNC110 - it is over, and not yet looked after
                    await asyncio.sleep(0)
        return await super().read(driver, schedule)


@dataclass
class Meeting(Heard):
    """Holds a connection of each server."""

    witness: Witness | None = None
    held: dict[str, socket.socket] = field(default_factory=dict[str, socket.socket])

    def round_ended(self, each: Round) -> None:
        if each.phase == "warm_up":
            assert self.witness is not None
            self.held[each.side] = self.witness.meet()
        super().round_ended(each)


@on_linux
async def test_a_server_that_ends_midway_is_told_and_what_was_measured_is_kept(tmp_path: Path) -> None:
    formula = Deadly({"a": 10, "b": 8})
    with witnessed() as witness:
        plan = little_plan(tmp_path)
        sides = {side: replace(spec, command=little_server(witness=witness.port)) for side, spec in plan.sides.items()}
        heard = Meeting(witness=witness)
        found = await run_plan(replace(plan, sides=sides), formula, heard)
        assert [is_gone(each) for each in heard.held.values()] == [True, True], "nothing is left running"
    assert found.status == "failed"
    assert found.error is not None
    assert "ended with status 9 in phase ab, round 26" in found.error
    assert "out of memory" in found.error
    assert found.verdict(plan) is Status.FAILED
    (cell,) = found.cells
    assert Counter(each.phase for each in cell.rounds)["ab"] == 4
    assert cell.verdicts == {}
    ends = {str(run.side): run.how for run in cell.servers}
    assert ends == {formula.victim: "exited", "b" if formula.victim == "a" else "a": "terminated"}


async def test_a_server_that_does_not_start_is_told(tmp_path: Path) -> None:
    found = await run_plan(little_plan(tmp_path, what=("answers", "fails")), Formula({"a": 10, "b": 8}))
    assert found.status == "failed"
    assert found.error is not None
    assert "fails: ended with status 1 before it answered" in found.error
    assert [run.side for run in found.cells[0].servers] == ["a", "b"]


async def test_an_address_that_goes_dead_between_cells_keeps_the_cells_before(tmp_path: Path) -> None:
    async with started(little_server(), VALUES, log=tmp_path / "own.log") as server:
        plan = little_plan(tmp_path, clients=(1, 2))
        sides = {**plan.sides, Side.A: replace(plan.sides[Side.A], command=None, url=server.url)}

        @dataclass
        class Stopping(Heard):
            def cell_ended(self, cell: CompareCell) -> None:
                server.stop()
                super().cell_ended(cell)

        found = await run_plan(replace(plan, sides=sides), Formula({"a": 10, "b": 8}), Stopping())
    assert found.error == f"{server.url}: nobody answers there; start the server, or give its command"
    assert [bool(cell.verdicts) for cell in found.cells] == [True, False]
    assert [run.side for run in found.cells[0].servers] == ["b"], "what is not ours is not stopped"


async def test_an_address_where_nobody_is_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    plan = little_plan(tmp_path)
    url = f"http://127.0.0.1:{free_port()}"
    formula = Formula({"a": 10, "b": 8})
    sides = {**plan.sides, Side.B: replace(plan.sides[Side.B], command=None, url=url)}
    with pytest.raises(ConfigError, match="nobody answers there"):
        await run_plan(replace(plan, sides=sides, num_aa_rounds=0), formula)
    assert formula.read_from == [], "nothing was started for nothing"


async def test_an_interrupt_keeps_what_was_measured(tmp_path: Path) -> None:
    found = await run_plan(little_plan(tmp_path), Formula({"a": 10, "b": 8}, stops_at=30))
    assert found.status == "interrupted"
    assert len(found.cells[0].rounds) == 31
    assert len(found.cells[0].servers) == 2


@on_linux
async def test_a_search_finds_flags_that_are_then_compared(tmp_path: Path) -> None:
    quick = ("quick",)  # an argument that the little server ignores

    class Flagged(Formula):
        async def read(self, driver: Driver, schedule: Schedule) -> Reading:
            assert isinstance(driver, QuietDriver)
            self.gaps = {"a": 10, "b": 8 if quick[0] in command_of(pid_of(driver.url)) else 12}
            return await super().read(driver, schedule)

    knob = Knob(name="speed", choices=((), quick, ("slow",)))
    plan = replace(
        little_plan(tmp_path, clients=(1, 2)),
        searches={Side.B: SearchPlan(stages=(Stage(knobs=(knob,)),), num_rounds=1)},
        num_rounds=6,
        num_aa_rounds=0,
    )
    heard = Heard()
    found = await run_plan(plan, Flagged({}), heard)
    (search,) = found.searches
    assert search.best == quick
    assert list(search.trials) == heard.trials
    assert search.setting["clients"] == 2, "the most"
    assert [cell.verdicts[THROUGHPUT].verdict for cell in found.cells] == [Verdict.BETTER] * 2
    assert all(run.command[-1] == quick[0] for cell in found.cells for run in cell.servers if run.side == "b")


async def test_a_search_in_which_nothing_starts_is_told(tmp_path: Path) -> None:
    plan = replace(
        little_plan(tmp_path, what=("answers", "fails")),
        searches={Side.B: SearchPlan(stages=(Stage(knobs=(Knob(name="x", choices=((), ("y",))),)),))},
    )
    found = await run_plan(plan, Formula({"a": 10, "b": 8}))
    assert found.status == "failed"
    assert found.error is not None
    assert "no candidate could be measured" in found.error
    assert [cell.rounds for cell in found.cells] == [()]


def test_too_few_rounds_for_any_verdict_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--rounds 4: no verdict at 95% confidence can come of less than 6"):
        replace(little_plan(tmp_path), num_rounds=4).check()


def test_a_lower_confidence_does_not_allow_fewer_rounds_than_a_drift_needs_to_be_seen(tmp_path: Path) -> None:
    plan = little_plan(tmp_path)
    with pytest.raises(ConfigError, match="--rounds 4: no verdict at 80% confidence can come of less than 6"):
        replace(plan, num_rounds=4, rules=replace(plan.rules, confidence=0.8)).check()
    with pytest.raises(ConfigError, match="--rounds 6: no verdict at 99% confidence can come of less than 8"):
        replace(plan, num_rounds=6, rules=replace(plan.rules, confidence=0.99)).check()


def test_odd_rounds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="7 rounds: use an even number"):
        replace(little_plan(tmp_path), num_rounds=7).check()


def pid_of(url: str) -> int:
    (pid,) = listening_pids("127.0.0.1", int(url.rpartition(":")[2]))
    return pid


def command_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").split("\0")


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
