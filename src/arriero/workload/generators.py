"""The composed generator: settings to records.

What a request asks for is drawn from a generator of its own, seeded by (seed, what it is for, index), and arrivals
come from one sequence. So a workload of n requests is the beginning of the workload of n + 1, and a change of the
arrival process leaves the requests as they are.
"""

import heapq
import random
from array import array
from collections.abc import Iterator
from hashlib import blake2b
from itertools import accumulate, islice
from typing import Final, NamedTuple

from arriero.workload.amounts import sample
from arriero.workload.arrivals import ClosedLoop, OpenArrival, beginnings
from arriero.workload.notes import NO_NOTES, Notes, as_metadata
from arriero.workload.records import WorkloadRecord
from arriero.workload.settings import ComposedConfig, Families, Pacing, Sessions, Vocabulary
from arriero.workload.tokens import PackedTokens


def generate(config: ComposedConfig) -> Iterator[WorkloadRecord]:
    """The records in their order, without end beyond `request_count`.

    Open arrivals come out in the order of `numbered`; in a closed loop the order is that of the index.
    """
    asks = _Asks(config)
    match config.arrival:
        case ClosedLoop():
            records = _closed_loop(config, config.arrival, asks)
        case arrival if config.sessions is not None:
            records = _conversations(config, arrival, config.sessions, asks)
        case arrival:
            records = _independent(config, arrival, asks)
    return islice(records, config.request_count)


class _Ask(NamedTuple):
    """What one request, or one turn, asks for."""

    num_fresh: int
    fresh: "array[int]"  # empty where only lengths count
    output: int
    family: int | None


class _Prompt(NamedTuple):
    length: int
    tokens: "array[int]"  # empty where only lengths count


_NOTHING: Final = array("i")


class _Asks:
    """Draws what requests ask for; the families' beginnings are made once."""

    def __init__(self, config: ComposedConfig) -> None:
        self._config = config
        self._beginnings: dict[int, array[int]] = {}
        self._popularity = _cumulated_popularity(config.families) if config.families else None

    def ask(self, rng: random.Random, *, with_family: bool = True) -> _Ask:
        """Draw in a fixed order: family, prompt, output, tokens."""
        family = None
        if self._popularity is not None and with_family:
            family = rng.choices(range(len(self._popularity)), cum_weights=self._popularity)[0]
        num_fresh = sample(self._config.prompt_length, rng)
        output = sample(self._config.output_length, rng)
        return _Ask(num_fresh, self.tokens(num_fresh, rng), output, family)

    def tokens(self, count: int, rng: random.Random) -> "array[int]":
        """So many tokens by chance."""
        return _NOTHING if self._config.tokens is None else _draw_tokens(self._config.tokens, count, rng)

    def first_prompt(self, ask: _Ask) -> _Prompt:
        """The family's beginning and the fresh tokens."""
        if ask.family is None:
            return _Prompt(ask.num_fresh, ask.fresh)
        beginning = self._beginning(ask.family)
        return _Prompt(len(beginning) + ask.num_fresh, beginning + ask.fresh)

    def _beginning(self, family: int) -> "array[int]":
        if family not in self._beginnings:
            assert self._config.families is not None, "a family was drawn"
            rng = _rng(self._config.seed, "family", family)
            length = sample(self._config.families.prefix_length, rng)
            self._beginnings[family] = self.tokens(length, rng)
        return self._beginnings[family]


def _independent(config: ComposedConfig, arrival: OpenArrival, asks: _Asks) -> Iterator[WorkloadRecord]:
    starts = beginnings(arrival, _rng(config.seed, "arrival"))
    for index, arrival_time_us in enumerate(starts):
        ask = asks.ask(_rng(config.seed, "request", index))
        yield _record(config, f"{index:07d}", arrival_time_us, ask, asks.first_prompt(ask))


def _closed_loop(config: ComposedConfig, arrival: ClosedLoop, asks: _Asks) -> Iterator[WorkloadRecord]:
    ready_at = [arrival.start_time_us] * min(arrival.num_clients, config.request_count)
    for index in range(config.request_count):
        rng = _rng(config.seed, "request", index)
        ask = asks.ask(rng)
        client = index % arrival.num_clients
        notes = Notes(client=client)
        if index >= arrival.num_clients:
            think_time_us = sample(arrival.think_time_us, rng)
            ready_at[client] += think_time_us
            before = f"{config.workload_class}-{index - arrival.num_clients:07d}"
            notes = Notes(client=client, follows=before, think_time_us=think_time_us)
        yield _record(config, f"{index:07d}", ready_at[client], ask, asks.first_prompt(ask), notes)


