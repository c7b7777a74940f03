"""The table of settings, what they mean together, and that secrets stay inside."""

from collections.abc import Callable
from dataclasses import fields, replace
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.config import (
    OPTIONS,
    BackendKind,
    CacheScope,
    FlashAttention,
    KvLayout,
    KvType,
    PlacementKind,
    PolicyWord,
    ServeConfig,
    SessionReuse,
)
from arriero.core.config_rules import check, public_view, resolve, settle
from arriero.core.errors import ConfigError
from arriero.core.option import Option, plain, text
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

WORDS = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=12)


# Every value that a kind takes, None left out: a file cannot say it.
VALUES: dict[type[object], Callable[[Any], st.SearchStrategy[object]]] = {
    Whole: lambda kind: st.integers(kind.minimum, 10**9 if kind.maximum is None else kind.maximum),
    Cap: lambda _: st.integers(1, 10**9),
    Bytes: lambda kind: st.integers(kind.minimum, 10**12),
    Real: lambda kind: st.floats(kind.minimum, 1e6, allow_nan=False),
    RealCap: lambda _: st.floats(1e-3, 1e6),
    Switch: lambda _: st.booleans(),
    Text: lambda _: WORDS,
    Texts: lambda _: st.lists(WORDS, min_size=1, max_size=3).map(tuple),
    Word: lambda kind: st.sampled_from(list(kind.words)),
    WordOrClass: lambda kind: st.sampled_from([*(word.value for word in kind.words), "my.module:Class"]),
    ThreadCounts: lambda _: st.builds(Threads, st.integers(1, 512), st.integers(1, 512)),
    Numbers: lambda _: st.lists(st.integers(0, 300), min_size=1, max_size=4).map(tuple),
}


def values_of(option: Option) -> st.SearchStrategy[object]:
    return VALUES[type(option.spec.kind)](option.spec.kind)


@given(st.data())
def test_every_option_reads_what_it_writes(data: st.DataObject) -> None:
    option = data.draw(st.sampled_from(OPTIONS))
    value = data.draw(values_of(option))
    assert option.spec.kind.parse(text(value)) == value
    assert option.spec.kind.accept(plain(value)) == value


@given(st.data())
def test_a_whole_configuration_survives_a_round_trip(data: st.DataObject) -> None:
    settings = {option.name: data.draw(values_of(option)) for option in OPTIONS}
    config = replace(ServeConfig(), **settings)  # type: ignore[arg-type]  # values by name, drawn by kind
    again = {o.name: o.spec.kind.accept(plain(getattr(config, o.name))) for o in OPTIONS}
    assert ServeConfig(**again) == config  # type: ignore[arg-type]  # same


def test_every_field_is_an_option_with_a_sentence_a_range_and_a_good_default() -> None:
    assert [option.name for option in OPTIONS] == [field.name for field in fields(ServeConfig)]
    for option in OPTIONS:
        assert option.spec.says
        assert option.spec.kind.range
        assert option.shown_default
        if option.default not in {None, ()}:
            assert option.spec.kind.accept(plain(option.default)) == option.default, option.name


def test_every_number_has_a_unit() -> None:
    counted = [o for o in OPTIONS if isinstance(o.spec.kind, Whole | Cap | Bytes | Real | RealCap | ThreadCounts)]
    assert [option.name for option in counted if not option.spec.unit] == ["port"]


def test_the_defaults_can_work() -> None:
    check(ServeConfig())


def test_exact_mode_turns_flash_attention_off() -> None:
    assert resolve({"exact": True}).flash_attn is FlashAttention.OFF
    assert resolve({"exact": False}).flash_attn is FlashAttention.AUTO


