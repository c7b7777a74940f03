"""Numbers as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.report.written import significant


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.04567, "0.04567"), (4.0884, "4.088"), (751.26, "751.3"), (1083.4, "1,083"), (246_812.3, "246,812")],
)
def test_four_digits_or_more(value: float, text: str) -> None:
    assert significant(value) == text


@given(st.floats(-1e15, 1e15).filter(lambda value: abs(value) >= 1e-3))
def test_it_has_no_exponent_and_lies_within_half_of_its_last_digit(value: float) -> None:
    text = significant(value)
    assert "e" not in text
    assert float(text.replace(",", "")) == pytest.approx(value, rel=5.001e-4)
