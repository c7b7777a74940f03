"""SoakSettings: how long, against which server, under which load, and what has to hold; all of it in one file."""

import math
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from arriero.core.errors import ConfigError
from arriero.record.strict import Count, Name, Positive

Share = Annotated[float, Meta(ge=0, le=1)]
Milliseconds = Annotated[float, Meta(ge=0, le=600_000)]


class Lengths(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tokens of a kind of request, evenly spread between two bounds each."""

    prompt_low: Positive
    prompt_high: Positive
    output_low: Positive
    output_high: Positive

    @property
    def longest(self) -> int:
        """Positions that such a request needs at most."""
        return self.prompt_high + self.output_high

    def check(self, name: str) -> None:
        """Refuse bounds the wrong way round.

        Raises:
            ConfigError: names them.
        """
        for low, high in (("prompt_low", "prompt_high"), ("output_low", "output_high")):
            if getattr(self, low) > getattr(self, high):
                raise ConfigError(f"load.{name}: {low} is above {high}; lower it")


class SoakLoad(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens in each leg; every number is of one leg.

    Attributes:
        clients: that ask one request after the other as long as requests are sent.
        think_ms: how long each waits after an answer, on average.
        retry_ms: how long after a refusal.
        short: lengths of their requests, and of those in bursts.
        shared_share: of their prompts, those that begin with one of a few beginnings.
        shared_tokens: of such a beginning.
        cancel_share: of their requests, those that they leave after some tokens, or at once.
        bursts: moments at which more requests come than may be in flight.
        burst_extra: so many more.
        longs, long: long prompts, each at a moment of its own.
        slow_readers, slow: streams that are read slowly.
        slow_bytes, slow_pause_ms: so many bytes at a time, and how long between two reads.
        visits: how often the busy neighbour comes, in every second leg.
        first_token, vocabulary: ids that prompts are made of.
    """

    clients: Positive
    think_ms: Milliseconds
    retry_ms: Milliseconds
    short: Lengths
    shared_share: Share
    shared_tokens: Positive
    cancel_share: Share
    bursts: Count
    burst_extra: Positive
    longs: Count
    long: Lengths
    slow_readers: Count
    slow: Lengths
    slow_bytes: Positive
    slow_pause_ms: Milliseconds
    visits: Count
    first_token: Count
    vocabulary: Positive


class SoakSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A soak.

    Attributes:
        minutes: how long requests are sent and drained, in all.
        leg_s: length of one leg; at its end everything is drained and counted, and the state is on disk.
        send_share: of a leg, the time in which requests are sent.
        drain_s: how long answers are waited for after a leg; what is open then is given up.
        model: a reference, for llama.cpp only.
        backend: what computes.
        flash_attention: as `--flash-attn`.
        slots, slot_tokens, backlog, threads: of the server; 0 threads: every CPU.
        cache_mib: host memory for retained runs; small, so that its bound is reached early.
        flags: further ones of the server.
        itl_target_ms: the target for the time between tokens; 0: none, and nothing is said of it.
        held_share: the share of the streams' time in which it has to be held.
        calibrate_s: how long the cost profile is measured before, if there is a target; 0 takes the one that was kept.
        memory_mib_per_min: how fast resident memory may grow, after the first third of a server's life.
        load: what happens.
        seed: of all of it.
    """

    minutes: Annotated[float, Meta(gt=0, le=10_000)]
    leg_s: Annotated[float, Meta(gt=0, le=3600)]
    send_share: Annotated[float, Meta(gt=0, le=1)]
    drain_s: Annotated[float, Meta(gt=0, le=3600)]
    model: Name
    backend: Literal["llama", "synthetic"]
    flash_attention: Literal["auto", "on", "off"]
    slots: Positive
    slot_tokens: Positive
    backlog: Count
    threads: Count
    cache_mib: Count
    flags: tuple[str, ...] = ()
    itl_target_ms: Count
    held_share: Share
    calibrate_s: Annotated[float, Meta(ge=0, le=600)]
    memory_mib_per_min: Annotated[float, Meta(ge=0, le=1e6)]
    load: SoakLoad
    seed: int

    @property
    def num_legs(self) -> int:
        """Legs in all, at least one."""
        return max(1, math.ceil(self.minutes * 60 / self.leg_s - 1e-9))

    @property
    def in_flight(self) -> int:
        """Requests that the server takes at once, running and waiting."""
        return self.slots + self.backlog

    def check(self) -> None:
        """Refuse what could not work however the server behaves.

        Raises:
            ConfigError: names it.
        """
        for name in ("short", "long", "slow"):
            lengths: Lengths = getattr(self.load, name)
            lengths.check(name)
            shared = self.load.shared_tokens if name == "short" else 0
            if lengths.longest + shared > self.slot_tokens:
                raise ConfigError(
                    f"load.{name}: up to {lengths.longest + shared} tokens, and a slot holds {self.slot_tokens}; "
                    "raise slot_tokens or shorten them"
                )
