"""ServeConfig: everything that can be set, in one table.

Flags, `ARRIERO_...` variables, TOML keys, the manual and `/debug/config` are all derived from the fields below; a new
setting is a new field and nothing else. What the settings mean together is in `config_rules.py`.
"""

from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Final, get_type_hints

from arriero.core.choices import (
    BackendKind,
    CacheScope,
    FlashAttention,
    KvLayout,
    KvType,
    LogFormat,
    LogLevel,
    PlacementKind,
    PolicyWord,
    PreemptKind,
    SessionReuse,
)
from arriero.core.option import Option, Spec
from arriero.core.option_kinds import (
    Bytes,
    Cap,
    Numbers,
    Real,
    RealCap,
    Switch,
    Text,
    Texts,
    ThreadCounts,
    Threads,
    Whole,
    Word,
    WordOrClass,
)

__all__ = [
    "AGEING_S",
    "HOST_MIB",
    "LCP_MIN_TOKENS",
    "MAX_SEQUENCES",
    "OPTIONS",
    "RETAINED_UNIFIED",
    "SESSION_TTL_S",
    "STUCK_AFTER_S",
    "TOKENS_A_SEQUENCE",
    "BackendKind",
    "CacheScope",
    "FlashAttention",
    "KvLayout",
    "KvType",
    "LogFormat",
    "LogLevel",
    "PlacementKind",
    "PolicyWord",
    "PreemptKind",
    "ServeConfig",
    "SessionReuse",
    "options_of",
]

MAX_SEQUENCES: Final = 256  # sequence ids of one llama.cpp context
RETAINED_UNIFIED: Final = 56  # ids that cost nothing: they share one pool of cells
HOST_MIB: Final = 1024
SESSION_TTL_S: Final = 600.0
AGEING_S: Final = 10.0
STUCK_AFTER_S: Final = 60.0

MODEL: Final = "Model and memory"
REUSE: Final = "Prefix reuse"
STEP: Final = "Steps and order"
LOAD: Final = "Waiting and overload"
HTTP: Final = "HTTP"
TELL: Final = "Logs and diagnostics"

