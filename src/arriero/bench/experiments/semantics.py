"""E3: where the two servers behave differently, as a table of behaviours with counts.

end of generation   how an answer is counted whose first token ends it
alone               one client, blocks of both servers in turns
capped              more clients than may be in flight: turned away at once, or queued
matched             as many clients as slots, all asking at once: who is admitted when, and who ends when
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from arriero.bench.client_loop import run as run_on_loop
from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.experiment import Experiment, Outcome, Tell
from arriero.bench.experiments.failed_cells import FailedCells
from arriero.bench.experiments.semantics_figures import behaviours, judge, latency_table
from arriero.bench.experiments.semantics_sides import Side, SideFound, ask_alone, ask_for_end, lockstep
from arriero.bench.experiments.served import model_facts
from arriero.bench.experiments.sides import NO_PEER, OURS, THEIRS, check_peer
from arriero.record.strict import Count, Name, Positive


class Matched(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As many clients as slots."""

    clients: Positive
    budget: Positive


class Semantics(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is run.

    Attributes:
        peer: path of llama-server; None: only this project's server is run.
        peer_flags: further flags of it.
        prompt: of every request but those about the end of generation.
        end_prompt: a prompt that may be answered with nothing at all.
        end_text: the text of the model's end token.
        end_budget: tokens that such an answer may have.
        alone_budgets: of the one client.
        alone_requests: of each budget in each block.
        alone_blocks: of each server.
        capped_clients, capped_rounds, capped_budget: clients where one may be in flight.
        matched, matched_rounds: clients where all may.
        slot_tokens: KV positions of a slot.
        threads: compute threads of either server; 0: every CPU.
    """

    model: ModelSettings
    peer: str | None = None
    peer_flags: tuple[str, ...] = ()
    prompt: Name
    end_prompt: Name
    end_text: Name
    end_budget: Positive
    alone_budgets: tuple[Positive, ...]
    alone_requests: Positive
    alone_blocks: Positive
    capped_clients: Positive
    capped_rounds: Positive
    capped_budget: Positive
    matched: tuple[Matched, ...]
    matched_rounds: Positive
    slot_tokens: Positive
    threads: Count


def run(config: Semantics, tell: Tell) -> Outcome:
    """Measure and judge."""
    check_peer(config.peer, config.model)
    facts: dict[str, Any] = model_facts(config.model)
    failed = FailedCells()
    sides = run_on_loop(_ask(config, _Questions(config, failed, tell)))
    peer_build = next((each.build for each in sides if each.build), None)
    facts |= {"threads": config.threads, "peer_build": peer_build, **failed.facts}
    return Outcome(
        statements=(failed.statement(), *judge(sides)),
        tables=(behaviours(sides, config.model), latency_table(sides, config.model)),
        limits=_limits(config),
        facts=facts,
        raw={f"{each.name}.json": msgspec.json.encode(each) for each in sides},
    )


async def _ask(config: Semantics, questions: "_Questions") -> list[SideFound]:
    """Every question to every side, taking turns."""
    common: dict[str, Any] = {
        "model": config.model,
        "slot_tokens": config.slot_tokens,
        "threads": config.threads,
    }
    sides = [Side(name=OURS, **common)]
    if config.peer is not None:
        sides.append(Side(name=THEIRS, peer=config.peer, peer_flags=config.peer_flags, **common))
    found = {side.name: SideFound(name=side.name) for side in sides}
    for side in sides:
        await questions.end(side, found[side.name])
    for block in range(config.alone_blocks):
        for side in sides if block % 2 == 0 else sides[::-1]:
            await questions.alone(side, found[side.name], block)
    for side in sides:
        await questions.capped(side, found[side.name])
    for number, each in enumerate(config.matched):
        for side in sides if number % 2 == 0 else sides[::-1]:
            await questions.matched(side, found[side.name], each)
    return list(found.values())


class _Questions:
    """Each question has a fresh server; one that fails leaves its place empty in what was found."""

    def __init__(self, config: Semantics, failed: FailedCells, tell: Tell) -> None:
        self._config = config
        self._failed = failed
        self._tell = tell

    async def end(self, side: Side, found: SideFound) -> None:
        config = self._config
        with self._cell(f"{side.name}: end of generation"):
            await ask_for_end(side, config.end_prompt, config.end_text, config.end_budget, found)

    async def alone(self, side: Side, found: SideFound, block: int) -> None:
        config = self._config
        with self._cell(f"{side.name}: one client, block {block + 1} of {config.alone_blocks}"):
            found.alone.append(await ask_alone(side, config.prompt, config.alone_budgets, config.alone_requests))

    async def capped(self, side: Side, found: SideFound) -> None:
        config = self._config
        with self._cell(f"{side.name}: one slot, {config.capped_clients} clients"):
            found.capped = await lockstep(
                side,
                config.prompt,
                slots=1,
                backlog=0,
                clients=config.capped_clients,
                budget=config.capped_budget,
                rounds=config.capped_rounds,
            )

    async def matched(self, side: Side, found: SideFound, each: Matched) -> None:
        with self._cell(f"{side.name}: {each.clients} clients on as many slots, budget {each.budget}"):
            found.matched.append(
                await lockstep(
                    side,
                    self._config.prompt,
                    slots=each.clients,
                    backlog=each.clients,
                    clients=each.clients,
                    budget=each.budget,
                    rounds=self._config.matched_rounds,
                )
            )

    @contextmanager
    def _cell(self, name: str) -> Generator[None]:
        self._tell(name)
        with self._failed.losing(name):
            yield


def _limits(config: Semantics) -> tuple[str, ...]:
    return (
        "Latencies are context: `arriero bench compare` is the comparison.",
        "The peer does not tell which rows it computed together, so its texts are counted and not judged.",
        *(() if config.peer is not None else (NO_PEER[:1].upper() + NO_PEER[1:] + ".",)),
    )


EXPERIMENT: Final = Experiment(
    name="semantics",
    number="E3",
    decides="How do answers that end at once, full servers and simultaneous clients differ from llama-server?",
    metric="counts of answers, rejections and texts",
    comparison="the same questions to fresh servers of both kinds, taking turns",
    difference="rejections are exact and take no decode step; texts of ours are the same within a shape",
    config=Semantics,
    run=run,
)
