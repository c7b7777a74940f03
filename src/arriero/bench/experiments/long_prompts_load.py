"""Streams that decode, and long prompts that come beside them; what one side made of it."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from arriero.bench.ask import Ask
from arriero.bench.experiments.sides import GREEDY
from arriero.bench.target import Target
from arriero.core.errors import ConfigError
from arriero.metrics.client_latency import first_at, token_at
from arriero.metrics.client_life import ClientLife
from arriero.record.strict import Count, Positive


class LongLoad(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is sent.

    Attributes:
        streams: requests that decode from the start.
        stream_prompt, stream_budget: tokens of each of their prompts and answers.
        after_s: from the start until the long prompts are sent, seconds; the streams speak by then.
        prompts: long ones, all sent at that moment.
        prompt_tokens, prompt_budget: tokens of each of them and of their answers.
        first_token, vocabulary: ids that prompts are made of.
    """

    streams: Positive
    stream_prompt: Positive
    stream_budget: Positive
    after_s: Annotated[float, Meta(gt=0, le=60)]
    prompts: Positive
    prompt_tokens: Positive
    prompt_budget: Positive
    first_token: Count
    vocabulary: Positive

    def check(self) -> None:
        """Refuse what cannot be made.

        Raises:
            ConfigError: there are too few ids for prompts that all begin unlike one another.
        """
        if self.num_requests > self.vocabulary:
            raise ConfigError(f"load.vocabulary: {self.vocabulary} ids; {self.num_requests} prompts need more")

    @property
    def num_requests(self) -> int:
        """Streams and long prompts."""
        return self.streams + self.prompts


@dataclass(frozen=True, slots=True, kw_only=True)
class LongRun:
    """One round of one side.

    Attributes:
        side: by its name.
        round: from 0.
        streams, prompts: what became of them.
        problems: why its figures are not to be trusted.
        build: what the peer was built from.
    """

    side: str
    round: int
    streams: tuple[ClientLife, ...]
    prompts: tuple[ClientLife, ...]
    problems: tuple[str, ...] = ()
    build: str | None = None

    @property
    def lives(self) -> tuple[ClientLife, ...]:
        """All requests."""
        return self.streams + self.prompts

    @property
    def seconds(self) -> float | None:
        """From the first send to the last end; None if nothing was sent or nothing ended."""
        sent = [life.sent_at for life in self.lives if life.sent_at is not None]
        closed = [life.closed_at for life in self.lives if life.closed_at is not None]
        return (max(closed) - min(sent)) / 1e9 if sent and closed else None

    @property
    def first_s(self) -> float | None:
        """From the send of the long prompts to the last of their first tokens; None if one has none."""
        sent, last = self._prompts_sent_at, self._prompts_done_at
        return None if sent is None or last is None else (last - sent) / 1e9

    @property
    def spoke_before(self) -> bool:
        """Whether each stream had a token before the long prompts were sent."""
        sent = self._prompts_sent_at
        firsts = [first_at(life) for life in self.streams]
        return sent is not None and all(at is not None and at <= sent for at in firsts)

    @property
    def num_beside(self) -> int:
        """Tokens of the streams that came while the long prompts were being computed."""
        sent, done = self._prompts_sent_at, self._prompts_done_at
        if sent is None or done is None:
            return 0
        return sum(sent < at <= done for life in self.streams for at in token_at(life))

    @property
    def _prompts_sent_at(self) -> int | None:
        return min((life.sent_at for life in self.prompts if life.sent_at is not None), default=None)

    @property
    def _prompts_done_at(self) -> int | None:
        firsts = [at for life in self.prompts if (at := first_at(life)) is not None]
        return max(firsts) if len(firsts) == len(self.prompts) else None


def asks_of(load: LongLoad, number: int, seed: int) -> tuple[tuple[Ask, ...], tuple[Ask, ...]]:
    """The streams and the long prompts of a round; the same for every side, and nothing of them in any cache."""
    rng = random.Random(f"long prompts {seed} {number}")
    ids = range(load.first_token, load.first_token + load.vocabulary)
    firsts = rng.sample(ids, load.num_requests)

    def ask(name: str, first: int, length: int, budget: int) -> Ask:
        prompt = (first, *rng.choices(ids, k=length - 1))
        return Ask(request_id=f"{name}-{number}-{first}", prompt=prompt, max_tokens=budget, fields=GREEDY)

    streams = tuple(ask("stream", first, load.stream_prompt, load.stream_budget) for first in firsts[: load.streams])
    prompts = tuple(ask("long", first, load.prompt_tokens, load.prompt_budget) for first in firsts[load.streams :])
    return streams, prompts


async def send_beside(
    target: Target, load: LongLoad, streams: Sequence[Ask], prompts: Sequence[Ask]
) -> tuple[tuple[ClientLife, ...], tuple[ClientLife, ...]]:
    """Send the streams, after a while the long prompts, and wait for all of them."""
    async with asyncio.TaskGroup() as group:
        decoding = [group.create_task(target.ask(ask, None)) for ask in streams]
        await asyncio.sleep(load.after_s)
        coming = [group.create_task(target.ask(ask, None)) for ask in prompts]
    return tuple(task.result() for task in decoding), tuple(task.result() for task in coming)


async def warm_up(target: Target, load: LongLoad) -> None:
    """A short request for each that will run at once, so that nobody meets a server that has computed nothing yet."""
    rng = random.Random("warm up")
    ids = range(load.first_token, load.first_token + load.vocabulary)
    asks = [
        Ask(request_id=f"warm-up-{number}", prompt=tuple(rng.choices(ids, k=8)), max_tokens=2, fields=GREEDY)
        for number in range(load.num_requests)
    ]
    await asyncio.gather(*(target.ask(ask, None) for ask in asks))