def _conversations(
    config: ComposedConfig, arrival: OpenArrival, sessions: Sessions, asks: _Asks
) -> Iterator[WorkloadRecord]:
    """The turns of all conversations, merged in the order of (arrival, request id)."""
    starts = enumerate(beginnings(arrival, _rng(config.seed, "arrival")))
    session, start = next(starts)
    open_turns: list[tuple[int, str, WorkloadRecord, Iterator[WorkloadRecord]]] = []
    while True:
        # Whoever may come before the earliest turn known has to be known too.
        while not open_turns or start <= open_turns[0][0]:
            turns = _turns(config, sessions, asks, session, start)
            first = next(turns)
            heapq.heappush(open_turns, (first.arrival_time_us, first.request_id, first, turns))
            session, start = next(starts)
        _, _, record, turns = heapq.heappop(open_turns)
        yield record
        following = next(turns, None)
        if following is not None:
            heapq.heappush(open_turns, (following.arrival_time_us, following.request_id, following, turns))


def _turns(
    config: ComposedConfig, sessions: Sessions, asks: _Asks, session: int, start: int
) -> Iterator[WorkloadRecord]:
    """The turns of one conversation; at least one."""
    rng = _rng(config.seed, "session", session)
    num_turns = max(1, sample(sessions.turns, rng))
    session_id = f"{config.workload_class}-s{session:07d}"
    ask = asks.ask(rng)
    prompt = asks.first_prompt(ask)
    now, family, notes = start, ask.family, Notes(session_id=session_id, turn=0, fresh_token_count=ask.num_fresh)
    for turn in range(num_turns):
        suffix = f"s{session:07d}-t{turn:04d}"
        yield _record(config, suffix, now, ask._replace(family=family), prompt, notes)
        answer = asks.tokens(ask.output, rng)
        think_time_us = sample(sessions.think_time_us, rng)
        now += ask.output * sessions.answer_us_per_token + think_time_us
        length = prompt.length + ask.output
        ask = asks.ask(rng, with_family=False)
        prompt = _Prompt(length + ask.num_fresh, prompt.tokens + answer + ask.fresh)
        if sessions.prompt_limit is not None and prompt.length > sessions.prompt_limit:
            return
        waits = sessions.pacing is Pacing.ANSWER
        notes = Notes(
            session_id=session_id,
            turn=turn + 1,
            fresh_token_count=ask.num_fresh,
            follows=f"{config.workload_class}-{suffix}" if waits else None,
            think_time_us=think_time_us if waits else None,
        )


def _record(
    config: ComposedConfig, suffix: str, arrival_time_us: int, ask: _Ask, prompt: _Prompt, notes: Notes = NO_NOTES
) -> WorkloadRecord:
    group = notes.session_id if ask.family is None else f"family-{ask.family:04d}"
    return WorkloadRecord(
        request_id=f"{config.workload_class}-{suffix}",
        arrival_time_us=arrival_time_us,
        prompt_token_count=prompt.length,
        max_new_tokens=ask.output,
        workload_class=config.workload_class,
        prompt_tokens=None if config.tokens is None else PackedTokens(prompt.tokens),
        prefix_group=group,
        metadata=as_metadata(notes),
    )


def _rng(seed: int, what: str, index: int = 0) -> random.Random:
    digest = blake2b(f"{seed}/{what}/{index}".encode(), digest_size=8).digest()
    return random.Random(int.from_bytes(digest, "big"))


def _draw_tokens(vocabulary: Vocabulary, count: int, rng: random.Random) -> "array[int]":
    ids = range(vocabulary.first_token, vocabulary.first_token + vocabulary.size)
    return array("i", rng.choices(ids, k=count))


def _cumulated_popularity(families: Families) -> list[float]:
    return list(accumulate((rank + 1) ** -families.popularity_exponent for rank in range(families.count)))
