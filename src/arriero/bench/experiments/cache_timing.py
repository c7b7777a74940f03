"""The timing probe of cache scopes: can one API key tell whether another one's prefix is in the cache?

    primed      the owner asks with a prefix; then the prober asks with the same one
    unprimed    the owner asks with another prefix of the same length; then the prober asks with one that is new

A pair is one of each, in an order by chance. The server does the same work in both but for what it finds in the cache,
so a difference of the prober's TTFT is a signal. Within a scope there must be one, or the probe proves nothing; across
scopes there must be none.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from arriero.bench.ask import Ask
from arriero.bench.client import HttpTarget
from arriero.bench.client_loop import run as run_on_loop
from arriero.bench.client_options import HttpOptions, TimeLimits
from arriero.bench.experiments.cache_timing_figures import Pair, judge, table
from arriero.bench.experiments.calls import events
from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.experiment import Experiment, Outcome, Statement, Tell
from arriero.bench.experiments.failed_cells import FailedCells
from arriero.bench.experiments.served import GIVE_UP_AFTER_S, model_facts
from arriero.bench.experiments.sides import GREEDY, ServerSize
from arriero.bench.peers import arriero
from arriero.bench.servers import started
from arriero.bench.servers_commands import with_flags
from arriero.metrics.client_life import ClientLife
from arriero.metrics.client_life import Outcome as End
from arriero.record.strict import Count, Name, Positive

OWNER: Final = "key-of-the-owner"
OTHER: Final = "key-of-somebody-else"


class Probe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One question.

    Attributes:
        name: of the cell.
        cache_scope: of the server.
        keys: whether owner and prober have one key, or each its own.
        salts: whether both send one `cache_salt`, or each its own; null: none is sent.
        while_running: the owner still decodes when the prober asks.
        expects: whether there must be a signal.
    """

    name: Name
    cache_scope: Literal["key", "global"] = "key"
    keys: Literal["same", "different"]
    salts: Literal["same", "different"] | None = None
    while_running: bool = False
    expects: Literal["signal", "none"]


