"""Comparisons of real processes with the real load generator: null servers whose delays are known."""

import asyncio
import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from arriero.bench.client import HttpTarget
from arriero.bench.client_options import HttpOptions
from arriero.bench.compare import Compared, compare
from arriero.bench.compare_instrument import Generator
from arriero.bench.compare_metrics import metric_of
from arriero.bench.compare_plan import ComparePlan, HoldOptions, LoadOptions, cells_of
from arriero.bench.compare_sides import SideSpec
from arriero.bench.compare_verdicts import Rules
from arriero.bench.prompts import PromptForm
from arriero.bench.rounds import Side
from arriero.bench.runner import LiveDriver
from arriero.bench.runner_points import Rules as PointRules
from arriero.bench.schedule_work import fixed_work
from arriero.bench.servers_commands import split_command
from arriero.metrics.paired_verdict import Verdict
from arriero.metrics.validity import ValidityLimits
from arriero.record.bench_compare_parts import Round
from tests.unit.bench.compare_rig import Heard

THROUGHPUT, ITL = "output_throughput", "itl_p50"


def null_side(name: str, *, gap_s: float) -> SideSpec:
    words = f"{{python}} -m arriero.bench.null_server --port {{port}} --first-s 0.002 --gap-s {gap_s} --chunks 8"
    return SideSpec(name=name, command=split_command(words, name="null", origin="--a-command"))


def null_plan(logs: Path, *, gap_a: float, gap_b: float) -> ComparePlan:
    return ComparePlan(
        sides={Side.A: null_side("slow", gap_s=gap_a), Side.B: null_side("quick", gap_s=gap_b)},
        cells=cells_of(
            [fixed_work(prompt_tokens=4, max_tokens=8, count=6)],
            [2],
            slots=None,
            slot_context=None,
            form=PromptForm.TOKENS,
        ),
        rules=Rules(metrics=(metric_of(THROUGHPUT), metric_of(ITL)), decides=(THROUGHPUT, ITL), stable=frozenset(Side)),
        load=LoadOptions(num_requests=6),
        hold=HoldOptions(logs=logs),
        num_rounds=6,
        num_aa_rounds=6,
    )


def quick_driver(url: str, side: SideSpec, server_pids: tuple[int, ...]) -> LiveDriver:
    """A client that does not look at the machine first."""
    return LiveDriver(HttpTarget(url, HttpOptions(fields=side.fields)), server_pids=server_pids, look_s=None)


async def run_plan(plan: ComparePlan, heard: Heard | None = None) -> Compared:
    # a busy machine is no fault of a test: the generator may be held up for as long as it takes
    rules = PointRules(limits=ValidityLimits(blocked_ns=10**12), keep_raw=False)
    return await compare(plan, Generator(rules, asyncio.Event()), quick_driver, heard or Heard())


@pytest.mark.slow
async def test_a_server_with_half_the_delay_is_better(tmp_path: Path) -> None:
    found = await run_plan(null_plan(tmp_path, gap_a=0.01, gap_b=0.004))
    (cell,) = found.cells
    assert found.error is None
    assert cell.withheld == {}
    assert cell.verdicts[ITL].verdict is Verdict.BETTER, cell.verdicts[ITL].reasons
    # a busy machine may make throughput jump between two levels, which is no verdict, and never a wrong one
    assert cell.verdicts[THROUGHPUT].verdict in {Verdict.BETTER, Verdict.NO_VERDICT}, cell.verdicts[THROUGHPUT].reasons
    ratio = cell.verdicts[ITL].median_ratio
    assert ratio is not None
    assert 0.3 < ratio < 0.7
    assert cell.texts["a"].prompts == 6
    assert cell.texts["across"].changed == 0
    assert all(each.point.summary.counts.finished == 6 for each in cell.rounds)


@pytest.mark.slow
async def test_the_same_server_twice_is_not_better_or_worse(tmp_path: Path) -> None:
    found = await run_plan(null_plan(tmp_path, gap_a=0.004, gap_b=0.004))
    assert found.cells[0].verdicts[THROUGHPUT].verdict in {Verdict.NOT_RESOLVED, Verdict.NO_VERDICT}
    assert found.cells[0].floors[THROUGHPUT].value > 0


@dataclass
class Killer(Heard):
    """Kills the server of side B after its third round of the comparison."""

    num_killed: int = 0

    def round_ended(self, each: Round) -> None:
        super().round_ended(each)
        if (each.phase, each.pair, each.side) == ("ab", 2, "b"):
            for pid in pids_of("--gap-s", "0.0123"):
                os.kill(pid, signal.SIGKILL)
                self.num_killed += 1


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes through /proc")
async def test_a_server_that_is_killed_midway_ends_the_comparison_with_its_name(tmp_path: Path) -> None:
    killer = Killer()
    plan = null_plan(tmp_path, gap_a=0.0124, gap_b=0.0123)
    found = await run_plan(replace(plan, num_aa_rounds=2), killer)
    assert killer.num_killed == 1, "the guard's own command line begins otherwise"
    assert found.status == "failed"
    assert found.error is not None
    assert "null: ended with signal 9 in phase ab" in found.error
    assert len([each for each in found.cells[0].rounds if each.phase == "ab"]) >= 6
    assert pids_of("--gap-s", "0.0124") == [], "nothing is left running"


def pids_of(flag: str, value: str) -> list[int]:
    """Null servers of this process's family that carry a flag."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_text(encoding="utf-8").split("\0")
        except OSError:
            continue
        if words[1:3] == ["-m", "arriero.bench.null_server"] and value in words and flag in words:
            found.append(int(path.parent.name))
    return found
