"""The published serving lab, written straight from its description and deliberately naive.

Blocks are a list of small records that is copied before each plan and scanned for everything; requests are scanned for
everything; nothing is shared with the simulator under test. It gives rows as plain dictionaries.
"""

import copy
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from arriero.record.lab_config import LabConfig
from arriero.workload.records import WorkloadRecord


class Refused(Exception):
    """The whole run is refused."""


@dataclass
class Block:
    tokens: int = 0
    refs: int = 0
    epoch: int = 0
    key: tuple[Any, ...] | None = None  # the chain of token tuples, root first
    free: bool = True


@dataclass
class Kv:
    size: int
    blocks: list[Block]
    tables: dict[int, list[int]] = field(default_factory=dict)
    index: dict[tuple[Any, ...], int] = field(default_factory=dict)
    epoch: int = 0
    peak: int = 0
    lookups: int = 0
    hits: int = 0
    misses: int = 0
    matched_blocks: int = 0
    eligible: int = 0
    evicted: list[int] = field(default_factory=list)

    def cached(self) -> list[int]:
        return [i for i, block in enumerate(self.blocks) if not block.free and block.refs == 0]

    def num_free(self) -> int:
        return sum(block.free for block in self.blocks)

    def allocate(self, need: int, tokens: int) -> list[int]:
        """Evict what is missing, then take the lowest ids; `tokens` fill them in order."""
        for _ in range(need - self.num_free()):
            victim = min(self.cached(), key=lambda i: (self.blocks[i].epoch, i))
            del self.index[self.blocks[victim].key or ()]
            self.blocks[victim] = Block()
            self.evicted.append(victim)
        taken = [i for i, block in enumerate(self.blocks) if block.free][:need]
        if taken:
            self.epoch += 1
        for i in taken:
            self.blocks[i] = Block(tokens=min(self.size, tokens), refs=1, epoch=self.epoch, free=False)
            tokens -= min(self.size, tokens)
        self.peak = max(self.peak, len(self.blocks) - self.num_free())
        return taken

    def release(self, request: int) -> None:
        for i in self.tables.pop(request):
            self.blocks[i].refs -= 1
            if self.blocks[i].refs == 0 and self.blocks[i].key is None:
                self.blocks[i] = Block()

    def gauges(self) -> dict[str, Any]:
        allocated = len(self.blocks) - self.num_free()
        tokens = sum(block.tokens for block in self.blocks)
        return {
            "allocated": allocated,
            "free": self.num_free(),
            "utilization": number(allocated / len(self.blocks)),
            "tokens": tokens,
            "fragmentation": allocated * self.size - tokens,
            "cached": len(self.cached()),
            "shared": sum(block.key is not None and block.refs > 0 for block in self.blocks),
        }


@dataclass
class Ask:
    id: int
    record: WorkloadRecord
    admitted: int | None = None
    finished: int | None = None
    matched: int = 0
    scheduled: int = 0
    times: list[int] = field(default_factory=list)

    @property
    def prompt(self) -> list[int] | None:
        return None if self.record.prompt_tokens is None else list(self.record.prompt_tokens)

    @property
    def state(self) -> str:
        return "Finished" if self.finished is not None else "Waiting" if self.admitted is None else "Decoding"

    @property
    def order(self) -> tuple[int, int]:
        return self.record.arrival_time_us, self.id


def number(value: float) -> int | float:
    return int(value) if value == int(value) and value < 1e17 else value


