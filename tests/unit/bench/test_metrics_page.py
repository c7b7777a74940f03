import pytest

from arriero.bench.metrics_page import sum_of

PAGE = """# HELP a_total Something.
# TYPE a_total counter
a_total{end="stop"} 3
a_total{end="length"} 4.5
a_total_more 100
ba_total 100
threads 2
"""


@pytest.mark.parametrize(
    ("name", "expected"), [("a_total", 7.5), ("threads", 2), ("none", None), ("a", None)], ids=str
)  # fmt: skip
def test_samples_of_a_name_are_added_up_over_their_labels(name: str, expected: float | None) -> None:
    assert sum_of(PAGE, name) == expected


@pytest.mark.parametrize("page", [None, {"a_total": 1}, "a_total many"], ids=["nothing", "JSON", "no number"])
def test_what_is_no_page_tells_nothing(page: object) -> None:
    assert sum_of(page, "a_total") is None
