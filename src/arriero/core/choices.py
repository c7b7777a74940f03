"""The words that settings choose from."""

from enum import StrEnum


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


class KvType(StrEnum):
    """How one number of the KV memory is stored; what is quantised needs flash attention."""

    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    Q8_0 = "q8_0"
    Q4_0 = "q4_0"


class PlacementKind(StrEnum):
    """Where the actor runs."""

    SHARED = "shared"
    DEDICATED = "dedicated"


class CacheScope(StrEnum):
    """Which requests may see one another's prefixes; a salt in the body narrows each of these."""

    SESSION = "session"  # those of one session of one API key; without a session none
    KEY = "key"  # those of one API key; all, where no keys are needed
    GLOBAL = "global"


class SessionReuse(StrEnum):
    """Whether prefixes are reused by the published rules of sessions, and how much of a run has to match."""

    OFF = "off"  # any run of the scope, by the rules of the tree
    EXACT = "exact"
    LCP = "lcp"  # the longest common prefix, from a least length on


class PolicyWord(StrEnum):
    """In which order the waiting start, among the orders that come with arriero."""

    FCFS = "fcfs"
    PRIORITY = "priority"
    SHORTEST_PREFILL = "shortest-prefill"
    DEADLINE = "deadline"
    FAIR_SHARE = "fair-share"
    LONGEST_MATCH = "longest-match"


class PreemptKind(StrEnum):
    """What becomes of the KV of a request that has to yield."""

    AUTO = "auto"  # whichever is cheaper by the cost profile
    SWAP = "swap"  # kept outside the context, as far as there is room
    RECOMPUTE = "recompute"


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