@pytest.mark.parametrize(
    ("settings", "flag", "remedy"),
    [
        ({"ctx_size": 100}, "--ctx-size 100:", "use 2048 or more, or fewer --sequences"),
        ({"ctx_size": 100, "kv": KvLayout.UNIFIED}, "--ctx-size 100:", "use 256 or more"),
        ({"sequences": 20, "batch": 16, "micro_batch": 16}, "--batch 16:", "use 20 or more, or fewer --sequences"),
        ({"batch": 128}, "--micro-batch 512:", "use 128 or fewer, or a larger --batch"),
        ({"max_prompt_tokens": 2049}, "--max-prompt-tokens 2049:", "use 2048 or fewer, or a larger --ctx-size"),
        ({"exact": True, "kv": KvLayout.UNIFIED}, "--kv unified:", "use separate, or leave out --exact"),
        ({"exact": True, "flash_attn": FlashAttention.ON}, "--flash-attn on:", "use off, or leave out --exact"),
        ({"exact": True, "flash_attn": FlashAttention.AUTO}, "--flash-attn auto:", "use off, or leave out --exact"),
        ({"exact": True, "prefill_rows_per_seq": 1}, "--prefill-rows-per-seq 1:", "use 3 or more"),
        ({"exact": True, "prefill_rows_per_step": 2}, "--prefill-rows-per-step 2:", "use 3 or more"),
        ({"exact": True, "micro_batch": 1}, "--micro-batch 1:", "use 3 or more"),
        ({"kv_type": KvType.Q8_0, "flash_attn": FlashAttention.OFF}, "--kv-type q8_0:", "use f16, bf16 or f32"),
        ({"kv_type": KvType.Q4_0, "exact": True}, "--kv-type q4_0:", "exact mode turns it off; use f16"),
        ({"session_reuse": SessionReuse.LCP}, "--session-reuse lcp:", "add --cache-scope session"),
        ({"lcp_min_tokens": 16}, "--lcp-min-tokens 16:", "leave out --lcp-min-tokens"),
        (
            {"lcp_min_tokens": 16, "session_reuse": SessionReuse.EXACT, "cache_scope": CacheScope.SESSION},
            "--lcp-min-tokens 16:",
            "it is a rule of --session-reuse lcp; add that",
        ),
        ({"retained": 250}, "--retained 250:", "use 248 or fewer, or fewer --sequences"),
        ({"retained": 8, "ctx_size": 2048}, "--ctx-size 2048:", "use 4096 or more, or fewer --retained"),
        ({"cache_dir": "runs", "cache_ram": 0}, "--cache-dir runs:", "use --cache-ram 1 or more"),
        ({"cache_dir": "runs", "backend": BackendKind.SYNTHETIC}, "--cache-dir runs:", "leave out one of the two"),
        ({"reuse": False, "cache_dir": "runs"}, "--cache-dir runs:", "leave out one of the two"),
        ({"reuse": False, "cache_ram": 8}, "--cache-ram 8:", "leave out one of the two"),
        ({"reuse": False, "retained": 8}, "--retained 8:", "leave out one of the two"),
        ({"reuse": False, "retained_ttl": 1.5}, "--retained-ttl 1.5:", "leave out one of the two"),
        (
            {"reuse": False, "session_reuse": SessionReuse.EXACT, "cache_scope": CacheScope.SESSION},
            "--session-reuse exact:",
            "--no-reuse keeps nothing",
        ),
        ({"engine_cpus": (0,), "placement": PlacementKind.SHARED}, "--engine-cpus:", "use --placement dedicated"),
        ({"ageing": 5.0}, "--ageing 5:", "add --policy priority, or leave out --ageing"),
        ({"key_requests": 4}, "--key-requests 4:", "add --api-key, or use --backlog"),
        ({"key_tokens": 400}, "--key-tokens 400:", "add --api-key, or use --backlog"),
        ({"ssl_keyfile": "k"}, "--ssl-keyfile:", "add --ssl-certfile FILE"),
        ({"ssl_certfile": "c"}, "--ssl-certfile:", "add --ssl-keyfile FILE"),
    ],
)
def test_what_cannot_work_together_names_the_flag_and_the_remedy(
    settings: dict[str, object], flag: str, remedy: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        resolve(settings)
    message = str(refused.value)
    assert message.startswith(flag)
    assert remedy in message
    assert "\n" not in message


def test_shutdown_over_http_needs_both_switches() -> None:
    assert not ServeConfig(allow_shutdown=True).shutdown_allowed
    assert not ServeConfig(diagnostics="-").shutdown_allowed
    assert ServeConfig(allow_shutdown=True, diagnostics="-").shutdown_allowed


def test_secrets_are_counted_and_never_shown() -> None:
    config = ServeConfig(api_key=("sesame", "abracadabra"))
    view = public_view(config)
    assert view["api_key"] == "2 hidden"
    assert "sesame" not in repr(config) + repr(view)


def test_the_public_view_is_plain() -> None:
    for value in public_view(ServeConfig(threads=Threads(2, 4), engine_cpus=(0, 1))).values():
        assert not isinstance(value, StrEnum | tuple | Threads)


def test_the_context_follows_the_number_of_sequences() -> None:
    assert resolve({"sequences": 1}).ctx_size == 2048
    without_reuse, short = ServeConfig(reuse=False), ServeConfig(reuse=False, ctx_size=4096)
    assert resolve({"sequences": 20}, without_reuse).ctx_size == 20 * 2048, "as a server has it"
    assert resolve({"sequences": 2}, short).ctx_size == 4096, "defaults that say a context keep it"
    assert resolve({"sequences": 16}).sequence_tokens == 2048
    assert resolve({"sequences": 16, "ctx_size": 8192}).sequence_tokens == 512


def test_two_records_cannot_share_a_file() -> None:
    with pytest.raises(ConfigError, match=r"--journal day\.jsonl: --diagnostics writes there too"):
        resolve({"journal": "day.jsonl", "diagnostics": "day.jsonl"})


def test_retained_runs_have_ids_of_their_own_where_those_cost_nothing() -> None:
    separate, unified = resolve({}), resolve({"kv": KvLayout.UNIFIED})
    assert (separate.sequence_ids, separate.retained_ids) == (8, 0)
    assert (unified.sequence_ids, unified.retained_ids) == (64, 56)
    assert resolve({"kv": KvLayout.UNIFIED, "sequences": 230, "batch": 512}).retained_ids == 26
    assert resolve({"kv": KvLayout.UNIFIED, "reuse": False}).sequence_ids == 8
    assert resolve({"kv": KvLayout.UNIFIED, "retained": 0}).sequence_ids == 8


def test_each_retained_run_of_the_separate_layout_gets_its_share_of_the_context() -> None:
    config = resolve({"retained": 8})
    assert (config.ctx_size, config.sequence_tokens) == (16 * 2048, 2048)
    assert resolve({"retained": 8, "ctx_size": 8192}).sequence_tokens == 512
    unified = resolve({"retained": 8, "kv": KvLayout.UNIFIED})
    assert (unified.ctx_size, unified.sequence_tokens) == (8 * 2048, 8 * 2048)


def test_the_host_store_is_there_where_runs_have_to_leave_or_are_to_last() -> None:
    assert resolve({}).host_mib == 1024
    assert resolve({"kv": KvLayout.UNIFIED}).host_mib == 0
    assert resolve({"kv": KvLayout.UNIFIED, "cache_dir": "runs"}).host_mib == 1024
    assert resolve({"cache_ram": 0}).host_mib == 0
    assert resolve({"reuse": False}).host_mib == 0


def test_runs_of_sessions_age() -> None:
    session: dict[str, object] = {"session_reuse": SessionReuse.LCP, "cache_scope": CacheScope.SESSION}
    assert resolve({}).retained_ttl_s == 0
    assert resolve(session).retained_ttl_s == 600
    assert resolve({**session, "retained_ttl": 0.0}).retained_ttl_s == 0


@given(st.sampled_from(KvLayout), st.booleans(), st.integers(1, 256))
def test_settled_is_what_holds(layout: KvLayout, reuse: bool, sequences: int) -> None:  # noqa: FBT001 - drawn
    config = resolve({"kv": layout, "reuse": reuse, "sequences": sequences})
    settled = settle(config)
    assert None not in {settled.retained, settled.retained_ttl, settled.cache_ram}
    assert (settled.sequence_ids, settled.host_mib) == (config.sequence_ids, config.host_mib)
    check(settled)


def test_a_limit_that_is_off_is_written_as_zero() -> None:
    for option in OPTIONS:
        if isinstance(option.spec.kind, Cap | RealCap):
            assert option.default is None
            assert option.spec.kind.parse("0") is None
            assert option.spec.kind.accept(0) is None
            assert option.shown_default.startswith("0"), option.name


def test_key_limits_and_ageing_go_with_what_they_limit() -> None:
    resolve({"api_key": ("k",), "key_requests": 4, "key_tokens": 400})
    resolve({"policy": PolicyWord.PRIORITY.value, "ageing": 5.0})
    resolve({"policy": "my.module:Class", "ageing": 5.0})
