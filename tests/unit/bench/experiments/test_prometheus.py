import pytest

from arriero.bench.experiments.calls import CallFailed
from arriero.bench.experiments.prometheus import SlotCounts, slot_counts

PAGE = """# HELP llamacpp:n_decode_total Calls.
# TYPE llamacpp:n_decode_total counter
llamacpp:n_decode_total 40
llamacpp:n_busy_slots_per_decode{model="m"} 2.5
other_total 3
"""


def test_busy_slots_are_the_mean_times_the_calls() -> None:
    assert slot_counts(PAGE) == SlotCounts(40, 100)
    assert slot_counts(PAGE).mean_active == 2.5


def test_figures_between_two_readings_are_differences() -> None:
    found = SlotCounts(50, 140).since(SlotCounts(40, 100))
    assert found == SlotCounts(10, 40)
    assert found.mean_active == 4
    assert SlotCounts(0, 0).mean_active is None


@pytest.mark.parametrize("page", ["", None, {"error": "not found"}, "llamacpp:n_decode_total 4\n"])
def test_page_without_these_figures_is_refused_with_the_remedy(page: object) -> None:
    with pytest.raises(CallFailed, match="--metrics"):
        slot_counts(page)
