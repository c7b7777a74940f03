"""A workload with prefixes in two worlds: the live actor, on a memory that checks tokens, and the simulator's own mode.

Both say what they counted; times are those of one cost, so that the same requests overlap in the same steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from arriero.backend.protocol import ReuseSupport
from arriero.backend.synthetic import SyntheticOptions
from arriero.backend.synthetic_memory import SyntheticStore
from arriero.bench.experiments.steps import StepLog
from arriero.cli.loading import reuse_rules
from arriero.core.config import CacheScope, KvLayout, ServeConfig, SessionReuse
from arriero.core.events import Admitted
from arriero.core.ids import Epoch, RequestId, TokenId
from arriero.core.request import Request
from arriero.engine.engine import Engine
from arriero.engine.options import EngineOptions
from arriero.kv.reuse import ReuseRules
from arriero.record.sim_reuse import reuse_totals
from arriero.record.sim_rows import SimRequestRow, SimTotals
from arriero.record.simulation_config import Cells, Reuse, SimulationConfig
from arriero.sim.own_answers import Turn, answers_in
from arriero.sim.own_run import run_simulation
from arriero.sim.own_scopes import scope_of, session_of
from arriero.sim.simulator import Submission, VirtualInbox
from arriero.testing.clock import ManualClock
from arriero.testing.fakes import FaultyBackend, ScriptedBackend
from arriero.testing.strategies import Pick
from arriero.workload.notes import Notes, as_metadata, notes_of
from arriero.workload.records import WorkloadClass, WorkloadRecord, numbered
from arriero.workload.tokens import PackedTokens
from tests.equivalence import worlds

VOCABULARY = 50
SAID = 49  # by everybody of whom nothing is known; in no prompt


@dataclass(kw_only=True)
class Counts:
    """What one world counted, by internal id where it is by request."""

    cached: dict[int, int] = field(default_factory=dict[int, int])
    prefix: dict[int, str | None] = field(default_factory=dict[int, str | None])
    prefill_rows: int = 0
    totals: Mapping[str, Any] = field(default_factory=dict[str, Any])


def own_config(sequences: int, rows: int, kv: Mapping[str, Any]) -> SimulationConfig:
    """A configuration whose cost is that of `tests.equivalence.worlds`."""
    values = {
        "schema_version": "arriero-simulation-v1",
        "name": "reuse",
        "limits": {"sequences": sequences, "rows": rows},
        "kv": {"kind": "cells", "headroom_per_sequence": 0, **kv},
        "cost": {"base_us": 1000, "prefill_row_us": 30, "decode_row_us": 70},
        "workload": {"path": "none"},
        "trace": "off",
    }
    return msgspec.convert(values, SimulationConfig)


def simulated_counts(config: SimulationConfig, records: Sequence[WorkloadRecord]) -> Counts:
    """In the simulator, with every invariant checked."""
    counts = Counts()
    for row in run_simulation(config, records, check=True):
        match row:
            case SimRequestRow():
                counts.cached[row.internal_id] = row.cached_tokens
                counts.prefix[row.internal_id] = row.prefix
            case SimTotals(reuse=reuse):
                assert reuse is not None
                counts.prefill_rows = reuse.prefill_rows
                counts.totals = reuse.as_json()
            case _:
                raise AssertionError(row)
    return counts


def live_counts(
    config: SimulationConfig, records: Sequence[WorkloadRecord], script: Mapping[int, Sequence[TokenId]]
) -> Counts:
    """In a live engine, whose clock is moved by hand; what requests say is given."""
    cells, limits = config.kv, config.limits
    assert isinstance(cells, Cells)
    assert cells.reuse is not None
    memory = SyntheticOptions(
        num_sequences=limits.sequences + cells.retained,
        num_rows=limits.rows,
        num_cells=cells.num_cells,
        unified=cells.layout == "unified",
        vocab_size=VOCABULARY,
        end_tokens=frozenset(),
    )
    options = EngineOptions(
        check=True, headroom_per_sequence=0, retained=cells.retained, reuse=rules_of(cells, cells.reuse)
    )
    store = SyntheticStore() if cells.reuse.host_tokens else None
    backend = FaultyBackend(ScriptedBackend(script, filler=SAID, options=memory, store=store))
    log, clock = StepLog(), ManualClock()
    engine = Engine(backend, options, observers=[log], clock=clock)
    inbox = VirtualInbox(submissions(config, records))
    worlds._post(engine, inbox, 0)
    actor = engine._build(0)
    worlds._drive(engine, actor, inbox, clock, worlds.PlannedFaults({}))
    figures = log.records[-1].snapshot.scheduler.reuse
    assert figures is not None
    counts = Counts(prefill_rows=sum(record.plan.shape.prefill_rows for record in log.records))
    counts.totals = reuse_totals(figures, counts.prefill_rows).as_json()
    for event in (event for record in log.records for event in record.events):
        if isinstance(event, Admitted):
            counts.cached.setdefault(event.request.request_id, event.num_cached)
            counts.prefix.setdefault(event.request.request_id, event.prefix)
    return counts


def rules_of(cells: Cells, reuse: Reuse) -> ReuseRules:
    """The same words for an engine: what a server's command line makes of them, but for what only simulations say."""
    flags = ServeConfig(
        kv=KvLayout(cells.layout),
        cache_scope=CacheScope(reuse.cache_scope),
        session_reuse=SessionReuse(reuse.session_reuse),
        lcp_min_tokens=reuse.lcp_min_tokens,
        reuse_regenerate=reuse.reuse_regenerate,
    )
    support = ReuseSupport(trim=True, copy=True, save=False, bytes_per_token=1)
    return replace(
        reuse_rules(flags, support),
        max_age=reuse.retained_ttl_us,
        host_tokens=reuse.host_tokens,
        follows=reuse.follows and reuse.session_reuse == "off",
    )


