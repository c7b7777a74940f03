import threading

import pytest

from arriero.backend.protocol import DecodeError, DecodeInterrupted, KvExhausted
from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.core.errors import ConfigError, InvariantViolation
from arriero.core.events import DropSequence, TrimSequence
from arriero.core.ids import SequenceId
from arriero.core.plan import DecodeRow, PrefillChunk
from arriero.testing.suites import FIRST, SECOND, answer, chunk, request_of, tokens_of


def test_an_answer_depends_on_every_token_before_it() -> None:
    backend = SyntheticBackend(SyntheticOptions())
    prompt = tokens_of(6)
    said = answer(backend, request_of(prompt), FIRST, 8)
    changed = answer(backend, request_of((prompt[0] + 1, *prompt[1:])), SECOND, 8)
    assert said != changed
    assert len(set(said)) > 2


def test_only_the_tokens_that_it_may_say_are_said() -> None:
    backend = SyntheticBackend(SyntheticOptions(speaks=(97, 98, 99)))
    assert set(answer(backend, request_of(tokens_of(3)), FIRST, 20)) <= {97, 98, 99}


def test_delays_follow_the_formula_and_nobody_waits() -> None:
    asked: list[float] = []

    def pause(_event: threading.Event, seconds: float) -> bool:
        asked.append(seconds)
        return False

    backend = SyntheticBackend(SyntheticOptions(base_s=1.0, per_row_s=0.25), pause=pause)
    request = request_of(tokens_of(6))
    backend.decode([chunk(request, FIRST)])
    backend.decode([DecodeRow(request, FIRST, 6, 20)])
    backend.decode([PrefillChunk(request, SECOND, 0, (), wants_logits=False)])
    assert asked == [2.5, 1.25]


def test_an_interrupt_from_another_thread_ends_the_pause() -> None:
    paused = threading.Event()

    def pause(event: threading.Event, seconds: float) -> bool:
        paused.set()
        return event.wait(seconds)

    backend = SyntheticBackend(SyntheticOptions(base_s=60.0), pause=pause)
    request = request_of(tokens_of(4))

    def interrupt() -> None:
        paused.wait()
        backend.interrupt()

    other = threading.Thread(target=interrupt)
    other.start()
    with pytest.raises(DecodeInterrupted):
        backend.decode([chunk(request, FIRST)])
    other.join()
    assert backend.apply(TrimSequence(FIRST, 0))
    assert backend.positions(FIRST) is None


def test_a_row_out_of_order_changes_nothing() -> None:
    backend = SyntheticBackend(SyntheticOptions())
    request = request_of(tokens_of(4))
    with pytest.raises(DecodeError, match="holds 0 positions, the row begins at 2"):
        backend.decode([chunk(request, FIRST), chunk(request, SECOND, 2)])
    with pytest.raises(DecodeError, match="not in the vocabulary"):
        backend.decode([chunk(request_of((5, 260)), FIRST)])
    assert backend.positions(FIRST) is None


def test_a_pool_is_shared_and_streams_are_not() -> None:
    request = request_of(tokens_of(30))
    pool = SyntheticBackend(SyntheticOptions(num_cells=40, unified=True))
    streams = SyntheticBackend(SyntheticOptions(num_cells=40))
    pool.decode([chunk(request, FIRST)])
    with pytest.raises(KvExhausted):
        pool.decode([chunk(request, SECOND, end=11)])
    assert pool.positions(SECOND) is None
    assert pool.apply(DropSequence(FIRST))
    pool.decode([chunk(request, SECOND)])
    with pytest.raises(KvExhausted):
        streams.decode([chunk(request, FIRST, end=11)])
    streams.decode([chunk(request, FIRST, end=10)])


def test_rows_and_ids_beyond_the_limits_are_bugs() -> None:
    backend = SyntheticBackend(SyntheticOptions(num_rows=4))
    with pytest.raises(InvariantViolation):
        backend.decode([chunk(request_of(tokens_of(5)), FIRST)])
    with pytest.raises(InvariantViolation):
        backend.positions(SequenceId(4))


@pytest.mark.parametrize(
    "options",
    [
        SyntheticOptions(num_sequences=0),
        SyntheticOptions(num_sequences=5, num_rows=4),
        SyntheticOptions(num_sequences=5, num_cells=4),
        SyntheticOptions(end_tokens=frozenset({260})),
        SyntheticOptions(speaks=(-1,)),
    ],
)
def test_options_that_cannot_work_are_refused(options: SyntheticOptions) -> None:
    with pytest.raises(ConfigError):
        SyntheticBackend(options)
