"""Every KV manager passes the same suite; the one of cells in both layouts, under all rules of reuse."""

from collections.abc import Callable

import pytest

from arriero.kv.blocks import BlockManager
from arriero.kv.cells import CellLayout, CellManager
from arriero.kv.places import PlaceManager
from arriero.kv.protocol import KvManager
from arriero.kv.reuse import ReuseRules
from arriero.prefix.content import ContentIndex
from arriero.testing.suites_kv import KV_CHECKS, KvCheck, check_kv

RULES: dict[str, ReuseRules | None] = {
    "without-reuse": None,
    "reuse": ReuseRules(),
    "host-store": ReuseRules(host_tokens=100),
    "sessions": ReuseRules(per_session=True, min_partial=8, regenerate=False),
    "exact": ReuseRules(keeps_answers=False, min_suffix=2),
    "whole-runs": ReuseRules(partial=False, max_retained=1, max_age=5),
}


def cells(*, unified: bool, reuse: ReuseRules | None, swap_tokens: int = 0) -> Callable[[], KvManager]:
    layout = CellLayout(num_sequences=4, num_cells=160 if unified else 256, sequence_limit=64, unified=unified)
    return lambda: CellManager(layout, reuse=reuse, swap_tokens=swap_tokens)


MANAGERS: dict[str, Callable[[], KvManager]] = {
    "swaps-unified": cells(unified=True, reuse=RULES["reuse"], swap_tokens=100),
    "swaps-separate": cells(unified=False, reuse=RULES["exact"], swap_tokens=32),
    "swaps-beside-runs": cells(unified=False, reuse=RULES["host-store"], swap_tokens=100),
    "swaps-only": cells(unified=True, reuse=None, swap_tokens=100),
    "places": lambda: PlaceManager(4),
    "blocks": lambda: BlockManager(12, 16),
    "indexed-blocks": lambda: BlockManager(12, 16, index=ContentIndex(16)),
    **{
        f"cells-{layout}-{name}": cells(unified=layout == "unified", reuse=reuse)
        for layout in ("unified", "separate")
        for name, reuse in RULES.items()
    },
}


@pytest.mark.parametrize("check", KV_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", MANAGERS.values(), ids=MANAGERS)
def test_a_kv_manager_conforms(make: Callable[[], KvManager], check: KvCheck) -> None:
    check(make)


def test_the_suite_runs_every_check_on_fresh_managers() -> None:
    made: list[KvManager] = []

    def make() -> KvManager:
        made.append(PlaceManager(4))
        return made[-1]

    check_kv(make)
    assert len(made) >= len(KV_CHECKS)
