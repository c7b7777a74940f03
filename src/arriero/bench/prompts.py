"""Prompts: what is sent for a request of which a workload says the tokens, or only their number.

    tokens known       they are sent as they are, or folded into the vocabulary of the asked model
    only their number  tokens by chance, unlike those of every other request from the first one on
    prefix group       the common beginning that the workload's notes speak of, then tokens of its own
    later turn         the turn before, the answer that the workload made up, then fresh tokens

Every stream of tokens that is made up begins with its own number, written in tokens, so that no prefix cache finds
anything that the workload did not put there. A text has one common word for each token: about as many tokens for most
vocabularies, and exactly as many words.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from math import gcd
from typing import Final, TypeAlias

from arriero.bench.ask import Prompt
from arriero.bench.prompts_words import WORDS
from arriero.bench.schedule_chance import chance
from arriero.workload.notes import Notes, notes_of
from arriero.workload.records import WorkloadRecord
from arriero.workload.settings import Vocabulary


class PromptForm(StrEnum):
    """How a prompt is written."""

    TOKENS = "tokens"
    TEXT = "text"
    CHAT = "chat"


class Role(StrEnum):
    """Who says a part of a prompt."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a prompt."""

    role: Role
    tokens: tuple[int, ...]


Parts: TypeAlias = tuple[Part, ...]

WORD_VOCABULARY: Final = Vocabulary(first_token=0, size=len(WORDS))
"""The vocabulary of prompts that are written as text: a token is the number of a word."""


class PromptMaker:
    """Makes the prompts of one schedule; each is made once, in the order of the records."""

    def __init__(
        self,
        records: Sequence[WorkloadRecord],
        *,
        vocabulary: Vocabulary,
        seed: int,
        salt: str = "",
        group_prefix: int | None = None,
        fold: bool = False,
    ) -> None:
        """The records give the number of streams, and the lengths that groups share.

        Args:
            records: of the schedule.
            vocabulary: which tokens are made up.
            seed: of the tokens.
            salt: another one gives other tokens of the same lengths.
            group_prefix: how many tokens a prefix group shares where no note says it; None: half of its shortest.
            fold: map the tokens of the workload into the vocabulary, equal ones to equal ones.
        """
        self._streams = _Streams(vocabulary, len(records), seed, salt)
        self._vocabulary = vocabulary
        self._fold = fold
        self._shared = _shared_lengths(records, group_prefix)
        self._groups: dict[str, tuple[int, ...]] = {}
        self._turns: dict[str, Parts] = {}

    def parts(self, record: WorkloadRecord) -> Parts:
        """The prompt of a record, in the parts that its notes tell apart."""
        notes = notes_of(record)
        before = self._turns.get(notes.session_id or "", ())
        if record.prompt_tokens is not None:
            parts = _split(self._folded(record.prompt_tokens), before, notes)
        elif before and notes.fresh_token_count is not None:
            parts = self._continued(before, record.prompt_token_count, notes.fresh_token_count)
        else:
            parts = self._begun(record)
        if notes.session_id is not None:
            self._turns[notes.session_id] = parts
        return parts

    def _begun(self, record: WorkloadRecord) -> Parts:
        """A prompt that continues nothing."""
        shared = min(self._shared.get(record.prefix_group or "", 0), record.prompt_token_count)
        own = self._streams.take(record.prompt_token_count - shared)
        if not shared or record.prefix_group is None:
            return (Part(Role.USER, own),)
        common = self._groups.get(record.prefix_group)
        if common is None:
            common = self._groups[record.prefix_group] = self._streams.take(self._shared[record.prefix_group])
        return (Part(Role.SYSTEM, common[:shared]), *([Part(Role.USER, own)] if own else []))

    def _continued(self, before: Parts, length: int, num_fresh: int) -> Parts:
        """The turn before, an answer that fills up, and the fresh end; a workload may also have cut the beginning."""
        num_kept = max(0, length - num_fresh)
        num_before = sum(len(part.tokens) for part in before)
        kept = _cut(before, num_kept)
        answer = self._streams.take(max(0, num_kept - num_before))
        fresh = self._streams.take(min(num_fresh, length))
        made = (Part(Role.ASSISTANT, answer), Part(Role.USER, fresh))
        return (*kept, *(part for part in made if part.tokens))

    def _folded(self, tokens: Iterable[int]) -> tuple[int, ...]:
        if not self._fold:
            return tuple(tokens)
        first, size = self._vocabulary.first_token, self._vocabulary.size
        return tuple(first + token % size for token in tokens)


