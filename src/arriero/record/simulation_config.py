"""SimulationConfig: a simulation in arriero's own mode, schema `arriero-simulation-v1`, in TOML or JSON."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from arriero.core.choices import PolicyWord
from arriero.core.config import AGEING_S, RETAINED_UNIFIED
from arriero.core.errors import DataError
from arriero.record.simulation_cost import StepCost
from arriero.record.strict import Count, Name, Positive, convert, read_table

SCHEMA: Final = "arriero-simulation-v1"

Trace: TypeAlias = Literal["off", "counts", "full"]

_OWN_POLICY: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file."""


class Reuse(_Part, frozen=True, kw_only=True):
    """Prompts start from what was computed before for the same beginning; needs prompts whose tokens are known.

    Attributes:
        cache_scope: who shares: one session's requests, those of one key, or all. A workload has no keys: requests of
            one `prefix_group` are those of one key, and those without a group those of another one.
        session_reuse: the published rules of sessions: whole runs, or common beginnings too; with that scope only.
        lcp_min_tokens: the shortest common beginning that `session_reuse = "lcp"` takes.
        reuse_regenerate: whether a prompt that was computed whole is reused up to its last token.
        retained: sequence ids beside those that run; None: 56 in the unified layout, else none.
        retained_ttl_us: how long an unused run is kept; None: without limit.
        host_tokens: room for runs that had to leave the cells, in tokens.
        keeps_answers: whether decoded tokens are reused, too; false as in exact mode, which keeps prompts only and
            computes at least two tokens of each.
        follows: whether a request waits for a beginning that another prompt is computing.
        answers_return: whether the next turn of a conversation repeats the answer that was given, as that of a client
            does; false if its prompt has an answer that was made up, as a load generator sends it.
    """

    cache_scope: Literal["session", "key", "global"] = "global"
    session_reuse: Literal["off", "exact", "lcp"] = "off"
    lcp_min_tokens: Positive = 32
    reuse_regenerate: bool = True
    retained: Count | None = None
    retained_ttl_us: Positive | None = None
    host_tokens: Count = 0
    keeps_answers: bool = True
    follows: bool = True
    answers_return: bool = True


class Cells(_Part, frozen=True, kw_only=True, tag_field="kind", tag="cells"):
    """llama.cpp's memory: one cell is one token position.

    Attributes:
        num_cells: cells in all; in the separate layout each sequence id has an equal part of them.
        layout: one pool for all sequences, or a stream for each.
        sequence_limit: positions that one sequence may hold; None for all that it can.
        headroom_per_sequence: cells kept free for each running sequence when another one starts.
        reuse: None: every prompt is computed whole.
    """

    num_cells: Positive
    layout: Literal["unified", "separate"] = "unified"
    sequence_limit: Positive | None = None
    headroom_per_sequence: Count = 8
    reuse: Reuse | None = None

    @property
    def retained(self) -> int:
        """Sequence ids beside those that run."""
        if self.reuse is None:
            return 0
        usual = RETAINED_UNIFIED if self.layout == "unified" else 0
        return usual if self.reuse.retained is None else self.reuse.retained

    def stream_of(self, sequences: int) -> int:
        """Cells of the pool, or of one stream, if so many run at once."""
        return self.num_cells if self.layout == "unified" else self.num_cells // (sequences + self.retained)

    def limit_of(self, sequences: int) -> int:
        """Positions of one sequence, if so many run at once."""
        stream = self.stream_of(sequences)
        return stream if self.sequence_limit is None else self.sequence_limit


class Blocks(_Part, frozen=True, kw_only=True, tag_field="kind", tag="blocks"):
    """A paged engine's memory: reference-counted blocks of a fixed size.

    Attributes:
        total_blocks: blocks in all.
        block_size: tokens of one block.
        prefix_cache: whether full blocks of prompts are kept and shared.
        share_within_step: whether equal prompts of one step share from the second on.
    """

    total_blocks: Positive
    block_size: Positive
    prefix_cache: bool = False
    share_within_step: bool = False


class Slots(_Part, frozen=True, kw_only=True, tag_field="kind", tag="slots"):
    """Places for sequences and no limit on tokens."""


