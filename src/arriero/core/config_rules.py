"""What the settings mean together: what one implies for another, and what cannot work.

defaults < TOML file < environment < flags      `resolve` → ServeConfig, checked
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from arriero.core.config import (
    AGEING_S,
    LCP_MIN_TOKENS,
    MAX_SEQUENCES,
    OPTIONS,
    TOKENS_A_SEQUENCE,
    BackendKind,
    CacheScope,
    FlashAttention,
    KvLayout,
    KvType,
    PlacementKind,
    PolicyWord,
    PreemptKind,
    ServeConfig,
    SessionReuse,
)
from arriero.core.errors import ConfigError
from arriero.core.option import Plain, plain

STREAM_CELLS: Final = 256  # llama.cpp rounds each KV stream up to a multiple of this

QUANTISED: Final = frozenset({KvType.Q8_0, KvType.Q4_0})

MIN_EXACT_ROWS: Final = 3  # three rows can be cut without leaving one alone only if a chunk may hold three


def resolve(settings: Mapping[str, object], defaults: ServeConfig | None = None) -> ServeConfig:
    """Put settings over defaults, follow what they imply, and check the whole.

    Args:
        settings: values by field name, only those that somebody set.
        defaults: what holds otherwise; None for those of `ServeConfig`. Where they leave its context as it is, the
            context has room for the sequences, unless it is set.

    Raises:
        ConfigError: one line that names the flag and the remedy.
    """
    values: dict[str, Any] = dict(settings)
    if values.get("exact"):
        values.setdefault("flash_attn", FlashAttention.OFF)
    base = defaults or ServeConfig()
    config = replace(base, **values)
    if base.ctx_size == ServeConfig().ctx_size and "ctx_size" not in values:
        config = replace(config, ctx_size=TOKENS_A_SEQUENCE * max(config.sequences, config.num_streams))
    check(config)
    return config


def settle(config: ServeConfig) -> ServeConfig:
    """The same configuration with a number in place of every default that depends on other settings."""
    return replace(config, retained=config.retained_ids, retained_ttl=config.retained_ttl_s, cache_ram=config.host_mib)


def check(config: ServeConfig) -> None:
    """Whether the settings fit each other; each alone is in its range already.

    Raises:
        ConfigError: the first thing that does not; it names the flag and the remedy.
    """
    for rules in (_ids, _memory, _exact, _reuse, _load, _edges):
        for message in rules(config):
            raise ConfigError(message)


def public_view(config: ServeConfig) -> dict[str, Plain]:
    """Every setting as JSON can hold it; of a secret only how many there are."""
    values = {each.name: getattr(config, each.name) for each in OPTIONS}
    return {
        each.name: f"{len(values[each.name])} hidden" if each.spec.secret else plain(values[each.name])
        for each in OPTIONS
    }


def _ids(config: ServeConfig) -> Iterator[str]:
    if config.sequence_ids > MAX_SEQUENCES:
        room = MAX_SEQUENCES - config.sequences
        yield (
            f"--retained {config.retained_ids}: with {config.sequences} --sequences that makes {config.sequence_ids} "
            f"ids and llama.cpp has {MAX_SEQUENCES}; use {room} or fewer, or fewer --sequences"
        )


def _memory(config: ServeConfig) -> Iterator[str]:
    streams = config.num_streams
    if config.ctx_size < STREAM_CELLS * streams:
        yield (
            f"--ctx-size {config.ctx_size}: too small, llama.cpp gives {streams} KV stream{'s' if streams > 1 else ''} "
            f"{STREAM_CELLS} tokens each at least; use {STREAM_CELLS * streams} or more, or fewer "
            + ("--retained" if streams > config.sequences else "--sequences")
        )
    if config.sequences > config.batch:
        yield (
            f"--batch {config.batch}: each of {config.sequences} sequences needs a row in every step; "
            f"use {config.sequences} or more, or fewer --sequences"
        )
    if config.micro_batch > config.batch:
        yield (
            f"--micro-batch {config.micro_batch}: more than a whole batch; "
            f"use {config.batch} or fewer, or a larger --batch"
        )
    if config.kv_type in QUANTISED and config.flash_attn is FlashAttention.OFF:
        why = "exact mode turns it off" if config.exact else "it is off"
        yield f"--kv-type {config.kv_type}: needs flash attention and {why}; use f16, bf16 or f32"
    if (longest := config.max_prompt_tokens) is not None and longest > config.sequence_tokens:
        yield (
            f"--max-prompt-tokens {longest}: one sequence holds {config.sequence_tokens} tokens; "
            f"use {config.sequence_tokens} or fewer, or a larger --ctx-size"
        )


def _exact(config: ServeConfig) -> Iterator[str]:
    if not config.exact:
        return
    if config.kv is KvLayout.UNIFIED:
        yield "--kv unified: exact mode needs a KV stream for each sequence; use separate, or leave out --exact"
    if config.flash_attn is not FlashAttention.OFF:
        yield f"--flash-attn {config.flash_attn}: exact mode needs it off; use off, or leave out --exact"
    caps = (
        ("--prefill-rows-per-seq", config.prefill_rows_per_seq),
        ("--prefill-rows-per-step", config.prefill_rows_per_step),
        ("--batch", config.batch),
        ("--micro-batch", config.micro_batch),
    )
    for flag, rows in caps:
        if rows is not None and rows < MIN_EXACT_ROWS:
            yield (
                f"{flag} {rows}: exact mode never prefills a single row, so a chunk must hold {MIN_EXACT_ROWS}; "
                f"use {MIN_EXACT_ROWS} or more, or leave out --exact"
            )


def _reuse(config: ServeConfig) -> Iterator[str]:
    session = config.session_reuse
    if not config.reuse:
        for setting in _kept_for_nothing(config):
            yield f"{setting}: --no-reuse keeps nothing; leave out one of the two"
        return
    if session is not SessionReuse.OFF and config.cache_scope is not CacheScope.SESSION:
        yield (
            f"--session-reuse {session}: it looks for the runs of one session only; "
            f"add --cache-scope session, or leave out --session-reuse"
        )
    if config.lcp_min_tokens != LCP_MIN_TOKENS and session is not SessionReuse.LCP:
        yield (
            f"--lcp-min-tokens {config.lcp_min_tokens}: it is a rule of --session-reuse lcp; "
            f"add that, or leave out --lcp-min-tokens"
        )
    if config.cache_dir is not None and config.backend is BackendKind.SYNTHETIC:
        yield (
            f"--cache-dir {config.cache_dir}: --backend synthetic has no KV that could be written; "
            f"leave out one of the two"
        )
    if config.cache_dir is not None and config.host_mib == 0:
        yield (
            f"--cache-dir {config.cache_dir}: what is written goes through memory, and --cache-ram is 0; "
            f"use --cache-ram 1 or more, or leave out --cache-dir"
        )


def _kept_for_nothing(config: ServeConfig) -> Iterator[str]:
    """Settings that say how prefixes are kept."""
    if config.session_reuse is not SessionReuse.OFF:
        yield f"--session-reuse {config.session_reuse}"
    for flag, number in (
        ("--retained", config.retained), ("--cache-ram", config.cache_ram), ("--retained-ttl", config.retained_ttl)
    ):  # fmt: skip
        if number:
            yield f"{flag} {number:g}"
    if config.cache_dir is not None:
        yield f"--cache-dir {config.cache_dir}"


def _load(config: ServeConfig) -> Iterator[str]:
    if config.ageing != AGEING_S and config.policy == PolicyWord.FCFS:
        yield (
            f"--ageing {config.ageing:g}: --policy fcfs knows no priorities that could age; "
            f"add --policy priority, or leave out --ageing"
        )
    if config.displace and config.policy in (PolicyWord.FCFS, PolicyWord.FAIR_SHARE, PolicyWord.LONGEST_MATCH):
        yield (
            f"--displace: --policy {config.policy} has no ranks by which one request goes before another that runs; "
            f"use priority, shortest-prefill or deadline, or leave out --displace"
        )
    if config.preempt is PreemptKind.SWAP and not config.swap_mib:
        yield (
            "--preempt swap: what is swapped goes to memory outside the context, and --cache-ram is 0; "
            "use --cache-ram 1 or more, or --preempt recompute"
        )
    limits = (("--key-requests", config.key_requests), ("--key-tokens", config.key_tokens))
    for flag, limit in limits:
        if limit is not None and not config.api_key:
            yield f"{flag} {limit}: it is a limit on each API key and there are none; add --api-key, or use --backlog"


def _edges(config: ServeConfig) -> Iterator[str]:
    if config.engine_cpus and config.placement is PlacementKind.SHARED:
        yield (
            "--engine-cpus: the shared placement has no thread of its own to pin; "
            "use --placement dedicated, or leave out --engine-cpus"
        )
    if config.journal is not None and config.journal == config.diagnostics:
        yield f"--journal {config.journal}: --diagnostics writes there too and would ruin it; name another file"
    if config.ssl_certfile is not None and config.ssl_keyfile is None:
        yield "--ssl-certfile: a certificate needs its private key; add --ssl-keyfile FILE"
    if config.ssl_keyfile is not None and config.ssl_certfile is None:
        yield "--ssl-keyfile: a private key needs its certificate; add --ssl-certfile FILE"
