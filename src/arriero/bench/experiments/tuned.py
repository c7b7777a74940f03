"""Tuned: a server with flags of its own, fresh for each cell of an experiment that compares settings.

ours      this project's server, steered by a cost profile that was made for it
theirs    llama-server by its defaults, or with other batches
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import urlsplit

from arriero.bench.ask import Ask
from arriero.bench.client import HttpTarget
from arriero.bench.cost_profiles import CalibrationPlan, calibrated, profile_facts
from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.experiment import Statement, Tell
from arriero.bench.experiments.failed_cells import FailedCells
from arriero.bench.experiments.samples import NS_PER_MS, Samples, samples
from arriero.bench.experiments.served import Served, ServeOptions, served
from arriero.bench.experiments.sides import THEIRS, ServerSize, build_of, peer_command, peer_served
from arriero.bench.runner_server import listening_pids
from arriero.bench.servers_commands import split_words
from arriero.bench.target import Target
from arriero.core.errors import ConfigError
from arriero.metrics.client_latency import itl_samples
from arriero.metrics.client_life import ClientLife
from arriero.metrics.client_life import Outcome as End

BATCH_ROWS: Final = 512  # of one decode call, as our server has it without a flag
_TARGET: Final = "--itl-target"
_ENDED_WELL: Final = frozenset({End.LENGTH, End.STOP})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """One side.

    Attributes:
        name: for tables and cells.
        is_ours: this project's server, else llama-server.
        flags: by which it differs from others of its kind.
    """

    name: str
    is_ours: bool
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bed:
    """What every side has in common.

    Attributes:
        peer: path of llama-server; None: it is left out.
        slots, slot_tokens: of either server.
        backlog: requests that may wait at ours.
        threads: compute threads of either; 0: every CPU.
        flags: further ones of ours, such as those that name its cost profile.
    """

    model: ModelSettings
    peer: str | None
    slots: int
    slot_tokens: int
    backlog: int
    threads: int
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What steers our server.

    Attributes:
        flags: that name it; empty: the one that was kept for this model and machine, if any.
        facts: about it, for the facts of an outcome.
    """

    flags: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


class TunedServer:
    """One running side.

    Attributes:
        url: where it listens.
        target: asks it.
    """

    def __init__(self, url: str, target: HttpTarget, ours: Served | None) -> None:
        """Made by `tuned_server`; `ours` is None for the peer."""
        self.url = url
        self.target = target
        self._ours = ours
        self._build: str | None = None

    @property
    def build(self) -> str | None:
        """What the peer said at its end that it was built from; None from ours."""
        return self._build

    @property
    def pids(self) -> tuple[int, ...]:
        """Its processes, whose work is no neighbour's."""
        parts = urlsplit(self.url)
        return listening_pids(parts.hostname or "", parts.port or 0)

    async def end(self, lives: Sequence[ClientLife]) -> tuple[str, ...]:
        """End ours in order; why figures of these requests are not to be trusted.

        Raises:
            CallFailed, ServerFailed: it did not end.
        """
        if self._ours is None:
            self._build = await build_of(self)
            return ()
        return (await self._ours.stop()).problems_with(lives)


@asynccontextmanager
async def tuned_server(bed: Bed, side: Tuned) -> AsyncGenerator[TunedServer]:
    """A fresh server of a side for the length of a block.

    Raises:
        ConfigError: it cannot be executed. ServerFailed: it ended or did not answer.
    """
    if side.is_ours:
        options = ServeOptions(
            slots=bed.slots,
            slot_tokens=bed.slot_tokens,
            backlog=bed.backlog,
            threads=bed.threads,
            batch_rows=BATCH_ROWS,
            reuses=True,
            flags=(*bed.flags, *side.flags),
        )
        async with served(bed.model, options) as ours:
            yield TunedServer(ours.url, ours.target, ours)
        return
    assert bed.peer is not None, "it is left out without a program"
    command = peer_command(bed.peer, bed.model, side.flags)
    size = ServerSize(slots=bed.slots, slot_tokens=bed.slot_tokens, threads=bed.threads)
    async with peer_served(command, bed.model, size) as theirs:
        yield TunedServer(theirs.url, theirs.target, None)


