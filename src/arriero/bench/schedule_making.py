"""From requests to a schedule: who is asked what, when, and after whom.

    open loop    each request, or each conversation's first turn, gets an arrival of the process
    closed loop  clients share requests and conversations; a conversation stays with the client that began it
    replay       arrivals as the workload says; if clients of a closed loop send it, those clients do

Turns follow their previous ones after the think time that the workload notes, or by the workload's clock where it puts
them on one. Everything by chance comes from the seed and from what it is for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice, takewhile
from operator import gt
from typing import Any, Final, TypeAlias

import msgspec

from arriero.bench.ask import Ask, Endpoint
from arriero.bench.prompts import WORD_VOCABULARY, PromptForm, PromptMaker, write
from arriero.bench.schedule import Limits, Loop, Planned, Schedule, seal
from arriero.bench.schedule_arrivals import ClosedLoop, OpenLoop, Replay, arrival_times, client_starts
from arriero.bench.schedule_chance import chance
from arriero.bench.schedule_lines import Place, free_places, replayed_places, timed_places
from arriero.bench.schedule_work import Records, Work
from arriero.core.errors import BadWorkload, ConfigError
from arriero.workload.notes import notes_of
from arriero.workload.records import WorkloadRecord
from arriero.workload.settings import Vocabulary

LoopPlan: TypeAlias = OpenLoop | ClosedLoop | Replay

_MOST_ARRIVALS: Final = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AskOptions:
    """How requests are asked; the same for all of a schedule.

    Attributes:
        form: how prompts are written; CHAT goes to the chat interface, the others to completions.
        vocabulary: tokens of prompts of which only the length is known; unused for text.
        fold: map the workload's own tokens into the vocabulary.
        group_prefix: see `PromptMaker`.
        fields: further fields of the body; greedy by default, because servers' own defaults differ.
        ignore_eos: ask for answers of the full length, in the field that most servers know.
        stream: False asks for whole answers.
        real_answers: later turns carry what the asked side said instead of what the workload made up.
        send_session: name conversations to the server in the field `session_id`.
        cancel_rate: share of requests that the client cancels, each after a number of tokens by chance.
    """

    form: PromptForm = PromptForm.TOKENS
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    fold: bool = False
    group_prefix: int | None = None
    fields: Mapping[str, Any] = field(default_factory=lambda: {"temperature": 0})
    ignore_eos: bool = False
    stream: bool = True
    real_answers: bool = False
    send_session: bool = False
    cancel_rate: float = 0.0

    @property
    def endpoint(self) -> Endpoint:
        """Which interface takes such prompts."""
        return Endpoint.CHAT if self.form is PromptForm.CHAT else Endpoint.COMPLETIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """How a schedule is made.

    Attributes:
        loop: what arrivals follow.
        asks: how requests are asked.
        seed: of arrivals, prompts and cancellations.
        salt: another one gives other prompts of the same lengths and changes nothing else: for runs that follow one
            another on a server that remembers prompts.
        num_requests: how many; None: as long as `limits.duration_ns` says, else all there are.
        repeat: a workload that is too short is sent again.
        limits: when the run ends and which part of it counts.
        warm_up_requests: so many of the first are in no figure.
    """

    loop: LoopPlan
    asks: AskOptions = field(default_factory=AskOptions)
    seed: int = 0
    salt: str = ""
    num_requests: int | None = None
    repeat: bool = False
    limits: Limits = field(default_factory=Limits)
    warm_up_requests: int = 0


def make_schedule(work: Work, options: ScheduleOptions) -> Schedule:
    """A schedule of these requests.

    Raises:
        ConfigError: the options do not go together, or the workload is too small for them.
        BadWorkload: a request cannot be asked.
    """
    _check(options)
    records, places = _placed(work, options)
    maker = PromptMaker(
        records,
        vocabulary=options.asks.vocabulary if options.asks.form is PromptForm.TOKENS else WORD_VOCABULARY,
        seed=options.seed,
        salt=options.salt,
        group_prefix=options.asks.group_prefix,
        fold=options.asks.fold,
    )
    items = [_planned(record, place, maker, options) for record, place in zip(records, places, strict=True)]
    loop = _loop_of(options, records)
    if loop is Loop.OPEN:
        items.sort(key=lambda item: (item.at_ns is None, item.at_ns or 0))  # stable: what follows stays in order
    items = [replace(item, is_warm_up=number < options.warm_up_requests) for number, item in enumerate(items)]
    if len(items) <= options.warm_up_requests:
        raise ConfigError(f"{options.warm_up_requests} warm-up requests leave none of {len(items)} to measure")
    return seal(
        loop,
        items,
        client_starts=_client_starts(options, places) if loop is Loop.CLOSED else (),
        limits=options.limits,
        continues_answers=options.asks.real_answers,
        settings=_settings(work, options),
    )


def _check(options: ScheduleOptions) -> None:
    asks = options.asks
    if not 0 <= asks.cancel_rate <= 1:
        raise ConfigError(f"--cancel-rate {asks.cancel_rate:g}: no share; use a number from 0 to 1")
    if isinstance(options.loop, ClosedLoop) and options.repeat and options.num_requests is None:
        raise ConfigError(
            "--repeat: in a closed loop nobody knows how often; give --requests as well, the most to send"
        )
    duration = options.limits.duration_ns
    if isinstance(options.loop, OpenLoop) and options.num_requests is None and duration is not None:
        most = options.loop.rate_per_s * duration / 1e9
        if most > _MOST_ARRIVALS:
            raise ConfigError(
                f"--duration: would plan {most:,.0f} requests; at most {_MOST_ARRIVALS:,} fit into memory"
            )


def _placed(work: Work, options: ScheduleOptions) -> tuple[Records, list[Place]]:
    """The requests of the run, and the place of each."""
    duration = options.limits.duration_ns
    count = len(work.records) if options.num_requests is None else options.num_requests
    match options.loop:
        case ClosedLoop():
            records = work.take(count, repeat=options.repeat)
            return records, free_places(records)
        case Replay(speed=speed):
            records = work.take(count, repeat=options.repeat)
            return _cut(records, replayed_places(records, speed), duration)
        case OpenLoop() as loop if duration is None or options.num_requests is not None:
            records = work.take(count, repeat=options.repeat)
            times = list(islice(arrival_times(loop, options.seed), count))
            return _cut(records, timed_places(records, times), duration)
        case OpenLoop() as loop:
            assert duration is not None, "else the case above"
            every = islice(arrival_times(loop, options.seed), _MOST_ARRIVALS)
            times = list(takewhile(partial(gt, duration), every))
            records = _enough(work, len(times), repeat=options.repeat)
            return _cut(records, timed_places(records, times), duration)


def _enough(work: Work, num_heads: int, *, repeat: bool) -> Records:
    """So many requests that there is a head for each arrival.

    Later turns come between heads, so the number is found by trying more.
    """
    count = max(num_heads, 1)
    while True:
        records = work.take(count, repeat=repeat)
        heads = [number for number, place in enumerate(free_places(records)) if place.follows is None]
        if len(heads) > num_heads:
            return records[: heads[num_heads]]
        if len(heads) == num_heads:
            return records
        count += max(1, num_heads - len(heads))


def _cut(records: Records, places: list[Place], duration: int | None) -> tuple[Records, list[Place]]:
    """Without what would arrive after the time is over, and without what follows that."""
    kept: set[str] = set()
    pairs: list[tuple[WorkloadRecord, Place]] = []
    for record, place in zip(records, places, strict=True):
        is_late = place.at_ns is not None and duration is not None and place.at_ns >= duration
        if is_late or (place.at_ns is None and place.follows not in kept):
            continue
        kept.add(record.request_id)
        pairs.append((record, place))
    return tuple(record for record, _ in pairs), [place for _, place in pairs]


def _planned(record: WorkloadRecord, place: Place, maker: PromptMaker, options: ScheduleOptions) -> Planned:
    if record.prompt_token_count < 1 or record.max_new_tokens < 1:
        raise BadWorkload(
            f"request {record.request_id!r}: asks for {record.max_new_tokens} tokens after a prompt of "
            f"{record.prompt_token_count}; servers take at least 1 of each",
            field="max_new_tokens" if record.max_new_tokens < 1 else "prompt_token_count",
        )
    notes = notes_of(record)
    asks = options.asks
    ask = Ask(
        request_id=record.request_id,
        prompt=write(maker.parts(record), asks.form),
        max_tokens=record.max_new_tokens,
        endpoint=asks.endpoint,
        stream=asks.stream,
        fields={**asks.fields, **({"ignore_eos": True} if asks.ignore_eos else {})},
        session_id=notes.session_id if asks.send_session else None,
        cancel_after=_cancel_after(record, options),
        conversation=notes.session_id,
        turn=notes.turn or 0,
    )
    continues = place.follows is not None and bool(notes.turn)
    return Planned(
        ask=ask,
        at_ns=place.at_ns,
        follows=place.follows,
        think_ns=place.think_ns,
        num_fresh=notes.fresh_token_count if continues else None,
    )


def _cancel_after(record: WorkloadRecord, options: ScheduleOptions) -> int | None:
    """After how many tokens the client cancels; by the request's id, so that neither order nor count moves it."""
    if not options.asks.cancel_rate:
        return None
    rng = chance(options.seed, f"cancel/{record.request_id}")
    return rng.randrange(record.max_new_tokens) if rng.random() < options.asks.cancel_rate else None


def _loop_of(options: ScheduleOptions, records: Sequence[WorkloadRecord]) -> Loop:
    """A replay of what clients of a closed loop sent is a closed loop."""
    if isinstance(options.loop, Replay) and any(notes_of(record).client is not None for record in records):
        return Loop.CLOSED
    return Loop.CLOSED if isinstance(options.loop, ClosedLoop) else Loop.OPEN


def _client_starts(options: ScheduleOptions, places: Sequence[Place]) -> tuple[int, ...]:
    if isinstance(options.loop, ClosedLoop):
        return client_starts(options.loop)
    return tuple(sorted(place.at_ns for place in places if place.at_ns is not None))


def _settings(work: Work, options: ScheduleOptions) -> dict[str, Any]:
    """Everything that the schedule was made from, as JSON."""
    made: dict[str, Any] = msgspec.to_builtins(asdict(options))
    made["loop"] = {"kind": type(options.loop).__name__, **made["loop"]}
    made["workload"] = {"name": work.name, "sha256": work.sha256, "settings": work.settings}
    return made
