"""The same workload through the live actor and through the simulator gives the same journal, byte by byte.

And that journal, replayed, gives the same decisions.
"""

import os
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.backend.synthetic import SyntheticOptions
from arriero.core.choices import PolicyWord
from arriero.core.events import CancelById, CancelByToken, CancelEverything
from arriero.core.ids import Epoch, RequestId
from arriero.core.request import CancelReason, Request
from arriero.engine.options import EngineOptions
from arriero.kv.reuse import ReuseRules
from arriero.record.journal_reader import read_lines
from arriero.scheduler.draft import PrefillBudget
from arriero.scheduler.policy_spec import PolicySpec
from arriero.sim.replay import replay
from arriero.sim.simulator import Cancellation, Message, Submission
from arriero.testing.strategies import Pick, hypothesis_pick, pick_swap_rule
from tests.equivalence.worlds import Kind, World, live_journal, simulated_journal

Script: TypeAlias = Mapping[int, Sequence[int]]

END_TOKENS = frozenset({7})
KINDS: tuple[Kind, ...] = ("no_room", "interrupted", "one_bad", "all_bad")
LIMIT = 48  # positions of one sequence
LONG_LIMIT = 160  # where prefixes are reused: a follower waits for 32 rows and more
SCOPES = (None, "a", "a", "a", "b")
TENANTS = (None, "x", "x", "y")


@dataclass(frozen=True)
class Kinds:
    """Which worlds are picked."""

    unified: bool = False
    exact: bool = False
    reuse: bool = False

    @property
    def limit(self) -> int:
        """Positions of one sequence."""
        return LONG_LIMIT if self.reuse else LIMIT

    @property
    def name(self) -> str:
        """For people."""
        words = [
            "unified" if self.unified else "separate",
            "exact" if self.exact else "",
            "reuse" if self.reuse else "",
        ]
        return " ".join(filter(None, words))


WORLDS = [
    Kinds(),
    Kinds(unified=True),
    Kinds(exact=True),  # exact mode needs a stream for each sequence
    Kinds(reuse=True),
    Kinds(unified=True, reuse=True),
    Kinds(exact=True, reuse=True),
]


