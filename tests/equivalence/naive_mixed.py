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
    pending = sorted(requests, key=lambda each: (each.arrival_ms, each.request_id))
    waiting: list[MixedRequest] = []
    slots: list[Life | None] = [None] * num_slots
    done: list[Life] = []
    iterations: list[MixedIteration] = []
    now = 0.0
    while len(done) < len(requests):
        while pending and pending[0].arrival_ms <= now:
            waiting.append(pending.pop(0))
        if not waiting and not any(slots):
            now = max(now, pending[0].arrival_ms)
            continue
        admitted = 0
        if policy is not MixedPolicy.STATIC or not any(slots):
            while waiting and None in slots:
                request = waiting.pop(0)
                slots[slots.index(None)] = Life(request, request.prompt_tokens, request.decode_tokens, now)
                admitted += 1
        active = sum(slot is not None for slot in slots)
        rows: dict[int, tuple[int, int]] = {}  # slot → prefill and decode rows
        if policy is MixedPolicy.FIFO:
            for i, slot in enumerate(slots):
                if slot is not None:
                    rows[i] = (min(slot.prompt_left, n_batch), 0) if slot.prompt_left else (0, 1)
        else:
            rows = {i: (0, 1) for i, slot in enumerate(slots) if slot is not None and not slot.prompt_left}
            room = n_batch - len(rows)
            for i, slot in enumerate(slots):
                if slot is not None and slot.prompt_left and room:
                    rows[i] = (min(slot.prompt_left, room), 0)
                    room -= rows[i][0]
        num_prefill, num_decode = sum(p for p, _ in rows.values()), sum(d for _, d in rows.values())
        if policy is MixedPolicy.FIFO:
            took = 0.0
            for i in sorted(rows):
                prefill, decode = rows[i]
                took += cost.base + cost.prompt_token * prefill + cost.decode_token * decode + cost.stream_emit * decode
            took += cost.active_slot * active
        else:
            took = (
                cost.base
                + cost.prompt_token * num_prefill
                + cost.decode_token * num_decode
                + cost.active_slot * active
                + cost.stream_emit * num_decode
            )
        end = now + took
        completed = 0
        for i, (prefill, decode) in rows.items():
            slot = slots[i]
            assert slot is not None
            slot.prompt_left -= prefill
            if decode:
                slot.decode_left -= 1
                slot.first = end if slot.first < 0 else slot.first
                if not slot.decode_left:
                    slot.finish = end
                    done.append(slot)
                    slots[i] = None
                    completed += 1
        calls = len(rows) if policy is MixedPolicy.FIFO else 1
        iterations.append(MixedIteration(now, end, num_prefill, num_decode, active, calls, took, admitted, completed))
        now = end
    done.sort(key=lambda each: each.request.request_id)
    lives = tuple(MixedLife(each.request, each.assigned, each.first, each.finish) for each in done)
    return MixedRun(lives, tuple(iterations))
