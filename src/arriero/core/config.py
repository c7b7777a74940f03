"""ServeConfig: everything that can be set, in one table.

Flags, `ARRIERO_...` variables, TOML keys, the manual and `/debug/config` are all derived from the fields below; a new
setting is a new field and nothing else. What the settings mean together is in `config_rules.py`.
"""

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Annotated, Any, Final, get_type_hints

from arriero.core.option import Option, Spec
from arriero.core.option_kinds import (
    Bytes,
    Cap,
    Numbers,
    Real,
    Switch,
    Text,
    Texts,
    ThreadCounts,
    Threads,
    Whole,
    Word,
)

MAX_SEQUENCES: Final = 256  # sequence ids of one llama.cpp context


class BackendKind(StrEnum):
    """What computes."""

    LLAMA = "llama"
    SYNTHETIC = "synthetic"


class KvLayout(StrEnum):
    """How KV memory is divided."""

    UNIFIED = "unified"
    SEPARATE = "separate"


class FlashAttention(StrEnum):
    """Whether attention is computed in one fused pass."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class PlacementKind(StrEnum):
    """Where the actor runs."""

    SHARED = "shared"
    DEDICATED = "dedicated"


class LogLevel(StrEnum):
    """The least important message that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a message is written."""

    TEXT = "text"
    JSON = "json"


MODEL: Final = "Model and memory"
STEP: Final = "Steps and queue"
HTTP: Final = "HTTP"
TELL: Final = "Logs and diagnostics"

_SEQUENCES: Final = Whole(1, MAX_SEQUENCES, f"llama.cpp has at most {MAX_SEQUENCES} sequence ids")
_NUM_SEQUENCES: Final = 8
TOKENS_A_SEQUENCE: Final = 2048
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
            f"KV cells of all sequences together; without it {TOKENS_A_SEQUENCE:,} for each of --sequences",
            unit="tokens",
        ),
    ] = TOKENS_A_SEQUENCE * _NUM_SEQUENCES
    sequences: Annotated[int, Spec(MODEL, _SEQUENCES, "requests that run at once", unit="requests")] = _NUM_SEQUENCES
    kv: Annotated[
        KvLayout, Spec(MODEL, Word(KvLayout), "one pool of KV cells for all, or a stream for each sequence")
    ] = KvLayout.SEPARATE
    flash_attn: Annotated[
        FlashAttention, Spec(MODEL, Word(FlashAttention), "fused attention; auto lets llama.cpp choose")
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
    n_gpu_layers: Annotated[int, Spec(MODEL, Whole(-1), "layers computed on a GPU; -1 is all", unit="layers")] = 0
    batch: Annotated[int, Spec(STEP, Whole(1), "rows of one decode call", unit="rows")] = 512
    micro_batch: Annotated[int, Spec(STEP, Whole(1), "rows that llama.cpp computes together", unit="rows")] = 512
    prefill_rows_per_seq: Annotated[
        int | None, Spec(STEP, Cap(), "prompt rows of one request in a step", unit="rows", unset=_NO_LIMIT)
    ] = None
    prefill_rows_per_step: Annotated[
        int | None, Spec(STEP, Cap(), "prompt rows of all requests in a step", unit="rows", unset=_NO_LIMIT)
    ] = None
    backlog: Annotated[
        int, Spec(STEP, Whole(0), "requests that may wait beside the running ones; the next gets 503", unit="requests")
    ] = 64
    placement: Annotated[
        PlacementKind, Spec(STEP, Word(PlacementKind), "the engine on the server's event loop, or on its own thread")
    ] = PlacementKind.DEDICATED
    engine_cpus: Annotated[
        tuple[int, ...],
        Spec(STEP, Numbers(), "CPUs that the engine's thread is pinned to, such as 0,2-3", unset="not pinned"),
    ] = ()
    check: Annotated[bool, Spec(STEP, Switch(), "verify every invariant after every step; slow")] = False
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
    def sequence_tokens(self) -> int:
        """KV cells that one sequence can fill: its share in the separate layout, all of them in the unified one."""
        return self.ctx_size if self.kv is KvLayout.UNIFIED else self.ctx_size // self.sequences

    @property
    def shutdown_allowed(self) -> bool:
        """Whether POST /shutdown exists."""
        return self.allow_shutdown and self.diagnostics is not None


def options_of(config: type[Any]) -> tuple[Option, ...]:
    """The table of a dataclass: one option for each field, in the order of the fields."""
    hints = get_type_hints(config, include_extras=True)
    return tuple(Option(each.name, each.default, hints[each.name].__metadata__[0]) for each in fields(config))


OPTIONS: Final = options_of(ServeConfig)
