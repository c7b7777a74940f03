"""The workloads of prefix reuse: what is shared, and what is not."""

from collections.abc import Sequence
from itertools import pairwise, takewhile

import pytest

from arriero.bench.experiments.definition import read_definition
from arriero.bench.experiments.prefix_reuse import EXPERIMENT
from arriero.bench.experiments.prefix_reuse_workloads import Turn, Workload, WorkloadSize, turns_of
from tests.unit.bench.experiments.running import definition

CONFIG = read_definition(definition(EXPERIMENT), EXPERIMENT.config)
SIZE = WorkloadSize(measured=40, warm_ups=2, turns=8, interleaved=2)


def shared(texts: Sequence[str]) -> str:
    """What all of them begin with."""
    return "".join(each[0] for each in takewhile(lambda letters: len(set(letters)) == 1, zip(*texts, strict=False)))


def made(workload: Workload, size: WorkloadSize = SIZE) -> list[Turn]:
    return turns_of(workload, CONFIG.texts, size)


@pytest.mark.parametrize("workload", list(Workload))
def test_warm_ups_come_first_and_every_name_is_its_own(workload: Workload) -> None:
    turns = made(workload)
    assert [turn.is_warm_up for turn in turns] == [True] * 2 + [False] * 40
    assert len({turn.name for turn in turns}) == len(turns)
    assert made(workload) == turns


def test_every_later_turn_of_a_chat_continues_its_session() -> None:
    turns = [turn for turn in made(Workload.CHAT) if not turn.is_warm_up]
    sessions: dict[str, list[Turn]] = {}
    for turn in turns:
        sessions.setdefault(turn.session, []).append(turn)
    assert [len(each) for each in sessions.values()] == [8] * 5
    for each in sessions.values():
        assert [turn.continues for turn in each] == [False] + [True] * 7
    openings = [each[0].text for each in sessions.values()]
    # no session begins as another one does, beyond the words that all of them have
    assert all(len(shared(pair)) < 20 for pair in pairwise(openings))


def test_sessions_of_a_chat_take_turns_in_groups() -> None:
    turns = [turn for turn in made(Workload.CHAT) if not turn.is_warm_up]
    assert [turn.session for turn in turns[:4]] == ["chat-1", "chat-2", "chat-1", "chat-2"]
    alone = made(Workload.CHAT, WorkloadSize(measured=16, warm_ups=0, turns=8, interleaved=1))
    assert [turn.session for turn in alone] == ["chat-1"] * 8 + ["chat-2"] * 8


@pytest.mark.parametrize("workload", [Workload.LONG_SYS, Workload.REPEAT_PREFIX])
def test_prompts_of_a_shared_prefix_differ_only_at_their_ends(workload: Workload) -> None:
    texts = [turn.text for turn in made(workload)]
    assert len(set(texts)) == len(texts)
    common = shared(texts)
    assert all(len(common) > 0.85 * len(text) for text in texts)


def test_repeated_sentence_is_the_published_one() -> None:
    text = made(Workload.REPEAT_PREFIX)[-1].text
    assert text.count("Background reference text for the prefix-reuse benchmark.") == 40
    assert text.endswith(" Variation 39. Continue:")


def test_control_shares_nothing_worth_keeping() -> None:
    turns = made(Workload.CONTROL)
    assert len({turn.session for turn in turns}) == len(turns)
    texts = sorted(turn.text for turn in turns)
    assert max(len(shared(pair)) for pair in pairwise(texts)) < 32
