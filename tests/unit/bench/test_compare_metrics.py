"""A metric is a name for one figure of a summary, and says which way is better."""

import pytest

from arriero.bench.compare_metrics import DECIDES, SHOWN, metric_of
from arriero.core.errors import ConfigError
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.metrics.client_summary import summarise

MS = 1_000_000


def life(number: int) -> ClientLife:
    """Sent at 0, first token after 10 ms, then a gap of 2 and one of 4 ms; all later for each further request."""
    start = number * 20 * MS
    return ClientLife(
        request_id=str(number),
        intended_at=None,
        sent_at=start,
        closed_at=start + 17 * MS,
        outcome=Outcome.LENGTH,
        asked_tokens=3,
        chunk_at=(start + 10 * MS, start + 12 * MS, start + 16 * MS),
        chunk_tokens=(1, 1, 1),
        num_tokens=3,
        asked_prompt_tokens=7,
        prompt_tokens=7,
    )


SUMMARY = summarise([life(number) for number in range(2)])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("output_throughput", 6 / 0.037),  # whole run: from the first send to the last end
        ("request_throughput", 2 / 0.037),
        ("prompt_throughput", 14 / 0.037),
        ("ttft_p50", 10.0),
        ("itl_p50", 2.0),
        ("itl_max", 4.0),
        ("itl_p90", 4.0),
        ("itl_mean", 3.0),
        ("itl_max_p50", 4.0),
        ("tpot_mean", 3.0),
        ("e2e_max", 16.0),
        ("icl_p50", 2.0),
    ],
)
def test_figures_by_name(name: str, value: float) -> None:
    assert metric_of(name).read(SUMMARY) == pytest.approx(value)


def test_a_p99_of_few_samples_is_undefined() -> None:
    assert metric_of("ttft_p99").read(SUMMARY) is None


def test_rates_are_better_high_and_latencies_low() -> None:
    assert metric_of("output_throughput").higher_is_better
    assert not metric_of("itl_p99").higher_is_better
    assert [metric_of(name).unit for name in ("output_throughput", "ttft_p50")] == ["tokens/s", "ms"]


@pytest.mark.parametrize("name", ["", "speed", "ttft", "ttft_p42", "itl_p50_p50", "p99"])
def test_other_names_are_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(ConfigError, match=r"no metric; use output_throughput, .* such as itl_p99"):
        metric_of(name)


def test_the_defaults_exist() -> None:
    assert [metric_of(name).name for name in (*DECIDES, *SHOWN)] == [*DECIDES, *SHOWN]