_SEQUENCES: Final = Whole(1, MAX_SEQUENCES, f"llama.cpp has at most {MAX_SEQUENCES} sequence ids")
_NUM_SEQUENCES: Final = 8
TOKENS_A_SEQUENCE: Final = 2048
LCP_MIN_TOKENS: Final = 32
_NO_LIMIT: Final = "0 (no limit)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """The configuration of one server."""

    model: Annotated[
        str, Spec(MODEL, Text("MODEL"), "a GGUF file, `smollm2-135m` (embedded), or `hf:OWNER/NAME/FILE`")
    ] = "smollm2-135m"
    backend: Annotated[
        BackendKind, Spec(MODEL, Word(BackendKind), "what computes: llama.cpp, or a formula without a model")
    ] = BackendKind.LLAMA
    ctx_size: Annotated[
        int,
        Spec(
            MODEL,
            Whole(1),
            f"KV cells of all sequences together; without it {TOKENS_A_SEQUENCE:,} for each of --sequences, "
            "and of --retained with --kv separate",
            unit="tokens",
        ),
    ] = TOKENS_A_SEQUENCE * _NUM_SEQUENCES
    sequences: Annotated[int, Spec(MODEL, _SEQUENCES, "requests that run at once", unit="requests")] = _NUM_SEQUENCES
    kv: Annotated[
        KvLayout, Spec(MODEL, Word(KvLayout), "one pool of KV cells for all, or a stream for each sequence")
    ] = KvLayout.SEPARATE
    kv_type: Annotated[
        KvType, Spec(MODEL, Word(KvType), "how a number in KV memory is stored; q8_0 and q4_0 need flash attention")
    ] = KvType.F16
    flash_attn: Annotated[
        FlashAttention,
        Spec(MODEL, Word(FlashAttention), "fused attention; auto tries at the start which is faster here"),
    ] = FlashAttention.AUTO
    exact: Annotated[
        bool,
        Spec(
            MODEL,
            Switch(),
            "an answer's bits do not depend on other requests; implies separate KV and no flash attention",
        ),
    ] = False
    threads: Annotated[
        Threads | None,
        Spec(
            MODEL,
            ThreadCounts(),
            "compute threads: N, or N for decode and M for prefill",
            unit="threads",
            unset="the cores available",
        ),
    ] = None
    align_work: Annotated[
        bool, Spec(MODEL, Switch(), "work buffers of the CPU backend begin at a page, so that prompts compute faster")
    ] = True
    n_gpu_layers: Annotated[int, Spec(MODEL, Whole(-1), "layers computed on a GPU; -1 is all", unit="layers")] = 0
    reuse: Annotated[
        bool, Spec(REUSE, Switch(), "prompts start from what was computed before for the same beginning")
    ] = True
    cache_scope: Annotated[
        CacheScope,
        Spec(REUSE, Word(CacheScope), "who shares prefixes: one session's requests, one API key's, or all"),
    ] = CacheScope.KEY
    session_reuse: Annotated[
        SessionReuse,
        Spec(
            REUSE,
            Word(SessionReuse),
            "reuse by the published rules of sessions: whole runs, or common beginnings too; needs that cache scope",
        ),
    ] = SessionReuse.OFF
    lcp_min_tokens: Annotated[
        int, Spec(REUSE, Whole(1), "the shortest common beginning that --session-reuse lcp takes", unit="tokens")
    ] = LCP_MIN_TOKENS
    reuse_regenerate: Annotated[
        bool, Spec(REUSE, Switch(), "a prompt that was computed whole is reused up to its last token")
    ] = True
    retained: Annotated[
        int | None,
        Spec(
            REUSE,
            Whole(0, MAX_SEQUENCES - 1),
            "sequence ids beside --sequences for runs whose request has ended",
            unit="runs",
            unset=f"{RETAINED_UNIFIED} with --kv unified, else 0",
        ),
    ] = None
    retained_ttl: Annotated[
        float | None,
        Spec(
            REUSE,
            Real(metavar="S"),
            "how long an unused run is kept; 0 is no limit",
            unit="seconds",
            unset=f"{SESSION_TTL_S:g} with --session-reuse, else 0",
        ),
    ] = None
    cache_ram: Annotated[
        int | None,
        Spec(
            REUSE,
            Whole(0),
            "memory outside the context for runs that had to leave it; 0 is none",
            unit="MiB",
            unset=f"{HOST_MIB} with --kv separate or --cache-dir, else 0",
        ),
    ] = None
    cache_dir: Annotated[
        str | None,
        Spec(REUSE, Text("DIR"), "a folder of one server's own that keeps runs over a restart", unset="off"),
    ] = None
    batch: Annotated[int, Spec(STEP, Whole(1), "rows of one decode call", unit="rows")] = 512
    micro_batch: Annotated[int, Spec(STEP, Whole(1), "rows that llama.cpp computes together, at most", unit="rows")] = (
        512
    )
    prefill_rows_per_seq: Annotated[
        int | None, Spec(STEP, Cap(), "prompt rows of one request in a step", unit="rows", unset=_NO_LIMIT)
    ] = None
    prefill_rows_per_step: Annotated[
        int | None, Spec(STEP, Cap(), "prompt rows of all requests in a step", unit="rows", unset=_NO_LIMIT)
    ] = None
    policy: Annotated[
        str, Spec(STEP, WordOrClass(PolicyWord), "in which order the waiting start, and who yields when KV runs out")
    ] = PolicyWord.FCFS.value
    ageing: Annotated[
        float, Spec(STEP, Real(metavar="S"), "waiting that is worth one level of priority", unit="seconds")
    ] = AGEING_S
    itl_target: Annotated[
        int | None,
        Spec(
            STEP,
            Cap("MS"),
            "prompt rows leave a step that short while answers are under way; needs a cost profile",
            unit="milliseconds",
            unset=_NO_LIMIT,
        ),
    ] = None
    cost_profile: Annotated[
        str | None,
        Spec(
            STEP,
            Text("FILE"),
            "what a step costs here, as `arriero calibrate` wrote it",
            unset="the one that calibrate kept for this model and machine, if any",
        ),
    ] = None
    adapt_threads: Annotated[
        bool | None,
        Spec(
            STEP,
            Switch(),
            "threads follow a step's shape, and yield to a busy neighbour",
            unset="on with a cost profile, else off",
        ),
    ] = None
    preempt: Annotated[
        PreemptKind, Spec(STEP, Word(PreemptKind), "what becomes of the KV of a request that has to yield")
    ] = PreemptKind.AUTO
    displace: Annotated[
        bool, Spec(STEP, Switch(), "a request takes the slot of a running one that goes after it by --policy")
    ] = False
    interrupt_after: Annotated[
        int | None,
        Spec(
            STEP,
            Cap("MS", "0 (never) or more"),
            "a cancel ends a decode call that would go on for longer",
            unit="milliseconds",
            unset="0 (never)",
        ),
    ] = None
    placement: Annotated[
        PlacementKind, Spec(STEP, Word(PlacementKind), "the engine on the server's event loop, or on its own thread")
    ] = PlacementKind.DEDICATED
    engine_cpus: Annotated[
        tuple[int, ...],
        Spec(STEP, Numbers(), "CPUs that the engine's thread is pinned to, such as 0,2-3", unset="not pinned"),
    ] = ()
    check: Annotated[bool, Spec(STEP, Switch(), "verify every invariant after every step; slow")] = False
    backlog: Annotated[
        int, Spec(LOAD, Whole(0), "requests that may wait beside the running ones; the next gets 503", unit="requests")
    ] = 64
    backlog_tokens: Annotated[
        int | None,
        Spec(LOAD, Cap(), "prompt tokens that may wait; a request beyond gets 503", unit="tokens", unset=_NO_LIMIT),
    ] = None
    key_requests: Annotated[
        int | None,
        Spec(LOAD, Cap(), "requests of one API key at once; the next gets 429", unit="requests", unset=_NO_LIMIT),
    ] = None
    key_tokens: Annotated[
        int | None,
        Spec(LOAD, Cap(), "their prompt tokens; a request beyond gets 429", unit="tokens", unset=_NO_LIMIT),
    ] = None
    queue_timeout: Annotated[
        float | None,
        Spec(LOAD, RealCap("S"), "a request that has not started by then gets 503", unit="seconds", unset=_NO_LIMIT),
    ] = None
    stuck_after: Annotated[
        float,
        Spec(LOAD, Real(0.1, metavar="S"), "/health turns red when work waits so long for a step", unit="seconds"),
    ] = STUCK_AFTER_S
    host: Annotated[str, Spec(HTTP, Text("ADDRESS"), "the address to listen on")] = "127.0.0.1"
    port: Annotated[int, Spec(HTTP, Whole(0, 65_535), "the port to listen on; 0 takes a free one")] = 8080
    alias: Annotated[
        str | None, Spec(HTTP, Text("NAME"), "the model's name for clients", unset="taken from the model reference")
    ] = None
    max_prompt_tokens: Annotated[
        int | None,
        Spec(HTTP, Cap(), "the longest prompt that is taken", unit="tokens", unset="0 (what the context holds)"),
    ] = None
    max_body_size: Annotated[int, Spec(HTTP, Bytes(1024), "the longest request body that is taken", unit="bytes")] = (
        8 << 20
    )
    api_key: Annotated[
        tuple[str, ...],
        Spec(HTTP, Texts("KEY"), "a key that clients must send; repeatable, @FILE reads one a line", secret=True),
    ] = field(default=(), repr=False)
    ssl_keyfile: Annotated[str | None, Spec(HTTP, Text("FILE"), "the private key for TLS, PEM")] = None
    ssl_certfile: Annotated[str | None, Spec(HTTP, Text("FILE"), "the certificate for TLS, PEM")] = None
    strict_fields: Annotated[bool, Spec(HTTP, Switch(), "refuse request fields that nobody knows")] = False
    allow_shutdown: Annotated[
        bool, Spec(HTTP, Switch(), "let POST /shutdown end the server; works with --diagnostics only")
    ] = False
    drain_timeout: Annotated[
        float,
        Spec(HTTP, Real(metavar="S"), "how long accepted requests may finish when the server stops", unit="seconds"),
    ] = 30.0
    log_level: Annotated[LogLevel, Spec(TELL, Word(LogLevel), "the least important message that is logged")] = (
        LogLevel.INFO
    )
    log_format: Annotated[LogFormat, Spec(TELL, Word(LogFormat), "lines for people, or JSON lines")] = LogFormat.TEXT
    diagnostics: Annotated[
        str | None,
        Spec(TELL, Text("FILE"), "append a JSON line for each step and request; - is standard error", unset="off"),
    ] = None
    journal: Annotated[
        str | None,
        Spec(
            TELL,
            Text("FILE"),
            "append every step, arrival and cancel, without text and tokens, so that all decisions can be replayed",
            unset="off",
        ),
    ] = None
    trace: Annotated[bool, Spec(TELL, Switch(), "log the life of each request, never its text")] = False

    @property
    def retained_ids(self) -> int:
        """Sequence ids beside those of running requests, for runs whose request has ended."""
        if not self.reuse:
            return 0
        if self.retained is not None:
            return self.retained
        return min(RETAINED_UNIFIED, MAX_SEQUENCES - self.sequences) if self.kv is KvLayout.UNIFIED else 0

    @property
    def sequence_ids(self) -> int:
        """Sequence ids of the context: running + retained."""
        return self.sequences + self.retained_ids

    @property
    def num_streams(self) -> int:
        """KV streams: one pool in the unified layout, else one for each sequence id."""
        return 1 if self.kv is KvLayout.UNIFIED else self.sequence_ids

    @property
    def sequence_tokens(self) -> int:
        """KV cells that one sequence can fill: its share in the separate layout, all of them in the unified one."""
        return self.ctx_size // self.num_streams

    @property
    def host_mib(self) -> int:
        """Room of the host store, MiB; 0: there is none."""
        if not self.reuse:
            return 0
        if self.cache_ram is not None:
            return self.cache_ram
        return HOST_MIB if self.kv is KvLayout.SEPARATE or self.cache_dir is not None else 0

    @property
    def swap_mib(self) -> int:
        """Room outside the context for what preempted requests have computed, MiB; part of `host_mib`, if there is any.

        Not to be asked of settled settings, in which a store for runs that nobody asked for is one that is not wanted.
        """
        if self.preempt is PreemptKind.RECOMPUTE:
            return 0
        return HOST_MIB if self.cache_ram is None else self.cache_ram

    @property
    def retained_ttl_s(self) -> float:
        """How long an unused run is kept, seconds; 0: as long as there is room."""
        if self.retained_ttl is not None:
            return self.retained_ttl
        return 0.0 if self.session_reuse is SessionReuse.OFF else SESSION_TTL_S

    @property
    def shutdown_allowed(self) -> bool:
        """Whether POST /shutdown exists."""
        return self.allow_shutdown and self.diagnostics is not None


def options_of(config: type[Any]) -> tuple[Option, ...]:
    """The table of a dataclass: one option for each field, in the order of the fields."""
    hints = get_type_hints(config, include_extras=True)
    return tuple(Option(each.name, each.default, hints[each.name].__metadata__[0]) for each in fields(config))


OPTIONS: Final = options_of(ServeConfig)
