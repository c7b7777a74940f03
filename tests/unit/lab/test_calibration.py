import pytest

from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.backend.synthetic_memory import SyntheticStore
from arriero.core.ids import SequenceId
from arriero.core.option_kinds import Threads
from arriero.costmodel.calibrated import Outside, StepKind
from arriero.costmodel.passes import Stretch
from arriero.engine.pass_rules import rules_of
from arriero.lab.calibration import Calibration, calibrate
from tests.unit.lab.stands import BASE_S, ROW_S, Stopwatch, synthetic


def calibrated(*, unified: bool = False) -> Calibration:
    clock = Stopwatch()
    backends = {
        number: synthetic(clock, unified=unified, store=SyntheticStore(), speed=1 / number) for number in (1, 2)
    }
    found = calibrate(backends, Threads(1, 2), seconds=1.0, clock=clock)
    assert all(backend.positions(SequenceId(0)) is None for backend in backends.values())
    return found


@pytest.fixture(scope="module", params=[False, True], ids=["separate", "unified"])
def found(request: pytest.FixtureRequest) -> Calibration:
    return calibrated(unified=request.param)


def decode_us(num_rows: int) -> float:
    return (BASE_S + ROW_S * num_rows) * 1e6


@pytest.mark.parametrize("num_rows", [1, 3, 4, 20, 77, 256])
def test_a_backend_that_takes_what_a_formula_says_is_predicted(found: Calibration, num_rows: int) -> None:
    rows = [Stretch(0, 100, num_rows, wants_logits=num_rows == 1)]
    expected = decode_us(num_rows) / (1 if num_rows == 1 else 2)
    assert found.cost.decode_time(rows) == pytest.approx(expected, rel=0.01)


def test_its_errors_are_told_for_each_kind_of_step(found: Calibration) -> None:
    groups = {(each.threads, each.kind, each.held_out) for each in found.residuals}
    assert groups == {(threads, kind, held) for threads in (1, 2) for kind in StepKind for held in (False, True)}
    assert all(each.noise == 0 and each.outliers == 0 for each in found.residuals)


def test_it_is_valid_for_what_was_measured(found: Calibration) -> None:
    valid = found.cost.valid
    assert (valid.rows, valid.sequences) == (256, 4)
    assert 500 <= valid.context <= 512
    assert found.cost.predict([Stretch(0, 0, 256, wants_logits=False)]).outside == ()
    assert found.cost.predict([Stretch(0, 600, 1, wants_logits=True)]).outside == (Outside.CONTEXT,)


def test_the_engine_itself_was_timed(found: Calibration) -> None:
    host = found.cost.host
    assert 0 < host.step + host.entry < 1e6
    assert host.delivery >= 0
    assert host.token == 0  # by a clock that stands still meanwhile


def test_the_rules_are_those_of_the_context() -> None:
    backend = SyntheticBackend(SyntheticOptions(num_sequences=4, num_cells=4096))
    assert rules_of(backend.limits).stream_cells == 1024
    pooled = SyntheticBackend(SyntheticOptions(num_sequences=4, num_cells=4096, unified=True))
    assert rules_of(pooled.limits).stream_cells == 4096


def test_one_sequence_can_be_calibrated() -> None:
    clock = Stopwatch()
    found = calibrate({1: synthetic(clock, num_sequences=1)}, Threads(1, 1), seconds=1.0, clock=clock)
    assert found.cost.decode_time([Stretch(0, 50, 1, wants_logits=True)]) == pytest.approx(decode_us(1), rel=0.01)
    assert found.cost.host.entry == 0
