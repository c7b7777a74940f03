"""The four workloads of prefix reuse, as turns of sessions; texts come from the definition.

chat            each turn's prompt is the previous prompt, its answer, and a new question
long-sys        one long common beginning, another question each time
repeat-prefix   one sentence many times, then a number
control         short, distinct, nothing shared, not even a first word
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest

import msgspec

from arriero.core.errors import ConfigError
from arriero.record.strict import Name, Positive


class Workload(StrEnum):
    """Which of them."""

    CHAT = "chat"
    LONG_SYS = "long-sys"
    REPEAT_PREFIX = "repeat-prefix"
    CONTROL = "control"


class Texts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What prompts are made of; a definition gives those that its workload needs.

    Attributes:
        passages: long ones, of which beginnings are made.
        questions: short ones, taken in turns.
        repeated: the sentence of the workload repeat-prefix.
        repeats: how often it stands there.
        nouns: first words of the workload control, one for each request, and no two begin alike.
    """

    passages: tuple[Name, ...] = ()
    questions: tuple[Name, ...] = ()
    repeated: str = ""
    repeats: Positive = 1
    nouns: tuple[Name, ...] = ()

    def check(self, workload: Workload, num_requests: int) -> None:
        """Refuse texts that cannot make this workload.

        Raises:
            ConfigError: names what is missing.
        """
        needs: dict[Workload, dict[str, int]] = {
            Workload.CHAT: {"passages": 2, "questions": 1},
            Workload.LONG_SYS: {"passages": 1, "questions": 1},
            Workload.REPEAT_PREFIX: {"repeated": 1},
            Workload.CONTROL: {"nouns": num_requests},
        }
        there = {
            "passages": len(set(self.passages)),
            "questions": len(set(self.questions)),
            "repeated": int(bool(self.repeated)),
            "nouns": len(set(self.nouns)),
        }
        for field, least in needs[workload].items():
            if there[field] < least:
                raise ConfigError(f"texts.{field}: {there[field]} of them, all unlike; {workload} needs {least}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One request.

    Attributes:
        name: unique in its workload.
        session: its stable session.
        text: the whole prompt, or what follows the session's last prompt and answer.
        continues: which of the two.
        is_warm_up: in no figure.
    """

    name: str
    session: str
    text: str
    continues: bool = False
    is_warm_up: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSize:
    """How much of each.

    Attributes:
        measured: requests.
        warm_ups: requests before them, of sessions of their own.
        turns: of a session of the workload chat.
        interleaved: sessions of it that take turns.
    """

    measured: int
    warm_ups: int
    turns: int
    interleaved: int


def turns_of(workload: Workload, texts: Texts, size: WorkloadSize) -> list[Turn]:
    """The turns in the order in which they are asked, warm-ups first."""
    make = {
        Workload.CHAT: _chat,
        Workload.LONG_SYS: _long_sys,
        Workload.REPEAT_PREFIX: _repeat_prefix,
        Workload.CONTROL: _control,
    }[workload]
    return list(make(texts, size))


def _chat(texts: Texts, size: WorkloadSize) -> Iterator[Turn]:
    yield from _session(texts, 0, size.warm_ups, is_warm_up=True)
    num_sessions = -(-size.measured // size.turns)
    sessions = [list(_session(texts, 1 + number, size.turns)) for number in range(num_sessions)]
    turns: list[Turn] = []
    for start in range(0, num_sessions, size.interleaved):
        group = sessions[start : start + size.interleaved]
        turns += [turn for together in zip_longest(*group) for turn in together if turn is not None]
    yield from turns[: size.measured]


def _session(texts: Texts, number: int, num_turns: int, *, is_warm_up: bool = False) -> Iterator[Turn]:
    """One conversation; its first words are no other's."""
    session = f"chat-{number}"
    passages = [_at(texts.passages, number), _at(texts.passages, number + 1)]
    opening = f"Conversation {number}.\n" + "\n".join(passages)
    for turn in range(num_turns):
        question = f"\nUser: {_at(texts.questions, number + turn)}\nAssistant:"
        yield Turn(
            name=f"{session}-{turn}",
            session=session,
            text=question if turn else opening + question,
            continues=turn > 0,
            is_warm_up=is_warm_up,
        )


def _long_sys(texts: Texts, size: WorkloadSize) -> Iterator[Turn]:
    beginning = "\n".join(texts.passages)
    for index, name, is_warm_up in _numbers("long-sys", size):
        tail = f"\nUser {index}: {_at(texts.questions, index)}\nAssistant:"
        yield Turn(name=name, session="long-sys", text=beginning + tail, is_warm_up=is_warm_up)


def _repeat_prefix(texts: Texts, size: WorkloadSize) -> Iterator[Turn]:
    beginning = " ".join([texts.repeated] * texts.repeats)
    for index, name, is_warm_up in _numbers("repeat-prefix", size):
        text = f"{beginning} Variation {index}. Continue:"
        yield Turn(name=name, session="repeat-prefix", text=text, is_warm_up=is_warm_up)


def _control(texts: Texts, size: WorkloadSize) -> Iterator[Turn]:
    for index, name, is_warm_up in _numbers("control", size):
        text = f"{_at(texts.nouns, index)}, and why it matters:"
        yield Turn(name=name, session=name, text=text, is_warm_up=is_warm_up)


def _numbers(word: str, size: WorkloadSize) -> Iterator[tuple[int, str, bool]]:
    """Index, name and whether it is a warm-up; those come first and have the last indices."""
    for number in range(size.warm_ups):
        yield size.measured + number, f"{word}-warm-up-{number}", True
    for index in range(size.measured):
        yield index, f"{word}-{index}", False


def _at(texts: Sequence[str], index: int) -> str:
    return texts[index % len(texts)]