def chains(prompt: list[int], size: int) -> list[tuple[Any, ...]]:
    """The key of each full block: all tokens up to its end, cut into blocks."""
    blocks = [tuple(prompt[i : i + size]) for i in range(0, len(prompt) // size * size, size)]
    return [tuple(blocks[: n + 1]) for n in range(len(blocks))]


def naive_lab(config: LabConfig, records: list[WorkloadRecord]) -> list[dict[str, Any]]:
    ordered = sorted(records, key=lambda each: (each.arrival_time_us, each.request_id))
    asks = [Ask(i + 1, each) for i, each in enumerate(ordered)]
    if config.execution_mode == "single_active_fcfs":
        return closed_form(config, asks)
    return batches(config, asks)


def closed_form(config: LabConfig, asks: list[Ask]) -> list[dict[str, Any]]:
    costs, free = config.backend, 0
    for ask in asks:
        prompt, output = ask.record.prompt_token_count, ask.record.max_new_tokens
        ask.admitted = max(free, ask.record.arrival_time_us)
        prefill = costs.prefill_base_us + costs.prefill_per_token_us * prompt + costs.prefill_per_active_sequence_us
        decode = costs.decode_base_us + costs.decode_per_active_sequence_us
        ask.scheduled = prompt
        ask.times = [ask.admitted + prefill + k * decode for k in range(1, output + 1)]
        ask.finished = free = ask.admitted + prefill + output * decode
    summary = dict.fromkeys((
        "scheduling_iterations", "nonempty_batches", "idle_iterations", "total_scheduled_sequences",
        "max_scheduled_tokens", "current_allocated_blocks", "current_free_blocks", "peak_allocated_blocks",
        "kv_current_utilization", "kv_peak_utilization", "represented_kv_tokens", "internal_fragmentation_tokens",
        "cached_blocks", "shared_referenced_blocks", "prefix_token_hit_rate", "scheduling_policy",
    )) | dict.fromkeys((
        "deferred_requests", "kv_capacity_deferrals", "prefix_lookups", "prefix_lookup_hits", "prefix_lookup_misses",
        "matched_prefix_blocks", "matched_prefix_tokens", "cache_eligible_prompt_tokens",
        "saved_simulated_prefill_tokens", "eviction_count",
    ), 0)  # fmt: skip
    summary |= {
        "makespan_us": free,
        "average_batch_size": 1 if asks else None,
        "max_batch_size": 1 if asks else 0,
        "run_status": "completed",
    }
    return [*map(request_row, asks), summary_row(config, asks, summary)]


def batches(config: LabConfig, asks: list[Ask]) -> list[dict[str, Any]]:
    limit, cache = config.max_batched_tokens, config.prefix_cache.enabled
    if any(a.record.prompt_token_count > limit and not (cache and a.prompt is not None) for a in asks):
        raise Refused
    return Batches(config, asks).run()


class Plan:
    """What one iteration does, found on a copy of the blocks that becomes the state when the plan is complete."""

    def __init__(self, config: LabConfig, kv: Kv) -> None:
        self.config = config
        self.kv = copy.deepcopy(kv)
        self.kv.evicted = []
        self.used = 0
        self.prefills: list[tuple[Ask, int]] = []
        self.decodes: list[Ask] = []
        self.deferred: list[dict[str, Any]] = []

    def is_looked_up(self, ask: Ask) -> bool:
        return self.config.prefix_cache.enabled and ask.prompt is not None

    def matched(self, ask: Ask) -> list[int]:
        found: list[int] = []
        for chain in chains(ask.prompt or [], self.kv.size) if self.is_looked_up(ask) else []:
            if chain not in self.kv.index:
                break
            found.append(self.kv.index[chain])
        return found

    def visit_prompt(self, ask: Ask) -> None:
        kv, matched, length = self.kv, self.matched(ask), ask.record.prompt_token_count
        cost, limit = length - len(matched) * kv.size, self.config.max_batched_tokens
        if length > limit and (not matched or cost > limit):
            raise Refused
        need = -(-cost // kv.size)
        if not self.fits(ask, cost, need, matched):
            return
        self.prefills.append((ask, len(matched)))
        if self.is_looked_up(ask):
            kv.lookups += 1
            kv.eligible += length // kv.size * kv.size
            kv.hits += bool(matched)
            kv.misses += not matched
            kv.matched_blocks += len(matched)
            kv.epoch += bool(matched)
        for i in matched:
            kv.blocks[i].refs += 1
            kv.blocks[i].epoch = kv.epoch
        kv.tables[ask.id] = matched + kv.allocate(need, cost)

    def visit_decode(self, ask: Ask) -> None:
        kv, table = self.kv, self.kv.tables[ask.id]
        last = kv.blocks[table[-1]] if table else None
        need = int(last is None or last.tokens == kv.size or last.key is not None or last.refs > 1)
        if not self.fits(ask, 1, need, []):
            return
        self.decodes.append(ask)
        if need:
            table += kv.allocate(1, 1)
        elif last is not None:
            last.tokens += 1
            kv.epoch += 1
            last.epoch = kv.epoch

    def fits(self, ask: Ask, cost: int, need: int, matched: list[int]) -> bool:
        evictable = [i for i in self.kv.cached() if i not in matched]
        reasons = {
            "token budget": cost > self.config.max_batched_tokens - self.used,
            "sequence budget": len(self.prefills) + len(self.decodes) >= self.config.max_num_sequences,
            "KV capacity": need > self.kv.num_free() + len(evictable),
        }
        reason = next((each for each, holds in reasons.items() if holds), None)
        if reason is not None:
            self.deferred.append({"reason": reason, "request_id": ask.id})
            return False
        self.used += cost
        return True

    def cost(self) -> int:
        costs, num_prefill = self.config.backend, self.used - len(self.decodes)
        return (
            costs.batch_base_us
            + costs.batch_prefill_per_token_us * num_prefill
            + costs.batch_decode_per_sequence_us * len(self.decodes)
            + costs.batch_active_sequence_overhead_us * (len(self.prefills) + len(self.decodes))
        )

    def apply(self, start: int, end: int) -> None:
        for ask, n in self.prefills:
            ask.admitted, ask.matched = start, n * self.kv.size
            ask.scheduled = ask.record.prompt_token_count - ask.matched
            ask.finished = end if ask.record.max_new_tokens == 0 else None
        for ask in self.decodes:
            ask.times.append(end)
            ask.finished = end if len(ask.times) == ask.record.max_new_tokens else None
        for ask, n in self.prefills:
            if self.is_looked_up(ask):
                self.publish(ask, n)
        for ask in [ask for ask, _ in self.prefills] + self.decodes:
            if ask.finished is not None:
                self.kv.release(ask.id)

    def publish(self, ask: Ask, num_matched: int) -> None:
        kv = self.kv
        for i, chain in list(enumerate(chains(ask.prompt or [], kv.size)))[num_matched:]:
            if chain not in kv.index:
                block = kv.tables[ask.id][i]
                kv.epoch += 1
                kv.index[chain] = block
                kv.blocks[block].key, kv.blocks[block].epoch = chain, kv.epoch


class Batches:
    """The loop."""

    def __init__(self, config: LabConfig, asks: list[Ask]) -> None:
        self.config = config
        self.asks = asks
        self.kv = Kv(config.kv_cache.block_size_tokens, [Block() for _ in range(config.kv_cache.total_blocks)])
        self.rows: list[dict[str, Any]] = []
        self.clock = 0
        self.stalled = False

    def run(self) -> list[dict[str, Any]]:
        while not self.stalled and any(ask.state != "Finished" for ask in self.asks):
            self.step()
        return [*self.rows, *map(request_row, self.asks), summary_row(self.config, self.asks, self.summary())]

    def step(self) -> None:
        decoding = [ask for ask in self.asks if ask.state == "Decoding"]
        waiting = [ask for ask in self.asks if ask.state == "Waiting"]
        arrived = [ask for ask in waiting if ask.record.arrival_time_us <= self.clock]
        plan = Plan(self.config, self.kv)
        if not decoding and not arrived:
            self.advance(plan, min(ask.record.arrival_time_us for ask in waiting))
            return
        candidates = sorted(decoding, key=lambda a: a.order) + sorted(arrived, key=lambda a: a.order)
        if self.config.scheduling_policy == "FcfsMixed":
            candidates.sort(key=lambda a: a.order)
        for ask in candidates:
            if ask.state == "Waiting":
                plan.visit_prompt(ask)
            else:
                plan.visit_decode(ask)
        self.stalled = not plan.prefills and not plan.decodes
        end = self.clock if self.stalled else self.clock + plan.cost()
        plan.apply(self.clock, end)
        self.advance(plan, end)

    def advance(self, plan: Plan, end: int) -> None:
        self.kv = plan.kv
        self.rows.append(iteration(self.config, len(self.rows) + 1, (self.clock, end), plan, stall=self.stalled))
        self.clock = end

    def summary(self) -> dict[str, Any]:
        kv, rows, gauges = self.kv, self.rows, self.kv.gauges()
        full = [row for row in rows if row["scheduled_sequences"]]
        deferrals = [each["reason"] for row in rows for each in row["deferred"]]
        sequences = sum(row["scheduled_sequences"] for row in rows)
        return {
            "makespan_us": self.clock,
            "run_status": "stalled" if self.stalled else "completed",
            "scheduling_policy": self.config.scheduling_policy,
            "scheduling_iterations": len(rows),
            "nonempty_batches": len(full),
            "idle_iterations": len(rows) - len(full) - self.stalled,
            "total_scheduled_sequences": sequences,
            "average_batch_size": number(sequences / len(full)) if full else None,
            "max_batch_size": max((row["scheduled_sequences"] for row in rows), default=0),
            "max_scheduled_tokens": max((row["total_scheduled_tokens"] for row in rows), default=0),
            "deferred_requests": len(deferrals),
            "kv_capacity_deferrals": deferrals.count("KV capacity"),
            "current_allocated_blocks": gauges["allocated"],
            "current_free_blocks": gauges["free"],
            "peak_allocated_blocks": kv.peak,
            "kv_current_utilization": gauges["utilization"],
            "kv_peak_utilization": number(kv.peak / len(kv.blocks)),
            "represented_kv_tokens": gauges["tokens"],
            "internal_fragmentation_tokens": gauges["fragmentation"],
            "cached_blocks": gauges["cached"],
            "shared_referenced_blocks": gauges["shared"],
            "prefix_lookups": kv.lookups,
            "prefix_lookup_hits": kv.hits,
            "prefix_lookup_misses": kv.misses,
            "matched_prefix_blocks": kv.matched_blocks,
            "matched_prefix_tokens": kv.matched_blocks * kv.size,
            "cache_eligible_prompt_tokens": kv.eligible,
            "prefix_token_hit_rate": number(kv.matched_blocks * kv.size / kv.eligible) if kv.eligible else None,
            "saved_simulated_prefill_tokens": kv.matched_blocks * kv.size,
            "eviction_count": sum(len(row["evicted_ids"]) for row in rows),
        }


def iteration(config: LabConfig, count: int, span: tuple[int, int], plan: Plan, *, stall: bool) -> dict[str, Any]:
    gauges, size = plan.kv.gauges(), plan.kv.size
    exact = [n for ask, n in plan.prefills if plan.is_looked_up(ask)]
    num_prefill = plan.used - len(plan.decodes)
    return {
        "record_type": "iteration",
        "schema_version": "serving-simulator-v2",
        "evidence_type": "SIMULATED",
        "iteration_number": count,
        "start_time_us": span[0],
        "end_time_us": span[1],
        "policy": config.scheduling_policy,
        "prefill_ids": [ask.id for ask, _ in plan.prefills],
        "decode_ids": [ask.id for ask in plan.decodes],
        "deferred": plan.deferred,
        "scheduled_sequences": len(plan.prefills) + len(plan.decodes),
        "scheduled_prefill_tokens": num_prefill,
        "scheduled_decode_tokens": len(plan.decodes),
        "total_scheduled_tokens": plan.used,
        "kv_allocated": gauges["allocated"],
        "kv_free": gauges["free"],
        "kv_utilization": gauges["utilization"],
        "internal_fragmentation_tokens": gauges["fragmentation"],
        "represented_kv_tokens": gauges["tokens"],
        "cached_blocks": gauges["cached"],
        "shared_referenced_blocks": gauges["shared"],
        "prefix_hits": sum(n > 0 for n in exact),
        "prefix_misses": sum(n == 0 for n in exact),
        "matched_tokens": sum(n * size for n in exact),
        "evicted_ids": plan.kv.evicted,
        "stall": stall,
    }


def request_row(ask: Ask) -> dict[str, Any]:
    record, times = ask.record, ask.times
    arrival = record.arrival_time_us
    tpot = (times[-1] - times[0]) / (len(times) - 1) if ask.finished is not None and len(times) > 1 else None
    return {
        "record_type": "request",
        "schema_version": "serving-simulator-v2",
        "evidence_type": "SIMULATED",
        "internal_id": ask.id,
        "request_id": record.request_id,
        "workload_class": str(record.workload_class),
        "prefix_group": record.prefix_group,
        "deadline_us": record.deadline_us,
        "metadata": dict(record.metadata or {}),
        "prompt_tokens": ask.prompt,
        "arrival_time_us": arrival,
        "admitted_time_us": ask.admitted,
        "first_token_time_us": times[0] if times else None,
        "finish_time_us": ask.finished,
        "queue_delay_us": None if ask.admitted is None else ask.admitted - arrival,
        "ttft_us": times[0] - arrival if times else None,
        "end_to_end_latency_us": None if ask.finished is None else ask.finished - arrival,
        "tpot_us": None if tpot is None else number(tpot),
        "prompt_tokens_original": record.prompt_token_count,
        "prompt_tokens_matched": ask.matched,
        "prompt_tokens_scheduled": ask.scheduled,
        "generated_tokens": len(times),
        "max_new_tokens": record.max_new_tokens,
        "final_state": ask.state,
        "reason": None,
        "decode_token_times_us": times,
        "inter_token_latencies_us": [b - a for a, b in pairwise(times)],
    }


def summary_row(config: LabConfig, asks: list[Ask], more: dict[str, Any]) -> dict[str, Any]:
    return {
        "record_type": "summary",
        "schema_version": "serving-simulator-v2",
        "evidence_type": "SIMULATED",
        "execution_mode": config.execution_mode,
        "submitted": len(asks),
        "completed": sum(ask.finished is not None for ask in asks),
        "cancelled": 0,
        "rejected": 0,
        "stalled": int(more["run_status"] == "stalled"),
        "kv_allocation_failures": 0,
        "collision_verifications": 0,
        "submitted_prompt_tokens": sum(ask.record.prompt_token_count for ask in asks),
        "scheduled_prefill_tokens": sum(ask.scheduled for ask in asks),
        "scheduled_decode_tokens": sum(len(ask.times) for ask in asks),
        "generated_tokens": sum(len(ask.times) for ask in asks),
    } | more
