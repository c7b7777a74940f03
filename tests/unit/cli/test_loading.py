"""From a configuration to the rules by which prefixes are reused."""

from dataclasses import replace

import pytest

from arriero.backend.protocol import ReuseSupport
from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.cli.loading import engine_options, load_model, no_reuse, reuse_rules, swap_tokens
from arriero.core.config import BackendKind, CacheScope, KvLayout, PreemptKind, SessionReuse
from arriero.core.config_rules import resolve
from arriero.core.errors import ConfigError
from arriero.kv.reuse import ReuseRules
from arriero.scheduler.policy_spec import PolicySpec
from arriero.testing.fakes import FaultyBackend
from arriero.testing.faults import Uncuttable

ALL = ReuseSupport(trim=True, copy=True, save=True, bytes_per_token=1024)
SESSION: dict[str, object] = {"cache_scope": CacheScope.SESSION}


@pytest.mark.parametrize(
    ("settings", "rules"),
    [
        ({}, ReuseRules(host_tokens=1 << 20, min_partial=16)),
        ({"kv": KvLayout.UNIFIED}, ReuseRules()),
        ({"cache_ram": 1}, ReuseRules(host_tokens=1024, min_partial=16)),
        ({"reuse_regenerate": False}, ReuseRules(host_tokens=1 << 20, min_partial=16, regenerate=False)),
        ({"retained_ttl": 1.5, "cache_ram": 0}, ReuseRules(max_age=1_500_000, min_partial=16)),
        ({"exact": True, "cache_ram": 0}, ReuseRules(keeps_answers=False, min_suffix=2, min_partial=16)),
        (
            {**SESSION, "session_reuse": SessionReuse.EXACT, "cache_ram": 0},
            ReuseRules(per_session=True, partial=False, max_age=600_000_000, follows=False),
        ),
        (
            {**SESSION, "session_reuse": SessionReuse.LCP, "cache_ram": 0, "retained_ttl": 0.0},
            ReuseRules(per_session=True, min_partial=32, follows=False),
        ),
        (
            {**SESSION, "session_reuse": SessionReuse.LCP, "lcp_min_tokens": 4, "cache_ram": 0, "retained_ttl": 0.0},
            ReuseRules(per_session=True, min_partial=4, follows=False),
        ),
    ],
)
def test_the_rules_follow_the_flags(settings: dict[str, object], rules: ReuseRules) -> None:
    assert reuse_rules(resolve(settings), ALL) == rules


def test_a_memory_that_cannot_be_saved_has_no_host_store() -> None:
    assert reuse_rules(resolve({}), replace(ALL, save=False)).host_tokens == 0
    assert reuse_rules(resolve({}), replace(ALL, bytes_per_token=0)).host_tokens == 0


def test_why_nothing_is_reused_is_one_phrase() -> None:
    assert no_reuse(resolve({}), ALL) is None
    assert no_reuse(resolve({"reuse": False}), ALL) == "off"
    refused = replace(ALL, copy=False, reason="it cannot be shared")
    assert no_reuse(resolve({}), refused) == "unsupported: it cannot be shared"


def test_the_engine_gets_rules_only_where_the_memory_can_follow_them() -> None:
    backend = SyntheticBackend(SyntheticOptions())
    config = resolve({"kv": KvLayout.UNIFIED})
    assert engine_options(config, backend).reuse is not None
    assert engine_options(config, backend).retained == 56
    assert engine_options(config, FaultyBackend(backend, Uncuttable())).reuse is None


def test_a_model_is_loaded_with_an_id_for_each_retained_run() -> None:
    loaded = load_model(resolve({"backend": BackendKind.SYNTHETIC, "kv": KvLayout.UNIFIED, "retained": 5}))
    assert loaded.backend.limits.num_sequences == 13
    loaded.close()


def test_room_for_preempted_requests_is_that_for_runs_or_where_there_is_none_a_room_of_its_own() -> None:
    gib = 1 << 20  # tokens, of 1,024 bytes each
    cases: list[tuple[dict[str, object], int, int]] = [
        ({}, gib, gib),
        ({"kv": KvLayout.UNIFIED}, 0, gib),
        ({"reuse": False}, 0, gib),
        ({"cache_ram": 3}, 3 * 1024, 3 * 1024),
        ({"cache_ram": 0}, 0, 0),
        ({"preempt": PreemptKind.RECOMPUTE}, gib, 0),
        ({"preempt": PreemptKind.RECOMPUTE, "kv": KvLayout.UNIFIED}, 0, 0),
    ]
    for settings, for_runs, for_swaps in cases:
        config = resolve(settings)
        assert swap_tokens(config, ALL) == for_swaps
        assert swap_tokens(config, replace(ALL, save=False)) == 0
        if config.reuse:
            assert reuse_rules(config, ALL).host_tokens == for_runs


def test_the_formula_has_a_store_for_preempted_requests_only() -> None:
    config = resolve({"backend": BackendKind.SYNTHETIC})
    loaded = load_model(config)
    options = engine_options(config, loaded.backend)
    assert options.swap is not None
    assert options.swap_tokens > config.ctx_size
    assert options.reuse is not None
    assert options.reuse.host_tokens == 0
    loaded.close()
    config = resolve({"backend": BackendKind.SYNTHETIC, "preempt": PreemptKind.RECOMPUTE})
    assert engine_options(config, load_model(config).backend).swap is None


def test_a_swap_that_has_nowhere_to_go_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match=r"--preempt swap: .* use --cache-ram 1 or more"):
        resolve({"preempt": PreemptKind.SWAP, "cache_ram": 0})
    assert resolve({"preempt": PreemptKind.SWAP, "reuse": False}).swap_mib > 0


def test_the_engine_gets_the_policy_of_the_flags_with_its_ageing_in_microseconds() -> None:
    backend = SyntheticBackend(SyntheticOptions())
    assert engine_options(resolve({}), backend).policy == PolicySpec()
    found = engine_options(resolve({"policy": "priority", "ageing": 2.5}), backend).policy
    assert found == PolicySpec(word="priority", ageing=2_500_000)


def test_a_policy_that_cannot_be_had_is_told_before_a_model_is_loaded() -> None:
    config = resolve({"policy": "no_such_module:Order", "model": "/no/such/model.gguf"})
    with pytest.raises(ConfigError, match="policy no_such_module:Order: there is no module no_such_module"):
        load_model(config)
