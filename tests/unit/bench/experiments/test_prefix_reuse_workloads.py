"""The workloads of prefix reuse: what is shared, and what is not."""

from collections.abc import Sequence
from itertools import pairwise, takewhile

import pytest

from arriero.bench.experiments.definition import read_definition
from arriero.bench.experiments.prefix_reuse import W_CHAT, W_CONTROL, W_LONG_SYS, W_REPEAT_PREFIX
from arriero.bench.experiments.prefix_reuse_workloads import Texts, Turn, Workload, WorkloadSize, turns_of
from arriero.core.errors import ConfigError
from tests.unit.bench.experiments.running import definition

TEXTS = {
    workload: read_definition(definition(experiment), experiment.config).texts
    for workload, experiment in (
        (Workload.CHAT, W_CHAT),
        (Workload.LONG_SYS, W_LONG_SYS),
        (Workload.REPEAT_PREFIX, W_REPEAT_PREFIX),
        (Workload.CONTROL, W_CONTROL),
    )
}
SIZE = WorkloadSize(measured=40, warm_ups=2, turns=8, interleaved=2)


def shared(texts: Sequence[str]) -> str:
    """What all of them begin with."""
    return "".join(each[0] for each in takewhile(lambda letters: len(set(letters)) == 1, zip(*texts, strict=False)))


def made(workload: Workload, size: WorkloadSize = SIZE) -> list[Turn]:
    return turns_of(workload, TEXTS[workload], size)


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
    first_letters = [turn.text[0] for turn in turns]
    assert len(set(first_letters)) == len(turns), "so that no two prompts have a first token in common"


@pytest.mark.parametrize(
    ("workload", "texts", "field"),
    [
        (Workload.CHAT, Texts(passages=("one",), questions=("why?",)), "passages"),
        (Workload.LONG_SYS, Texts(passages=("one",)), "questions"),
        (Workload.REPEAT_PREFIX, Texts(), "repeated"),
        (Workload.CONTROL, Texts(nouns=("Tides", "Tides")), "nouns"),
    ],
)
def test_texts_that_cannot_make_the_workload_are_refused(workload: Workload, texts: Texts, field: str) -> None:
    with pytest.raises(ConfigError, match=f"texts.{field}"):
        texts.check(workload, 2)
