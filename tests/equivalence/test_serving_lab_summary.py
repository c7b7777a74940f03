from pathlib import Path

import pytest

from arriero.core.errors import ConfigError
from arriero.record.lab_compare import compare
from arriero.record.lab_file import read_lab_result
from arriero.record.lab_report import Summary, as_csv, as_json, as_markdown, summarise
from tests.unit.record.lab_files import NAMES, published


@pytest.fixture(scope="module")
def summaries(shared_data: Path) -> list[Summary]:
    return [summarise(read_lab_result(published(shared_data, name).path), name) for name in NAMES]


def test_metrics_are_the_published_ones_to_the_last_digit(shared_data: Path, summaries: list[Summary]) -> None:
    expected = shared_data / "serving-lab" / "results" / "expected-summary.json"
    assert as_json(summaries, with_paths=False) == expected.read_text()


def test_the_table_is_the_published_one(shared_data: Path, summaries: list[Summary]) -> None:
    assert as_csv(summaries).encode() == (shared_data / "serving-lab" / "results" / "expected.csv").read_bytes()


def test_markdown_shows_two_decimals_and_what_is_undefined(summaries: list[Summary]) -> None:
    lines = as_markdown(summaries).splitlines()
    assert len(lines) == 2 + len(NAMES)
    assert lines[2].startswith("| fcfs_chat_small | SIMULATED | completed | 8 | 8 | 1.00 | 0 | 68.94 | 946 | 3745 |")
    assert lines[2].endswith("| N/A |")


def test_differences_of_one_workload(shared_data: Path) -> None:
    off, on = (read_lab_result(published(shared_data, f"shared_prefix_cache_{word}").path) for word in ("off", "on"))
    found = {each.name: each.delta for each in compare(off, on)}
    assert found["completed"] == 0
    assert found["p99_ttft_us"] == 536 - 556
    assert found["scheduled_prefill_tokens"] == -448
    assert found["request_throughput_per_s"] == pytest.approx(0.488, abs=1e-3)


def test_rates_of_unequal_completions_are_not_compared(shared_data: Path) -> None:
    complete, stalled = (
        read_lab_result(published(shared_data, name).path) for name in ("mixed_medium_load", "kv_small")
    )
    found = {each.name: each.delta for each in compare(complete, stalled)}
    assert found["request_throughput_per_s"] is None
    assert found["p99_ttft_us"] is None
    assert found["completed"] == -11


def test_nothing_is_compared_across_workloads(shared_data: Path) -> None:
    chat, mixed = (
        read_lab_result(published(shared_data, name).path) for name in ("continuous_chat_small", "decode_first")
    )
    with pytest.raises(ConfigError, match="differ in workload"):
        compare(chat, mixed)