def write(parts: Parts, form: PromptForm) -> Prompt:
    """A prompt in the form in which it is sent; a text has a word for each token."""
    match form:
        case PromptForm.TOKENS:
            return tuple(token for part in parts for token in part.tokens)
        case PromptForm.TEXT:
            return " ".join(_words(part.tokens) for part in parts if part.tokens)
        case PromptForm.CHAT:
            return tuple(_message(part) for part in parts)


def _message(part: Part) -> Mapping[str, str]:
    return {"role": str(part.role), "content": _words(part.tokens)}


def _words(tokens: Iterable[int]) -> str:
    return " ".join(WORDS[token % len(WORDS)] for token in tokens)


class _Streams:
    """Tokens by chance; each stream begins with its number in digits of the vocabulary's size.

    The digits are moved about by a rule that never maps two to one, so that streams of different seeds look unlike.
    """

    def __init__(self, vocabulary: Vocabulary, num_streams: int, seed: int, salt: str) -> None:
        self._vocabulary = vocabulary
        self._seed, self._salt = seed, salt
        self._taken = 0
        self._num_digits = 1
        # a request takes at most three streams: a beginning, an answer, an end
        while vocabulary.size**self._num_digits < 3 * num_streams:
            self._num_digits += 1
        rng = chance(seed, "streams", salt=salt)
        self._factor = _coprime(rng.randrange(1, vocabulary.size), vocabulary.size)
        self._offset = rng.randrange(vocabulary.size)

    def take(self, length: int) -> tuple[int, ...]:
        """The next stream's first tokens; one of no length takes no number."""
        if length == 0:
            return ()
        number = self._taken
        self._taken += 1
        first, size = self._vocabulary.first_token, self._vocabulary.size
        head = [first + digit for digit in islice(self._digits(number, size), length)]
        rng = chance(self._seed, "prompt", number, self._salt)
        return (*head, *rng.choices(range(first, first + size), k=length - len(head)))

    def _digits(self, number: int, size: int) -> Iterable[int]:
        for _ in range(self._num_digits):
            number, digit = divmod(number, size)
            yield (digit * self._factor + self._offset) % size


def _coprime(factor: int, size: int) -> int:
    while gcd(factor, size) != 1:
        factor += 1
    return factor


def _shared_lengths(records: Sequence[WorkloadRecord], group_prefix: int | None) -> dict[str, int]:
    """Group → how many tokens its prompts share, where only lengths are known."""
    noted: dict[str, int] = {}
    shortest: dict[str, int] = {}
    for record in records:
        group, notes = record.prefix_group, notes_of(record)
        if group is None or record.prompt_tokens is not None or group == notes.session_id:
            continue
        length = record.prompt_token_count
        shortest[group] = min(shortest.get(group, length), length)
        if notes.fresh_token_count is not None and not notes.turn:
            noted[group] = max(noted.get(group, 0), length - notes.fresh_token_count)
    return {
        group: noted.get(group, length // 2 if group_prefix is None else group_prefix)
        for group, length in shortest.items()
    }


def _split(tokens: tuple[int, ...], before: Parts, notes: Notes) -> Parts:
    """Known tokens in parts: the turn before if they begin with it, then its answer, then what is fresh."""
    num_fresh = len(tokens) if notes.fresh_token_count is None else min(notes.fresh_token_count, len(tokens))
    num_before = sum(len(part.tokens) for part in before)
    kept = len(tokens) - num_fresh
    is_continued = bool(before) and tokens[:num_before] == write(before, PromptForm.TOKENS) and num_before <= kept
    made: tuple[Part, ...]
    if is_continued:
        made = (*before, Part(Role.ASSISTANT, tokens[num_before:kept]), Part(Role.USER, tokens[kept:]))
    else:
        made = (Part(Role.SYSTEM, tokens[:kept]), Part(Role.USER, tokens[kept:]))
    return tuple(part for part in made if part.tokens)


def _cut(parts: Parts, length: int) -> Parts:
    """The first tokens of these parts."""
    kept: list[Part] = []
    for part in parts:
        if length <= 0:
            break
        kept.append(Part(part.role, part.tokens[:length]))
        length -= len(part.tokens)
    return tuple(kept)
