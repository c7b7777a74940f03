"""A CPU to pin to, and a system that gives none."""

import os

import pytest

from arriero.bench.experiments.placements import PlacementRefused, last_cpu, placement_of
from arriero.engine.placement import Dedicated, Shared


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system cannot pin")
def test_last_cpu_is_one_of_ours_and_the_caller_stays_unpinned() -> None:
    before = os.sched_getaffinity(0)
    assert placement_of("pinned") == Dedicated((max(before),))
    assert os.sched_getaffinity(0) == before


def test_only_a_pinned_engine_asks_for_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert placement_of("shared") == Shared()
    assert placement_of("dedicated") == Dedicated()
    with pytest.raises(PlacementRefused, match="cannot pin"):
        placement_of("pinned")


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system cannot pin")
def test_system_that_forbids_pinning_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setaffinity", forbid)
    with pytest.raises(PlacementRefused, match="Operation not permitted"):
        last_cpu()
