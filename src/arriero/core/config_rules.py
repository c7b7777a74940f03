"""What the settings mean together: what one implies for another, and what cannot work.

defaults < TOML file < environment < flags      `resolve` → ServeConfig, checked
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from arriero.core.config import (
    OPTIONS,
    TOKENS_A_SEQUENCE,
    FlashAttention,
    KvLayout,
    PlacementKind,
    ServeConfig,
)
from arriero.core.errors import ConfigError
from arriero.core.option import Plain, plain

STREAM_CELLS: Final = 256  # llama.cpp rounds each KV stream up to a multiple of this

MIN_EXACT_ROWS: Final = 3  # three rows can be cut without leaving one alone only if a chunk may hold three


def resolve(settings: Mapping[str, object], defaults: ServeConfig | None = None) -> ServeConfig:
    """Put settings over defaults, follow what they imply, and check the whole.

    Args:
        settings: values by field name, only those that somebody set.
        defaults: what holds otherwise; None for those of `ServeConfig`.

    Raises:
        ConfigError: one line that names the flag and the remedy.
    """
    values: dict[str, Any] = dict(settings)
    if values.get("exact"):
        values.setdefault("flash_attn", FlashAttention.OFF)
    if defaults is None and "sequences" in values:
        values.setdefault("ctx_size", TOKENS_A_SEQUENCE * values["sequences"])
    config = replace(defaults or ServeConfig(), **values)
    check(config)
    return config


def check(config: ServeConfig) -> None:
    """Whether the settings fit each other; each alone is in its range already.

    Raises:
        ConfigError: the first thing that does not; it names the flag and the remedy.
    """
    for rules in (_memory, _exact, _edges):
        for message in rules(config):
            raise ConfigError(message)


def public_view(config: ServeConfig) -> dict[str, Plain]:
    """Every setting as JSON can hold it; of a secret only how many there are."""
    values = {each.name: getattr(config, each.name) for each in OPTIONS}
    return {
        each.name: f"{len(values[each.name])} hidden" if each.spec.secret else plain(values[each.name])
        for each in OPTIONS
    }


def _memory(config: ServeConfig) -> Iterator[str]:
    streams = 1 if config.kv is KvLayout.UNIFIED else config.sequences
    if config.ctx_size < STREAM_CELLS * streams:
        yield (
            f"--ctx-size {config.ctx_size}: too small, llama.cpp gives {streams} KV stream{'s' if streams > 1 else ''} "
            f"{STREAM_CELLS} tokens each at least; use {STREAM_CELLS * streams} or more, or fewer --sequences"
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
