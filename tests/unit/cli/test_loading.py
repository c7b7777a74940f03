"""From a configuration to the rules by which prefixes are reused."""

from dataclasses import replace

import pytest

from arriero.backend.protocol import ReuseSupport
from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.cli.loading import engine_options, load_model, no_reuse, reuse_rules
from arriero.core.config import BackendKind, CacheScope, KvLayout, SessionReuse
from arriero.core.config_rules import resolve
from arriero.kv.reuse import ReuseRules
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