class Limits(_Part, frozen=True, kw_only=True):
    """What one step, and the running set, may hold.

    Attributes:
        sequences: requests that run at once.
        rows: rows of one step.
        prefill_rows_per_step: prompt rows of one step; None for no limit but `rows`.
        prefill_rows_per_seq: prompt rows of one sequence in one step; None for no limit but `rows`.
        itl_target_ms: how long a step with decode rows may take; prompt rows are cut to it. Needs `cost.profile`. Unset
            for no limit.
        backlog: requests that may wait beside those that run; another one is refused on arrival. Unset for no limit.
        backlog_tokens: prompt tokens that may wait; a request beyond is refused on arrival. Unset for no limit.
        queue_timeout_ms: a request that has not started after so long is refused. Unset for no limit.
        chunked_prefill: whether a prompt may be computed over several steps; without it, one that is longer than a
            step holds is rejected, alone.
    """

    sequences: Positive
    rows: Positive
    prefill_rows_per_step: Positive | None = None
    prefill_rows_per_seq: Positive | None = None
    itl_target_ms: Annotated[float, Meta(gt=0, le=1e9)] | UnsetType = UNSET
    backlog: Count | UnsetType = UNSET
    backlog_tokens: Positive | UnsetType = UNSET
    queue_timeout_ms: Positive | UnsetType = UNSET
    chunked_prefill: bool = True


class WorkloadSource(_Part, frozen=True, kw_only=True):
    """Where the requests come from: a file, or settings of a generator, relative to the configuration's folder.

    Attributes:
        path: a workload file.
        manifest_path: its manifest, which is checked if it is named.
        generator: settings for `arriero workload generate`; each seed of the configuration makes one workload.
    """

    path: Name | None = None
    manifest_path: Name | None = None
    generator: Name | None = None


class Objectives(_Part, frozen=True, kw_only=True):
    """Upper bounds, whole microseconds; None for one that is not set."""

    ttft_us: Count | None = None
    tpot_us: Count | None = None
    e2e_us: Count | None = None
    largest_gap_us: Count | None = None


class Measured(_Part, frozen=True, kw_only=True):
    """Which part of the run counts as steady: from the first arrival + warm-up to the last arrival - cool-down."""

    warm_up_us: Count = 0
    cool_down_us: Count = 0


class SimulationConfig(_Part, frozen=True, kw_only=True):
    """One configuration.

    Attributes:
        name: of the run.
        planner: how a step is composed.
        policy: who goes first, and who yields: one of `core.choices.PolicyWord`, or `module:Class`.
        ageing_us: waiting that is worth one level of priority; unset: 10 s. Left out of results where it is unset.
        start_rule: when a waiting request may take a place.
        limits: of steps and of the running set.
        kv: the memory.
        cost: how long a step takes.
        workload: the requests.
        seeds: one run for each; empty for one run of a workload as it is.
        slos: objectives.
        window: the steady part; None measures the whole run only.
        trace: step rows in the output: none, with counts of those deferred by reason, or with everybody's id.
    """

    schema_version: Literal["arriero-simulation-v1"]
    name: Name
    planner: Literal["decode-first", "arrival-order"] = "decode-first"
    policy: Name = PolicyWord.FCFS.value
    ageing_us: Count | UnsetType = UNSET
    start_rule: Literal["continuous", "all-slots-free", "one-at-a-time"] = "continuous"
    limits: Limits
    kv: Cells | Blocks | Slots
    cost: StepCost
    workload: WorkloadSource
    seeds: list[Count] = []
    slos: Objectives = Objectives()
    window: Measured | None = None
    trace: Trace = "counts"

    @property
    def ageing(self) -> int:
        """Waiting that is worth one level of priority, in microseconds."""
        return int(AGEING_S * 1_000_000) if isinstance(self.ageing_us, UnsetType) else self.ageing_us


def read_simulation_config(path: Path) -> SimulationConfig:
    """Read a configuration, with the profile that it names.

    Raises:
        DataError: names file, field and remedy.
    """
    config = simulation_config_of(read_table(path), file=str(path))
    if not isinstance(config.kv, Cells):
        return config
    is_unified, sequences = config.kv.layout == "unified", config.limits.sequences
    cost = config.cost.read(path, unified=is_unified, stream_cells=config.kv.stream_of(sequences))
    return replace(config, cost=cost)


def simulation_config_of(values: object, *, file: str, line: int | None = None, below: str = "") -> SimulationConfig:
    """A configuration from what JSON or TOML gave.

    Args:
        values: the table.
        file: named in errors.
        line: named in errors.
        below: the field in which the table stands.

    Raises:
        DataError: a field is missing, unknown, of another type or out of range, or does not go with another one.
    """
    config = convert(values, SimulationConfig, file=file, line=line, below=below)
    place = "" if line is None else f"line {line}: "
    outer = f"{below}." if below else ""

    def require(holds: object, field: str, what: str) -> None:
        if not holds:
            raise DataError(f"{place}{outer}{field}: {what}", file=file, line=line, field=f"{outer}{field}")

    source = config.workload
    one_source = (source.path is None) != (source.generator is None)
    require(one_source, "workload", "names no source or two; give either path or generator")
    require(source.manifest_path is None or source.path, "workload.manifest_path", "goes with path; take it out")
    require(not config.seeds or source.generator, "seeds", "need workload.generator; a file is one workload")
    require(len(set(config.seeds)) == len(config.seeds), "seeds", "hold one twice; take it out")
    for name, holds, what in _unlike(config):
        require(holds, name, what)
    return config