class CacheTiming(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is run.

    Attributes:
        flags: further flags of the server.
        probes: the questions.
        pairs: of each; six at least decide anything.
        warm_ups: pairs before them.
        prefix_tokens, own_tokens: of every prompt.
        budget: tokens of the answers.
        owner_budget: of the owner's, where it still has to run when the prober asks.
        first_token, vocabulary: ids that prompts are made of.
        slots, slot_tokens: of the server.
        threads: compute threads; 0: every CPU.
        margin: the smallest difference of TTFT that would matter.
        seed: of the tokens and of the order in a pair.
    """

    model: ModelSettings
    flags: tuple[str, ...] = ()
    probes: Annotated[tuple[Probe, ...], Meta(min_length=1)]
    pairs: Annotated[int, Meta(ge=6)]
    warm_ups: Count
    prefix_tokens: Positive
    own_tokens: Positive
    budget: Positive
    owner_budget: Positive
    first_token: Count
    vocabulary: Positive
    slots: Positive
    slot_tokens: Positive
    threads: Count
    margin: Annotated[float, Meta(ge=0, le=1)]
    seed: int


def run(config: CacheTiming, tell: Tell) -> Outcome:
    """Measure and judge."""
    facts: dict[str, Any] = model_facts(config.model)
    failed = FailedCells()
    found = run_on_loop(_cells(config, failed, tell))
    lives = [life for pairs in found.values() for pair in pairs for life in pair.lives]
    bad = sum(life.outcome is not End.LENGTH for life in lives)
    statements = [failed.statement(), Statement.equal("requests that failed, were rejected or ended early", bad, 0)]
    for probe in config.probes:
        statements += judge(
            probe.name, found.get(probe.name, []), expects_signal=probe.expects == "signal", margin=config.margin,
            seed=config.seed,
        )  # fmt: skip
    raw = {probe: [msgspec.to_builtins(pair) for pair in pairs] for probe, pairs in found.items()}
    return Outcome(
        statements=tuple(statements),
        tables=(table(config.model, found, margin=config.margin, seed=config.seed),),
        limits=tuple(_limits()),
        facts={**facts, "threads": config.threads, **failed.facts},
        raw={"pairs.json": msgspec.json.encode(raw)},
    )


async def _cells(config: CacheTiming, failed: FailedCells, tell: Tell) -> dict[str, list[Pair]]:
    """Every question whose server served, each on a fresh one."""
    found: dict[str, list[Pair]] = {}
    for probe in config.probes:
        tell(probe.name)
        with failed.losing(probe.name):
            async with _asked(config, probe) as clients:
                found[probe.name] = await _pairs(config, probe, clients)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clients:
    """The two who ask one server."""

    url: str
    owner: HttpTarget
    prober: HttpTarget

    async def start_owner(self, ask: Ask) -> asyncio.Task[None]:
        """Let the owner ask, up to its first token: then its prefix is computed, and it still runs.

        Raises:
            CallFailed: no answer.
        """
        body = {"prompt": ask.prompt, "max_tokens": ask.max_tokens, "stream": True, **ask.fields}
        speaks = asyncio.Event()

        async def follow() -> None:
            headers = {"authorization": f"Bearer {OWNER}"}
            async for _ in events(self.url, "/v1/completions", body, headers=headers):
                speaks.set()

        task = asyncio.create_task(follow())
        waiting = asyncio.create_task(speaks.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not speaks.is_set():
            await task  # tells why
        return task


@asynccontextmanager
async def _asked(config: CacheTiming, probe: Probe) -> AsyncGenerator[_Clients]:
    """A fresh server that knows both keys, for the length of a block."""
    model = config.model
    flags = (
        *("--backend", model.backend, "--flash-attn", model.flash_attention, "--cache-scope", probe.cache_scope),
        *("--api-key", OWNER, "--api-key", OTHER, *config.flags),
    )
    size = ServerSize(slots=config.slots, slot_tokens=config.slot_tokens, threads=config.threads)
    keys = {"owner": OWNER, "prober": OWNER if probe.keys == "same" else OTHER}
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="arriero-experiment-"))
        command = with_flags(arriero(), flags)
        server = await stack.enter_async_context(
            started(command, size.values(model.reference), log=Path(folder) / "server.log")
        )
        targets = {
            who: HttpTarget(server.url, HttpOptions(api_key=key, limits=TimeLimits(total_s=GIVE_UP_AFTER_S)))
            for who, key in keys.items()
        }
        for target in targets.values():
            await target.open()
            stack.push_async_callback(target.close)
        yield _Clients(url=server.url, **targets)


async def _pairs(config: CacheTiming, probe: Probe, clients: _Clients) -> list[Pair]:
    rng = random.Random(f"{config.seed} {probe.name}")
    trials = _Trials(config, probe, clients, rng)
    pairs: list[Pair] = []
    for number in range(-config.warm_ups, config.pairs):
        order = [True, False]
        rng.shuffle(order)
        came = {is_primed: await trials.ask(number, is_primed=is_primed) for is_primed in order}
        if number >= 0:
            pairs.append(Pair(order="".join("p" if each else "u" for each in order),
                              primed=came[True], unprimed=came[False]))  # fmt: skip
    return pairs


class _Trials:
    """Makes prompts that nobody has asked before, and asks them."""

    def __init__(self, config: CacheTiming, probe: Probe, clients: _Clients, rng: random.Random) -> None:
        self._config = config
        self._probe = probe
        self._clients = clients
        self._rng = rng
        self._ids = range(config.first_token, config.first_token + config.vocabulary)

    async def ask(self, number: int, *, is_primed: bool) -> ClientLife:
        """One trial; the prober's life."""
        config, word = self._config, "primed" if is_primed else "unprimed"
        owned = self._tokens(config.prefix_tokens)
        probed = owned if is_primed else self._tokens(config.prefix_tokens)
        budget = config.owner_budget if self._probe.while_running else config.budget
        owner = self._ask(f"owner-{number}-{word}", owned, budget, "owner")
        prober = self._ask(f"prober-{number}-{word}", probed, config.budget, "prober")
        if not self._probe.while_running:
            await self._clients.owner.ask(owner, None)
            return await self._clients.prober.ask(prober, None)
        running = await self._clients.start_owner(owner)
        life = await self._clients.prober.ask(prober, None)
        await running
        return life

    def _ask(self, name: str, prefix: tuple[int, ...], budget: int, who: str) -> Ask:
        salt = self._probe.salts
        fields: dict[str, Any] = dict(GREEDY)
        if salt is not None:
            fields["cache_salt"] = "one" if salt == "same" else who
        prompt = prefix + self._tokens(self._config.own_tokens)
        return Ask(request_id=name, prompt=prompt, max_tokens=budget, fields=fields)

    def _tokens(self, length: int) -> tuple[int, ...]:
        return tuple(self._rng.choices(self._ids, k=length))


def _limits() -> Iterator[str]:
    yield "A client on the same machine: across a network the signal within a scope would be harder to see."
    yield "Nothing here looks at other traces of a neighbour, such as the load that it makes or what it evicts."
    yield "That no signal is found says how small one could be, not that there is none: the interval stands beside it."


EXPERIMENT: Final = Experiment(
    name="cache-timing",
    number="",
    decides="Can an API key tell by the time to its first token whether another key's prefix is in the cache?",
    metric="TTFT of primed against unprimed prefixes, and cached tokens as they are told",
    comparison="one prefix that the owner has just asked and one that nobody has, in pairs, in an order by chance",
    difference="any that can be resolved: within a scope there must be one, across scopes none",
    config=CacheTiming,
    run=run,
)