@asynccontextmanager
async def profile_for(bed: Bed, seconds: float, tell: Tell, *, itl_target_ms: float = 0) -> AsyncGenerator[Profile]:
    """A cost profile for our server on this bed, for the length of a block.

    Args:
        bed: what our server will be started with.
        seconds: to measure; 0 leaves it to the profile that `arriero calibrate` kept.
        tell: told that it takes a while.
        itl_target_ms: the server's; it decides about attention, where that is open; 0: none.

    Raises:
        ConfigError: it could not be calibrated.
    """
    if not seconds:
        yield Profile(facts={"cost_profile": "the one that was kept, if any"})
        return
    tell(f"calibrating, {seconds:g} s and some")
    model = bed.model
    plan = CalibrationPlan(
        model=model.reference,
        backend=model.backend,
        flash_attention=model.flash_attention,
        slots=bed.slots,
        slot_tokens=bed.slot_tokens,
        batch_rows=BATCH_ROWS,
        micro_batch=min(model.micro_batch, BATCH_ROWS),
        threads=bed.threads,
        seconds=seconds,
        itl_target_ms=itl_target_ms,
    )
    with TemporaryDirectory(prefix="arriero-experiment-") as folder:
        path = Path(folder) / "profile.json"
        profile = await calibrated(plan, path)
        yield Profile(flags=("--cost-profile", str(path)), facts={"cost_profile": profile_facts(profile)})


def itl_target_of(side: Tuned) -> float:
    """Milliseconds of its ITL target; 0 without one.

    Raises:
        ConfigError: it is no number.
    """
    if _TARGET not in side.flags[:-1]:
        return 0
    word = side.flags[side.flags.index(_TARGET) + 1]
    try:
        return float(word)
    except ValueError:
        raise ConfigError(f"{_TARGET} {word} of {side.name}: give milliseconds") from None


def peer_sides(peer: str | None, settings: Sequence[str], flags: Sequence[str]) -> list[Tuned]:
    """llama-server once with each setting; an empty setting is its defaults.

    Raises:
        ConfigError: a quote in a setting is left open.
    """
    if peer is None:
        return []
    return [
        Tuned(name=f"{THEIRS} {setting}".strip(), is_ours=False, flags=(*flags, *split_words(setting, "peer_settings")))
        for setting in settings
    ]


def turns(sides: Sequence[Tuned], number: int) -> list[Tuned]:
    """Their order in a round: each begins with the next side, and every second one goes the other way round."""
    first = number // 2 % len(sides)
    turned = [*sides[first:], *sides[:first]]
    return turned if number % 2 == 0 else turned[::-1]


async def share_out(target: Target, clients: int, asks: Sequence[Ask]) -> tuple[ClientLife, ...]:
    """Let so many clients share the requests: whoever is free sends the next one."""
    waiting = iter(asks)
    lives: list[ClientLife] = []

    async def client() -> None:
        lives.extend([await target.ask(ask, None) for ask in waiting])

    await asyncio.gather(*(client() for _ in range(clients)))
    return tuple(lives)


def gaps(lives: Sequence[ClientLife]) -> Samples:
    """Milliseconds between the tokens of all of these requests, pooled."""
    return samples((gap for life in lives for gap in itl_samples(life)), NS_PER_MS)


def sound(lives: Sequence[ClientLife], problems: Sequence[Sequence[str]], failed: FailedCells) -> Iterator[Statement]:
    """That figures may be believed: every server served, every request got all of its tokens, every record is there."""
    yield failed.statement()
    bad = sum(life.outcome not in _ENDED_WELL for life in lives)
    yield Statement.equal("requests that failed, were rejected or ended early", bad, 0)
    yield Statement.equal("cells with incomplete records", sum(bool(each) for each in problems), 0)
