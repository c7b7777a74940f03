"""Cells of the end-to-end experiment: one placement, one workload, one fresh server, one client.

    whole    whole bodies, one after the other
    stream   streams, one after the other
    left     a stream that its client leaves after some tokens, then at once a probe for one token; and so on

Every server has one slot, so a probe can only be answered once the slot of the stream that was left has come back.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from arriero.bench.ask import Ask
from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.placements import PlacementWord
from arriero.bench.experiments.served import Served, ServeOptions, ServerLog, served
from arriero.core.ids import TokenId
from arriero.metrics.client_life import ClientLife

Kind: TypeAlias = Literal["whole", "stream", "left"]

GREEDY: Final = {"temperature": 0, "ignore_eos": True}
LOOKS: Final = 200
"""How often the door is looked at until its last place is free; each look is a step boundary of the engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What every cell has in common.

    Attributes:
        prompt: of every request.
        trials: measured; one more comes first.
        gate_budget: tokens of the requests whose text must be the same in every cell.
        left_budget: tokens that a stream asks for which its client leaves.
        left_after: tokens after which it leaves.
        slot_tokens, threads: of the server.
    """

    model: ModelSettings
    prompt: str
    trials: int
    gate_budget: int
    left_budget: int
    left_after: int
    slot_tokens: int
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftStream:
    """One stream that its client left, and what followed.

    Attributes:
        life: of the stream.
        probe: of the request for one token that was sent at once.
        in_flight: places taken at the door after the probe was answered, when it had settled.
        looks: how often the door had to be looked at until then.
    """

    life: ClientLife
    probe: ClientLife
    in_flight: int
    looks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What came of one cell.

    Attributes:
        budget: tokens asked for.
        gate: the request before everything else, whose text is the gate.
        lives: of the measured requests.
        left: the streams that their client left; empty in cells of another kind.
        sanity: the request after everything else; None in cells of another kind.
        log: what the server wrote.
    """

    placement: PlacementWord
    kind: Kind
    budget: int
    gate: ClientLife
    lives: tuple[ClientLife, ...]
    left: tuple[LeftStream, ...]
    sanity: ClientLife | None
    log: ServerLog

    @property
    def name(self) -> str:
        """For tables."""
        return cell_name(self.placement, self.kind, self.budget)

    @property
    def problems(self) -> tuple[str, ...]:
        """Why its figures are not to be trusted."""
        more = [each for one in self.left for each in (one.life, one.probe)]
        return self.log.problems_with((self.gate, *self.lives, *more, *(() if self.sanity is None else (self.sanity,))))


def cell_name(placement: PlacementWord, kind: Kind, budget: int) -> str:
    """For tables."""
    return f"{placement} {kind} b{budget}"


async def run_cell(plan: Plan, placement: PlacementWord, kind: Kind, budget: int) -> Cell:
    """Run one on a fresh server.

    Raises:
        PlacementRefused: the placement cannot be had. ServerFailed, CallFailed: the server does not serve.
    """
    options = ServeOptions(
        slots=1,
        slot_tokens=plan.slot_tokens,
        backlog=1,
        threads=plan.threads,
        placement=placement,
    )
    async with served(plan.model, options) as server:
        client = _Client(plan, server, await server.tokens_of(plan.prompt, add_special=True))
        gate = await client.ask("gate", plan.gate_budget)
        lives: list[ClientLife] = []
        left: list[LeftStream] = []
        sanity: ClientLife | None = None
        if kind == "left":
            left = [await client.leave(number) for number in range(plan.trials)]
            sanity = await client.ask("sanity", plan.gate_budget)
        else:
            await client.ask("warm-up", budget, stream=kind == "stream")
            stream = kind == "stream"
            lives = [await client.ask(f"trial-{number}", budget, stream=stream) for number in range(plan.trials)]
        log = await server.stop()
    return Cell(
        placement=placement,
        kind=kind,
        budget=budget,
        gate=gate,
        lives=tuple(lives),
        left=tuple(left),
        sanity=sanity,
        log=log,
    )


class _Client:
    """The one client of a cell."""

    def __init__(self, plan: Plan, server: Served, prompt: tuple[TokenId, ...]) -> None:
        self._plan = plan
        self._server = server
        self._prompt = prompt

    async def ask(
        self, request_id: str, budget: int, *, stream: bool = False, cancel_after: int | None = None
    ) -> ClientLife:
        """One request, to its end."""
        ask = Ask(
            request_id=request_id,
            prompt=self._prompt,
            max_tokens=budget,
            stream=stream,
            fields=GREEDY,
            cancel_after=cancel_after,
        )
        return await self._server.target.ask(ask, None)

    async def leave(self, number: int) -> LeftStream:
        """Leave a stream, ask for one token at once, and look until the door has no place taken."""
        plan = self._plan
        life = await self.ask(f"left-{number}", plan.left_budget, stream=True, cancel_after=plan.left_after)
        probe = await self.ask(f"probe-{number}", 1)
        looks = 0
        in_flight = 1
        while in_flight and looks < LOOKS:
            in_flight = await self._server.in_flight()
            looks += 1
        return LeftStream(life=life, probe=probe, in_flight=in_flight, looks=looks)
