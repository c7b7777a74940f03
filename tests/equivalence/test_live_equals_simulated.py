"""The same workload through the live actor and through the simulator gives the same journal, byte by byte.

And that journal, replayed, gives the same decisions.
"""

import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.backend.synthetic import SyntheticOptions
from arriero.core.events import CancelById, CancelByToken, CancelEverything
from arriero.core.ids import Epoch, RequestId
from arriero.core.request import CancelReason, Request
from arriero.engine.options import EngineOptions
from arriero.record.journal_reader import read_lines
from arriero.scheduler.draft import PrefillBudget
from arriero.sim.replay import replay
from arriero.sim.simulator import Cancellation, Message, Submission
from arriero.testing.strategies import Pick, hypothesis_pick
from tests.equivalence.worlds import Kind, World, live_journal, simulated_journal

END_TOKENS = frozenset({7})
KINDS: tuple[Kind, ...] = ("no_room", "interrupted", "one_bad", "all_bad")
LIMIT = 48  # positions of one sequence


def pick_prompt(pick: Pick, earlier: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Fresh tokens, often after the beginning of an earlier prompt."""
    begin: tuple[int, ...] = ()
    if earlier and pick(0, 2):
        before = earlier[pick(0, len(earlier) - 1)]
        begin = before[: pick(0, len(before))]
    prompt = begin + tuple(pick(0, 5) for _ in range(pick(0 if begin else 1, 20)))
    return prompt[: LIMIT // 2]


def pick_messages(pick: Pick, count: int, horizon_us: int) -> list[Message]:
    """Submissions whose ids live again, with deadlines and end tokens or without, and cancels of all kinds."""
    prompts: list[tuple[int, ...]] = []
    times = sorted(pick(0, horizon_us) for _ in range(count))
    num_preloaded = pick(0, 3) if pick(0, 1) else 0
    messages: list[Message] = []
    for index, time in enumerate(times):
        preloaded = index < num_preloaded
        prompts.append(pick_prompt(pick, prompts))
        request_id = RequestId(index + 1 if preloaded else pick(1, count))
        at = 0 if preloaded else time
        max_tokens = pick(1, LIMIT // 2)
        request = Request(
            request_id=request_id,
            prompt=prompts[-1],
            max_tokens=max_tokens,
            arrival_at=at,
            epoch=Epoch(index + 1),
            end_tokens=END_TOKENS if pick(0, 1) else frozenset(),
            min_tokens=pick(0, min(3, max_tokens)),
            expires_at=at + 1000 * pick(0, 60) if pick(0, 4) == 4 else None,
            preloaded=preloaded,
        )
        messages.append(Submission(request))
        if pick(0, 2) == 2:
            target = CancelById(request_id) if pick(0, 1) else CancelByToken(request_id, Epoch(index + 1))
            reason = list(CancelReason)[pick(0, 2)]
            messages.append(Cancellation(replace(target, reason=reason), max(0, at + pick(-4000, 30_000))))
    if pick(0, 4) == 4:
        messages.append(Cancellation(CancelEverything(), pick(0, horizon_us)))
    return sorted(messages, key=lambda message: message.at)


def pick_world(pick: Pick, count: int, horizon_us: int, *, unified: bool, exact: bool) -> World:
    """A memory so small that requests get in each other's way."""
    num_sequences = pick(2, 6)
    num_cells = LIMIT + pick(0, LIMIT) if unified else LIMIT * num_sequences
    cap = pick(3, 12)
    return World(
        memory=SyntheticOptions(
            num_sequences=num_sequences,
            num_rows=num_sequences + pick(3, 30),
            micro_batch=pick(3, 16),
            num_cells=num_cells,
            unified=unified,
            vocab_size=10,
            end_tokens=END_TOKENS,
        ),
        options=EngineOptions(
            budget=PrefillBudget(cap if pick(0, 2) == 2 else None, cap if pick(0, 2) == 2 else None),
            exact=exact,
            check=True,
            headroom_per_sequence=pick(0, 2),
            published_pools=(None, True, False)[pick(0, 2)],
        ),
        messages=pick_messages(pick, count, horizon_us),
        script={number: [pick(0, 7) for _ in range(pick(0, 12))] for number in range(1, count + 1)},
        faults={pick(1, 200): KINDS[pick(0, 3)] for _ in range(pick(0, 8))},
    )


def check_equal(world: World) -> bytes:
    """Both journals are equal and can be replayed; returns their bytes."""
    live, simulated = live_journal(world), simulated_journal(world)
    for one, other in zip(live, simulated, strict=False):
        assert one == other
    assert len(live) == len(simulated)
    report = replay(read_lines(live), check=True)
    assert (report.runs, report.unfinished) == (1, 0)
    return b"\n".join(live)


@pytest.mark.parametrize(
    ("unified", "exact"),
    [(False, False), (True, False), (False, True)],  # exact mode needs a stream for each sequence
)
@given(data=st.data())
def test_random_workloads_give_the_same_journal_in_both_worlds(data: st.DataObject, unified: bool, exact: bool) -> None:  # noqa: FBT001 - a table
    pick = hypothesis_pick(data.draw)
    check_equal(pick_world(pick, pick(1, 12), pick(0, 100_000), unified=unified, exact=exact))


@pytest.mark.parametrize(("unified", "exact"), [(False, False), (True, False), (False, True)])
def test_hundreds_of_requests_give_the_same_journal_in_both_worlds(unified: bool, exact: bool) -> None:  # noqa: FBT001 - a table
    seen = b""
    for seed in range(3):
        pick = random.Random(f"{seed} {unified} {exact}").randint
        world = pick_world(pick, 300, 1_500_000, unified=unified, exact=exact)
        seen += check_equal(replace(world, faults={20 + 9 * index: KINDS[index % 4] for index in range(16)}))
    words = ["cancel_observed", "timeout", "stop", "length", "no_room", "interrupted", "decode_failed", "rejected"]
    for word in [*words, *(["preempted"] if unified else [])]:
        assert word.encode() in seen, f"the workloads are too tame to show anything: no {word}"


def test_the_same_workloads_under_two_hash_seeds_give_the_same_journals(root: Path) -> None:
    programs = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.equivalence.dump_journals"],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
        )
        for seed in ("1", "271828")
    ]
    first, second = (program.communicate()[0] for program in programs)
    assert [program.returncode for program in programs] == [0, 0]
    assert first == second
    assert first.count(b'"kind":"end"') == 12