def pick_prompt(pick: Pick, earlier: list[tuple[int, ...]], limit: int) -> tuple[int, ...]:
    """Fresh tokens, often after the beginning of an earlier prompt, or of that and its answer."""
    begin: tuple[int, ...] = ()
    if earlier and pick(0, 2):
        before = earlier[pick(0, len(earlier) - 1) if pick(0, 2) else 0]
        begin = before[: pick(0, len(before))] if pick(0, 3) else before
    prompt = begin + tuple(pick(0, 5) for _ in range(pick(0 if begin else 1, limit * 2 // 5)))
    return prompt[: limit // 2]


def pick_messages(pick: Pick, count: int, horizon_us: int, script: Script, limit: int) -> list[Message]:
    """Submissions whose ids live again, with deadlines and end tokens or without, and cancels of all kinds."""
    family = tuple(pick(0, 5) for _ in range(limit // 3))
    prompts: list[tuple[int, ...]] = [family] if limit > LIMIT else []
    times = sorted(pick(0, 15) * horizon_us // 15 if pick(0, 2) == 2 else pick(0, horizon_us) for _ in range(count))
    num_preloaded = pick(0, 3) if pick(0, 1) else 0
    messages: list[Message] = []
    for index, time in enumerate(times):
        preloaded = index < num_preloaded
        prompt = pick_prompt(pick, prompts, limit)
        request_id = RequestId(index + 1 if preloaded else pick(1, count))
        prompts += [prompt, (*prompt, *script[request_id])]
        at = 0 if preloaded else time
        max_tokens = pick(1, LIMIT // 2)
        request = Request(
            request_id=request_id,
            prompt=prompt,
            max_tokens=max_tokens,
            arrival_at=at,
            epoch=Epoch(index + 1),
            end_tokens=END_TOKENS if pick(0, 1) else frozenset(),
            min_tokens=pick(0, min(3, max_tokens)),
            expires_at=at + 1000 * pick(0, 60) if pick(0, 4) == 4 else None,
            preloaded=preloaded,
            cache_scope=SCOPES[pick(0, len(SCOPES) - 1)],
            priority=pick(0, 2) - 1,
            deadline_at=at + 1000 * pick(0, 90) if pick(0, 2) == 2 else None,
            start_by=at + 1000 * pick(0, 90) if pick(0, 7) == 7 else None,
            tenant=TENANTS[pick(0, len(TENANTS) - 1)],
        )
        messages.append(Submission(request))
        if pick(0, 2) == 2:
            target = CancelById(request_id) if pick(0, 1) else CancelByToken(request_id, Epoch(index + 1))
            reason = list(CancelReason)[pick(0, 2)]
            messages.append(Cancellation(replace(target, reason=reason), max(0, at + pick(-4000, 30_000))))
    if pick(0, 4) == 4:
        messages.append(Cancellation(CancelEverything(), pick(0, horizon_us)))
    return sorted(messages, key=lambda message: message.at)


def pick_reuse(pick: Pick, *, exact: bool) -> ReuseRules:
    """Any rules; memory and store are so small that runs push each other out."""
    return ReuseRules(
        per_session=pick(0, 3) == 3,
        partial=pick(0, 4) > 0,
        min_partial=pick(1, 8),
        regenerate=pick(0, 3) > 0,
        keeps_answers=not exact and pick(0, 3) > 0,
        min_suffix=2 if exact else pick(1, 2),
        max_retained=pick(0, 4) if pick(0, 3) == 3 else None,
        max_age=1000 * pick(1, 200) if pick(0, 3) == 3 else None,
        host_tokens=pick(20, 600) if pick(0, 1) else 0,
        min_restored=pick(1, 16),
        follows=pick(0, 4) > 0,
    )


def pick_policy(pick: Pick, kinds: Kinds) -> PolicySpec:
    """Any policy, mostly the usual one; waiting is worth as much as some steps take."""
    words = [word for word in PolicyWord if kinds.reuse or word is not PolicyWord.LONGEST_MATCH]
    number = pick(0, 2 * len(words) - 1)
    word = words[number] if number < len(words) else PolicyWord.FCFS
    return PolicySpec(word=word.value, ageing=1000 * pick(0, 40))


def pick_world(pick: Pick, count: int, horizon_us: int, kinds: Kinds) -> World:
    """A memory so small that requests get in each other's way."""
    num_running, retained, limit = pick(2, 6), pick(0, 3) if kinds.reuse else 0, kinds.limit
    num_sequences = num_running + retained
    num_cells = limit + pick(0, limit) if kinds.unified else limit * num_sequences
    cap = pick(3, 12)
    script = {number: [pick(0, 7) for _ in range(pick(0, 12))] for number in range(1, count + 1)}
    world = World(
        memory=SyntheticOptions(
            num_sequences=num_sequences,
            num_rows=num_sequences + pick(3, 30),
            micro_batch=pick(3, 16),
            num_cells=num_cells,
            unified=kinds.unified,
            vocab_size=10,
            end_tokens=END_TOKENS,
        ),
        options=EngineOptions(
            budget=PrefillBudget(cap if pick(0, 2) == 2 else None, cap if pick(0, 2) == 2 else None),
            exact=kinds.exact,
            check=True,
            headroom_per_sequence=pick(0, 2),
            published_pools=None if kinds.reuse else (None, True, False)[pick(0, 2)],
            retained=retained,
            reuse=pick_reuse(pick, exact=kinds.exact) if kinds.reuse else None,
            policy=pick_policy(pick, kinds),
        ),
        messages=pick_messages(pick, count, horizon_us, script, limit),
        script=script,
        faults={pick(1, 200): KINDS[pick(0, 3)] for _ in range(pick(0, 8))},
    )
    swap = pick_swap_rule(pick) if pick(0, 2) else None
    swap_tokens, displaces = pick(0, 2 * limit), pick(0, 1) == 1
    return replace(world, options=replace(world.options, swap=swap, swap_tokens=swap_tokens, displaces=displaces))


def check_equal(world: World) -> bytes:
    """Both journals are equal and can be replayed; returns their bytes."""
    live, simulated = live_journal(world), simulated_journal(world)
    for one, other in zip(live, simulated, strict=False):
        assert one == other
    assert len(live) == len(simulated)
    report = replay(read_lines(live), check=True)
    assert (report.runs, report.unfinished) == (1, 0)
    return b"\n".join(live)


@pytest.mark.parametrize("kinds", WORLDS, ids=lambda kinds: kinds.name)
@given(data=st.data())
def test_random_workloads_give_the_same_journal_in_both_worlds(data: st.DataObject, kinds: Kinds) -> None:
    pick = hypothesis_pick(data.draw)
    check_equal(pick_world(pick, pick(1, 12), pick(0, 100_000), kinds))


@pytest.mark.parametrize("kinds", WORLDS, ids=lambda kinds: kinds.name)
def test_hundreds_of_requests_give_the_same_journal_in_both_worlds(kinds: Kinds) -> None:
    seen = b""
    for seed in range(6 if kinds.reuse else 3):
        pick = random.Random(f"{seed} {kinds.name}").randint
        world = pick_world(pick, 150 if kinds.reuse else 300, 600_000 if kinds.reuse else 1_500_000, kinds)
        options = world.options
        if seed % 2 == 0:
            options = replace(options, policy=PolicySpec(word="priority", ageing=20_000), displaces=True)
        faults = {20 + 9 * index: KINDS[index % 4] for index in range(16)}
        seen += check_equal(replace(world, options=options, faults=faults))
    words = ["cancel_observed", "timeout", "stop", "length", "no_room", "interrupted", "decode_failed", "rejected"]
    words += ["displaced", "swapped_out", "swapped_in"]
    words += ["preempted"] if kinds.unified else []
    words += ["reused", "save", "restore", "tree", "host", "prefix", "answers"] if kinds.reuse else []
    words += ["copy", "running"] if kinds.reuse else []
    words += ["moved"] if kinds.reuse and not kinds.unified else []
    for word in words:
        assert f'"{word}"'.encode() in seen, f"the workloads are too tame to show anything: no {word}"


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
    assert first.count(b'"kind":"end"') == 2 * 2 * len(WORLDS)
