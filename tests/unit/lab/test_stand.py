import pytest

from arriero.backend.synthetic_memory import SyntheticStore
from arriero.core.errors import ConfigError
from arriero.core.events import DropSequence
from arriero.core.ids import SequenceId
from arriero.costmodel.passes import Stretch
from arriero.lab.shapes import Design, Probe
from arriero.lab.stand import Stand
from arriero.testing.fakes import FaultyBackend
from arriero.testing.faults import RefusedOp
from tests.unit.lab.stands import BASE_S, ROW_S, Stopwatch, synthetic


def decode(count: int, start: int, *, repeats: int = 1) -> Probe:
    rows = tuple(Stretch(number, start, 1, wants_logits=True) for number in range(count))
    return Probe(f"decode {count} at {start}", rows, repeats=repeats)


@pytest.mark.parametrize("unified", [False, True])
@pytest.mark.parametrize("saves", [False, True])
def test_every_shape_of_a_design_can_be_set_up_in_any_order(unified: bool, saves: bool) -> None:  # noqa: FBT001
    """The synthetic memory refuses rows that do not follow what a sequence holds, so this shows that they do."""
    clock = Stopwatch()
    backend = synthetic(clock, unified=unified, store=SyntheticStore() if saves else None)
    stand = Stand(backend, Design(backend.limits).depth, clock)
    stand.prepare()
    probes = Design(backend.limits).probes()
    for probe in (*probes, *reversed(probes), *probes[::2]):
        assert len(stand.measure(probe)) == probe.repeats
    stand.close()
    assert all(backend.positions(SequenceId(number)) is None for number in range(4))


def test_what_was_kept_outside_is_forgotten_at_the_end() -> None:
    clock, store = Stopwatch(), SyntheticStore()
    stand = Stand(synthetic(clock, store=store), 256, clock)
    stand.prepare()
    assert store.num_tokens > 256
    stand.close()
    assert store.num_tokens == 0


def test_the_decode_call_is_timed_and_nothing_else() -> None:
    clock = Stopwatch()
    stand = Stand(synthetic(clock), 256, clock)
    stand.prepare()
    (sample,) = stand.measure(decode(3, 40))
    assert sample.decode_us == pytest.approx((BASE_S + 3 * ROW_S) * 1e6)
    assert sample.choose_us == 0  # this clock stands still meanwhile


def test_a_burst_goes_on_and_its_first_step_is_told() -> None:
    clock = Stopwatch()
    stand = Stand(synthetic(clock), 256, clock)
    samples = stand.measure(decode(2, 40, repeats=3))
    assert [[row.start for row in sample.rows] for sample in samples] == [[40, 40], [41, 41], [42, 42]]
    assert [sample.is_first for sample in samples] == [True, False, False]


def test_cells_in_use_are_told_where_they_matter() -> None:
    clock = Stopwatch()
    beside = decode(1, 10)._replace(others=((2, 100), (3, 50)))
    (pooled,) = Stand(synthetic(clock, unified=True), 256, clock).measure(beside)
    (alone,) = Stand(synthetic(clock), 256, clock).measure(beside)
    assert (pooled.pool, alone.pool) == (160, 0)


def test_a_memory_that_cannot_be_emptied_is_no_use() -> None:
    clock = Stopwatch()
    inner = synthetic(clock)
    backend = FaultyBackend(inner, RefusedOp(DropSequence))
    with pytest.raises(ConfigError, match="refuses DropSequence, which a calibration needs"):
        Stand(backend, 256, clock).prepare()
