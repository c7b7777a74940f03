from pathlib import Path

import msgspec
import pytest

from arriero.core.errors import DataError
from arriero.record.validation import (
    Compared,
    Validation,
    compared,
    encode_validation,
    goal_of,
    is_met,
    read_validation,
)
from tests.unit.record.validation_files import load, validation


def test_errors_are_relative_to_the_mean_and_noise_is_the_span() -> None:
    each = compared("ttft", "p50", "ms", measured=[90.0, 110.0], simulated=125.0)
    assert each.error == pytest.approx(0.25)
    assert each.noise == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("measured", "simulated", "error", "noise"),
    [
        ([None, 5.0], 5.0, None, None),
        ([], 5.0, None, None),
        ([0.0, 0.0], 5.0, None, None),
        ([4.0, 4.0], None, None, 0.0),
        ([4.0], 4.0, 0.0, 0.0),
    ],
)
def test_what_is_undefined_has_no_error(
    measured: list[float | None], simulated: float | None, error: float | None, noise: float | None
) -> None:
    each = compared("itl", "p99", "ms", measured=measured, simulated=simulated)
    assert (each.error, each.noise) == (error, noise)


def test_a_file_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path, made = tmp_path / "v.json", validation()
    path.write_bytes(encode_validation(made))
    assert read_validation(path) == made
    assert encode_validation(read_validation(path)) == path.read_bytes()


def test_the_cost_error_is_the_largest_error_or_noise_of_a_capacity() -> None:
    assert validation().cost_error == pytest.approx(0.1)
    noisy = compared("output_tokens_per_s", "rate", "per_s", measured=[40.0, 60.0], simulated=50.0)
    assert validation(capacities={"chat": noisy}).cost_error == pytest.approx(0.4)
    assert validation(capacities={}).cost_error == 0.0


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (validation(loads=()), "loads: a validation has at least one"),
        (
            validation(loads=(load(compared=(msgspec.structs.replace(load().compared[0], error=0.0),)),)),
            r"loads\[0\].compared.error: 0.0 does not follow",
        ),
        (
            validation(capacities={"chat": msgspec.structs.replace(load().compared[0], noise=None)}),
            "capacities.noise: None does not follow",
        ),
        (
            validation(loads=(load(levelled=(msgspec.structs.replace(load().levelled[0], error=0.5),)),)),
            r"loads\[0\].levelled.error: 0.5 does not follow",
        ),
        (
            validation(loads=(load(slowness=(1.0,)),)),
            r"loads\[0\].slowness: has not one number for each run",
        ),
    ],
    ids=["no-load", "other-error", "no-noise", "other-levelled-error", "no-slowness"],
)
def test_figures_that_do_not_follow_are_refused(tmp_path: Path, made: Validation, says: str) -> None:
    with pytest.raises(DataError, match=says):
        encode_validation(made)
    path = tmp_path / "v.json"
    path.write_bytes(msgspec.json.encode(made))
    with pytest.raises(DataError, match=says):
        read_validation(path)


def test_a_peer_changes_no_error() -> None:
    each = compared("itl", "p50", "ms", measured=[4.0, 4.0], simulated=5.0, peer=8.0)
    assert isinstance(each, Compared)
    assert (each.error, each.peer) == (0.25, 8.0)


@pytest.mark.parametrize(
    ("metric", "figure", "measured", "simulated", "goal", "met"),
    [
        ("itl", "p99", [10.0, 10.0], 10.4, 0.05, True),
        ("step", "mean", [10.0, 10.0], 10.6, 0.05, False),
        ("output_tokens_per_s", "rate", [8.0, 12.0], 10.6, 0.05, False),
        ("ttft", "p50", [10.0, 10.0], 10.9, 0.1, True),
        ("ttft", "p90", [9.0, 11.0], 12.9, 0.3, True),
        ("e2e", "p90", [9.0, 11.0], 13.1, 0.3, False),
        ("ttft", "p99", [10.0, 10.0], 20.0, None, None),
        ("itl", "p50", [10.0, None], 10.0, 0.05, None),
    ],
)
def test_a_latency_with_a_queue_may_be_off_by_its_noise_and_no_other(
    metric: str,
    figure: str,
    measured: list[float | None],
    simulated: float,
    goal: float | None,
    met: bool | None,  # noqa: FBT001 - a table
) -> None:
    each = compared(metric, figure, "ms", measured=measured, simulated=simulated)
    assert goal_of(each) == (None if goal is None else pytest.approx(goal))
    assert is_met(each) is met
