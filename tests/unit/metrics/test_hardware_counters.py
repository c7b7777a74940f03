import pytest

from arriero.metrics.hardware_counters import RATIOS, Figure, median_figure, per_token, quotient

IPC, BRANCH_MISSES, CACHE_MISSES = RATIOS


def test_the_published_quotients_follow_from_the_published_counters() -> None:
    counters = {"instructions": Figure(723.57e9), "cycles": Figure(274.24e9)}
    found = quotient(counters, IPC)
    assert found.value is not None
    assert round(found.value, 3) == 2.638
    tokens = per_token(counters["instructions"], 1024 + 64)
    assert tokens.value is not None
    assert round(tokens.value / 1e6, 1) == 665.0


def test_a_quotient_without_one_of_its_counters_tells_which_and_why() -> None:
    counters = {"cache-misses": Figure(5.0), "cache-references": Figure(None, "not supported")}
    assert quotient(counters, CACHE_MISSES) == Figure(None, "cache-references: not supported")
    assert quotient({}, BRANCH_MISSES) == Figure(None, "branch-misses: not asked for")


def test_nothing_is_divided_by_zero() -> None:
    assert quotient({"instructions": Figure(1.0), "cycles": Figure(0.0)}, IPC) == Figure(None, "cycles is 0")


@pytest.mark.parametrize("tokens", [None, 0])
def test_without_a_number_of_tokens_nothing_is_told_per_token(tokens: int | None) -> None:
    found = per_token(Figure(1.0), tokens)
    assert found.value is None
    assert found.reason


def test_the_median_is_of_those_repetitions_that_counted() -> None:
    assert median_figure([Figure(3.0), Figure(None, "not counted"), Figure(1.0)]) == Figure(2.0)
    assert median_figure([Figure(None, "not counted"), Figure(None, "other")]) == Figure(None, "not counted")
    assert median_figure([]).value is None