def submissions(config: SimulationConfig, records: Sequence[WorkloadRecord]) -> list[Submission]:
    """The requests as a caller would send them, numbered as the simulator numbers them."""
    found: list[Submission] = []
    for number, record in enumerate(numbered(records), start=1):
        assert record.prompt_tokens is not None
        request = Request(
            request_id=RequestId(number),
            prompt=tuple(record.prompt_tokens),
            max_tokens=record.max_new_tokens,
            arrival_at=record.arrival_time_us,
            epoch=Epoch(number),
            session_id=session_of(record),
            cache_scope=scope_of(config, record),
        )
        found.append(Submission(request))
    return found


# ── workloads ───────────────────────────────────────────────────────────────────────────────────────────────────────


def pick_traffic(pick: Pick, count: int, horizon_us: int, *, longest: int, stretch: int = 1) -> list[WorkloadRecord]:
    """Families of prompts, conversations that repeat their answers, the same prompt again; many at once.

    Prompt and answer together are at most `longest`. Each token that is picked for a prompt stands `stretch` times in
    it, so that prompts, and what they have in common, are as many times longer; they part anywhere all the same.
    """
    sessions: dict[str, tuple[tuple[int, ...], int, int]] = {}  # name → prompt and answer so far, turn, not before
    prompts: list[tuple[int, ...]] = []
    records: list[WorkloadRecord] = []
    for index in range(count):
        at = pick(0, horizon_us)
        answer = tuple(pick(0, 3) for _ in range(pick(1, 6)))
        session: str | None = None
        turn: int | None = None
        begin: tuple[int, ...] = ()
        kind = pick(0, 3)
        if kind == 0 and prompts:  # the beginning of another one, or all of it
            before = prompts[pick(0, len(prompts) - 1)]
            begin = before[: pick(0, len(before))] if pick(0, 3) else before
        elif kind == 1:
            session = f"s{pick(0, 3)}"
            begin, turn, earliest = sessions.get(session, ((), 0, 0))
            at = max(at, earliest)
        picked = [pick(0, 3) for _ in range(pick(0 if begin else 1, 12))]
        fresh = tuple(token for token in picked for _ in range(stretch))
        prompt = (begin + fresh)[: longest - len(answer)]
        if session is not None and turn is not None:
            is_whole = prompt == begin + fresh
            sessions[session] = (prompt + answer if is_whole else (), turn + 1, at + 1)
        prompts.append(prompt)
        records.append(
            WorkloadRecord(
                request_id=f"r{index:03d}",
                arrival_time_us=at,
                prompt_token_count=len(prompt),
                max_new_tokens=len(answer),
                workload_class=WorkloadClass.CHAT,
                prompt_tokens=PackedTokens(prompt),
                prefix_group=None if pick(0, 1) else f"g{pick(0, 1)}",
                metadata=as_metadata(Notes(session_id=session, turn=turn)),
            )
        )
    return numbered(records)


def said_in(records: Sequence[WorkloadRecord]) -> dict[int, tuple[TokenId, ...]]:
    """What requests say, by internal id: what the next turn of their conversation repeats."""
    turns = (
        Turn(RequestId(number), session_of(record), notes_of(record).turn or 0, record.prompt_tokens,
             record.max_new_tokens)
        for number, record in enumerate(records, start=1)
    )  # fmt: skip
    return {int(number): answer for number, answer in answers_in(turns).items()}
