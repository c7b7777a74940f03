import itertools

import numpy as np
import pytest

from arriero.lab.machine.ceilings import CeilingPlan
from arriero.lab.machine.numpy_probe import NumpyProbe
from arriero.record.cpu_lab.machine_result import CeilingKind

PLAN = CeilingPlan(threads=(1, 3), isa=(), array_bytes=2**16, milliseconds=1, repetitions=2)


def test_rates_follow_from_the_clock() -> None:
    ticks = itertools.count(0, 1000)  # a microsecond passes between two looks
    found = NumpyProbe(clock=lambda: next(ticks)).measure(PLAN, lambda _line: None)
    by_kind = {(each.kind, each.threads): each for each in found.ceilings}
    assert by_kind[CeilingKind.READ, 1].rates == pytest.approx((2**16 / 1e-6,) * 2)
    assert by_kind[CeilingKind.COPY, 3].rates == pytest.approx((2 * 2**16 / 1e-6,) * 2)
    assert by_kind[CeilingKind.TRIAD, 3].rates == pytest.approx((5 * 2**16 / 1e-6,) * 2)
    assert by_kind[CeilingKind.FP32, None].rates == pytest.approx((2 * 1024**3 / 1e-6,) * 2)


def test_it_is_labelled_and_says_what_is_missing() -> None:
    told: list[str] = []
    found = NumpyProbe().measure(PLAN, told.append)
    assert {each.variant for each in found.ceilings} == {"numpy"}
    assert "int8-dot" in found.reasons
    assert np.__version__ in NumpyProbe().method
    assert len(told) == len(found.ceilings) == 7