def _unlike(config: SimulationConfig) -> Iterator[tuple[str, bool, str]]:
    """Fields that must go together: a name, whether they do, and what is wrong otherwise."""
    kv, limits = config.kv, config.limits
    yield from _policy_unlike(config)
    yield from config.cost.unlike()
    has_ids = isinstance(kv, Cells) or not config.cost.is_calibrated
    yield "cost.profile", has_ids, 'goes with kv.kind = "cells", since it knows sequence ids; set it'
    yield from _target_unlike(config)
    if isinstance(kv, Cells):
        yield from _cells_unlike(config, kv)
    if isinstance(kv, Blocks):
        shares = kv.prefix_cache or not kv.share_within_step
        yield "kv.share_within_step", shares, "needs kv.prefix_cache = true; set it"
    else:
        has_rows = limits.rows >= limits.sequences
        yield "limits.rows", has_rows, f"is below limits.sequences, {limits.sequences}; each needs one"
    for name in ("prefill_rows_per_step", "prefill_rows_per_seq"):
        cuts = limits.chunked_prefill or getattr(limits, name) is None
        yield f"limits.{name}", cuts, "cuts prompts, so it goes with chunked_prefill = true; take it out"


def _policy_unlike(config: SimulationConfig) -> Iterator[tuple[str, bool, str]]:
    word, kv = config.policy, config.kv
    is_known = word in tuple(PolicyWord) or _OWN_POLICY.fullmatch(word) is not None
    yield "policy", is_known, f"is none of {', '.join(PolicyWord)}, and no module:Class; name one"
    changes = word in (PolicyWord.FAIR_SHARE, PolicyWord.LONGEST_MATCH)
    has_turns = not changes or config.planner == "decode-first"
    yield "policy", has_turns, f'{word} goes with planner = "decode-first"; set it'
    keeps = kv.reuse is not None if isinstance(kv, Cells) else isinstance(kv, Blocks) and kv.prefix_cache
    finds = word != PolicyWord.LONGEST_MATCH or keeps
    yield "policy", finds, "longest-match goes by reused prefixes; set kv.reuse, or kv.prefix_cache of blocks"
    ages = word in (PolicyWord.PRIORITY, PolicyWord.SHORTEST_PREFILL, PolicyWord.DEADLINE)
    is_used = ages or isinstance(config.ageing_us, UnsetType)
    yield "ageing_us", is_used, "goes with the policies priority, shortest-prefill and deadline; take it out"


def _target_unlike(config: SimulationConfig) -> Iterator[tuple[str, bool, str]]:
    if config.limits.itl_target_ms is UNSET:
        return
    yield "limits.itl_target_ms", config.cost.is_calibrated, "needs to know what steps take; give cost.profile"
    decodes_first = config.planner == "decode-first" and config.limits.chunked_prefill
    yield "limits.itl_target_ms", decodes_first, "goes with decode-first and chunked prefill; set them"


def _cells_unlike(config: SimulationConfig, kv: Cells) -> Iterator[tuple[str, bool, str]]:
    limits = config.limits
    ids = limits.sequences + kv.retained
    stream = kv.stream_of(limits.sequences)
    yield "kv.num_cells", stream >= 1, f"is below one cell for each of {ids} sequence ids; raise it"
    where = "kv.num_cells" if kv.layout == "unified" else f"the {stream} cells of one sequence id"
    fits = kv.sequence_limit is None or kv.sequence_limit <= stream
    yield "kv.sequence_limit", fits, f"is above {where}; lower it"
    if kv.reuse is not None:
        goes = kv.reuse.session_reuse == "off" or kv.reuse.cache_scope == "session"
        yield "kv.reuse.session_reuse", goes, 'goes with cache_scope = "session"; set it'
        is_live = (config.planner, config.start_rule) == ("decode-first", "continuous") and limits.chunked_prefill
        yield "kv.reuse", is_live, "goes with decode-first, a continuous start rule and chunked prefill; set them"
