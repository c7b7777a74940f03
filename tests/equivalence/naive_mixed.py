"""The published mixed-decode simulator, written straight from its description: lists, loops, no scheduler."""

from dataclasses import dataclass

from arriero.metrics.mixed_decode import MixedCost, MixedIteration, MixedLife, MixedPolicy, MixedRequest, MixedRun


@dataclass
class Life:
    request: MixedRequest
    prompt_left: int
    decode_left: int
    assigned: float
    first: float = -1.0
    finish: float = -1.0


def naive_mixed(
    policy: MixedPolicy, requests: list[MixedRequest], num_slots: int, n_batch: int, cost: MixedCost
) -> MixedRun:
    world = World(policy, requests, num_slots, n_batch, cost)
    while len(world.done) < len(requests):
        world.arrive()
        if world.waiting or any(world.slots):
            world.iterate()
        else:
            world.now = max(world.now, world.pending[0].arrival_ms)
    world.done.sort(key=lambda each: each.request.request_id)
    lives = tuple(MixedLife(each.request, each.assigned, each.first, each.finish) for each in world.done)
    return MixedRun(lives, tuple(world.iterations))


class World:
    def __init__(
        self, policy: MixedPolicy, requests: list[MixedRequest], num_slots: int, n_batch: int, cost: MixedCost
    ) -> None:
        self.policy, self.n_batch, self.cost = policy, n_batch, cost
        self.pending = sorted(requests, key=lambda each: (each.arrival_ms, each.request_id))
        self.waiting: list[MixedRequest] = []
        self.slots: list[Life | None] = [None] * num_slots
        self.done: list[Life] = []
        self.iterations: list[MixedIteration] = []
        self.now = 0.0

    def arrive(self) -> None:
        while self.pending and self.pending[0].arrival_ms <= self.now:
            self.waiting.append(self.pending.pop(0))

    def admit(self) -> int:
        if self.policy is MixedPolicy.STATIC and any(self.slots):
            return 0
        admitted = 0
        while self.waiting and None in self.slots:
            request = self.waiting.pop(0)
            life = Life(request, request.prompt_tokens, request.decode_tokens, self.now)
            self.slots[self.slots.index(None)] = life
            admitted += 1
        return admitted

    def rows(self) -> dict[int, tuple[int, int]]:
        """Slot → prefill and decode rows."""
        held = [(i, slot) for i, slot in enumerate(self.slots) if slot is not None]
        if self.policy is MixedPolicy.FIFO:
            return {i: (min(s.prompt_left, self.n_batch), 0) if s.prompt_left else (0, 1) for i, s in held}
        rows = {i: (0, 1) for i, slot in held if not slot.prompt_left}
        room = self.n_batch - len(rows)
        for i, slot in held:
            if slot.prompt_left and room:
                rows[i] = (min(slot.prompt_left, room), 0)
                room -= rows[i][0]
        return rows

    def took(self, rows: dict[int, tuple[int, int]], active: int) -> float:
        cost = self.cost
        if self.policy is MixedPolicy.FIFO:
            total = 0.0
            for i in sorted(rows):
                prefill, decode = rows[i]
                call = cost.base + cost.prompt_token * prefill + cost.decode_token * decode + cost.stream_emit * decode
                total += call
            return total + cost.active_slot * active
        num_prefill, num_decode = sum(p for p, _ in rows.values()), sum(d for _, d in rows.values())
        shared = cost.base + cost.prompt_token * num_prefill + cost.decode_token * num_decode
        return shared + cost.active_slot * active + cost.stream_emit * num_decode

    def iterate(self) -> None:
        admitted = self.admit()
        active = sum(slot is not None for slot in self.slots)
        rows = self.rows()
        took = self.took(rows, active)
        end = self.now + took
        completed = sum(self.apply(i, prefill, decode, end) for i, (prefill, decode) in rows.items())
        num_prefill, num_decode = sum(p for p, _ in rows.values()), sum(d for _, d in rows.values())
        calls = len(rows) if self.policy is MixedPolicy.FIFO else 1
        self.iterations.append(
            MixedIteration(self.now, end, num_prefill, num_decode, active, calls, took, admitted, completed)
        )
        self.now = end

    def apply(self, i: int, prefill: int, decode: int, end: float) -> bool:
        life = self.slots[i]
        assert life is not None
        life.prompt_left -= prefill
        if not decode:
            return False
        life.decode_left -= 1
        life.first = end if life.first < 0 else life.first
        if life.decode_left:
            return False
        life.finish = end
        self.done.append(life)
        self.slots[i] = None
        return True
