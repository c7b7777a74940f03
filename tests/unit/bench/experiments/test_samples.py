import pytest

from arriero.bench.experiments.experiment import Judgement
from arriero.bench.experiments.samples import median, ratio, rounded, samples, spread, stable


def test_p99_needs_a_hundred_samples() -> None:
    assert samples(range(1, 100)).p99 is None
    assert samples(range(1, 101)).p99 == 99


def test_percentiles_are_values_that_occurred_and_scaled() -> None:
    found = samples([3_000, 1_000, 2_000], 1_000)
    assert (found.n, found.p50, found.p95, found.most) == (3, 2, 3, 3)
    assert found.cells() == (3, 2, 3, None, 3)


def test_nothing_has_no_percentiles() -> None:
    assert samples([]).cells() == (0, None, None, None, None)
    assert median([]) is None


@pytest.mark.parametrize(("figure", "base"), [(None, 1), (1, None), (1, 0)])
def test_ratio_to_what_is_missing_or_nothing_is_undefined(figure: float | None, base: float | None) -> None:
    assert ratio(figure, base) is None


def test_rounding_keeps_significant_digits() -> None:
    assert rounded(123.456) == 123.5
    assert rounded(0.000123456) == 0.0001235
    assert rounded(None) is None
    assert spread([None, 2.0, 1.0]) == "1 ... 2"
    assert spread([None]) == "-"


def test_output_that_is_not_stable_where_it_must_be_fails() -> None:
    assert stable("same", {"a": {"x"}, "b": {"y"}}).judgement is Judgement.HOLDS
    failed = stable("same", {"a": {"x"}, "b": {"y", "z"}})
    assert failed.judgement is Judgement.BROKEN
    assert failed.measured == "1 of 2 unstable, such as b"


def test_stability_of_no_answers_is_not_decided() -> None:
    assert stable("same", {}).judgement is Judgement.OPEN
