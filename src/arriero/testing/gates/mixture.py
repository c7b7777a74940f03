"""Mixture: requests by chance, from a seed, as a busy day brings them.

Prompts are made of pieces of one text. Some begin like others of their family, some go on where an earlier one and its
answer ended, some are asked again word by word, and some are all their own.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from arriero.core.ids import TokenId
from arriero.testing.gates.context import NARRATIVE, GateContext
from arriero.testing.gates.solo import SoloBook

REQUESTS_A_FAMILY: Final = 12
SHARES: Final = MappingProxyType({"family": 50, "turn": 22, "again": 12, "own": 16})
"""How often a prompt is of each kind, in percent."""

NUM_TENANTS: Final = 2


class CancelAt(StrEnum):
    """When a request is cancelled."""

    ONCE = "once"  # as soon as it is submitted
    CHUNKS = "chunks"  # after so many chunks of its prompt
    TOKENS = "tokens"  # after so many tokens of its answer


class PlannedCancel(NamedTuple):
    """A cancel to come."""

    at: CancelAt
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request of a mixture.

    Attributes:
        number: its id, and its place in the mixture.
        family: whose beginning its prompt has; requests of a conversation stay in the family.
        tenant: who asks.
        after: the request that has to end before it is asked, or None.
        cancel: when it is cancelled, or None.
    """

    number: int
    prompt: tuple[TokenId, ...]
    max_tokens: int
    family: int
    tenant: int
    after: int | None = None
    cancel: PlannedCancel | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureSize:
    """How long prompts and answers are, and how often one is cancelled.

    Attributes:
        prompts: shortest and longest prompt.
        prefixes: shortest and longest beginning of a family.
        answers: fewest and most tokens.
        cancelled: share of requests that are cancelled, in percent.
        families: how many there are in all; None: more and more of them, as requests are made.
    """

    prompts: tuple[int, int] = (8, 400)
    prefixes: tuple[int, int] = (16, 260)
    answers: tuple[int, int] = (4, 40)
    cancelled: int = 15
    families: int | None = None

    @property
    def positions(self) -> int:
        """What a sequence has to hold."""
        return self.prompts[1] + self.answers[1]


class MixtureMaker:
    """Makes one request after another; the same seed gives the same ones."""

    def __init__(self, context: GateContext, solo: SoloBook, size: MixtureSize, chance: random.Random) -> None:
        """Conversations go on after the answers in `solo`, where every request is answered as it is made."""
        self._text = context.backends.vocabulary.encode(NARRATIVE, add_special=False, parse_special=False)
        self._solo = solo
        self._size = size
        self._chance = chance
        self._prefixes: list[tuple[TokenId, ...]] = []

    async def make(self, first: int, number: int) -> list[Asked]:
        """So many requests, numbered from `first` on; families are those made so far and new ones."""
        families = self._size.families
        wanted = len(self._prefixes) + max(1, number // REQUESTS_A_FAMILY) if families is None else families
        while len(self._prefixes) < wanted:
            self._prefixes.append(self._words(self._chance.randint(*self._size.prefixes)))
        made: list[Asked] = []
        for request_id in range(first, first + number):
            made.append(await self._one(request_id, made))
        return made

    async def _one(self, number: int, made: Sequence[Asked]) -> Asked:
        chance, size = self._chance, self._size
        kind = chance.choices(list(SHARES), list(SHARES.values()))[0]
        earlier = chance.choice(made) if made else None
        max_tokens = chance.randint(*size.answers)
        family, tenant, after = chance.randrange(len(self._prefixes)), chance.randrange(NUM_TENANTS), None
        if kind == "turn" and earlier is not None:
            prompt = await self._next_turn(earlier)
            family, tenant, after = earlier.family, earlier.tenant, earlier.number
        elif kind == "again" and earlier is not None:
            prompt, family = earlier.prompt, earlier.family
            max_tokens = min(max_tokens, earlier.max_tokens)
        elif kind == "own":
            prompt = self._words(chance.randint(*size.prompts))
        else:
            prompt = (*self._prefixes[family], *self._words(chance.randint(1, 60)))
        prompt = prompt[: size.prompts[1]]
        await self._solo.answer(prompt, max_tokens)
        return Asked(
            number=number,
            prompt=prompt,
            max_tokens=max_tokens,
            family=family,
            tenant=tenant,
            after=after,
            cancel=self._cancel(max_tokens),
        )

    async def _next_turn(self, earlier: Asked) -> tuple[TokenId, ...]:
        """What a conversation asks next: all that was said so far, and something new."""
        said = await self._solo.answer(earlier.prompt, earlier.max_tokens)
        return (*earlier.prompt, *said.tokens[: earlier.max_tokens], *self._words(self._chance.randint(1, 40)))

    def _words(self, length: int) -> tuple[TokenId, ...]:
        """So many tokens, made of pieces of the text."""
        words: list[TokenId] = []
        while len(words) < length:
            start = self._chance.randrange(len(self._text))
            words.extend(self._text[start : start + self._chance.randint(3, 25)])
        return tuple(words[:length])

    def _cancel(self, max_tokens: int) -> PlannedCancel | None:
        if self._chance.randrange(100) >= self._size.cancelled:
            return None
        at = self._chance.choice(list(CancelAt))
        number = {CancelAt.ONCE: 0, CancelAt.CHUNKS: 1, CancelAt.TOKENS: self._chance.randint(1, max_tokens)}[at]
        return PlannedCancel(at, number)
