import threading
from pathlib import Path

import pytest

from arriero.backend.protocol import DecodeError, DecodeInterrupted, KvExhausted
from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.backend.synthetic_memory import SyntheticStore
from arriero.core.events import (
    CopySequence,
    DropSequence,
    ForgetSaved,
    KvOp,
    MoveSequence,
    RestoreSequence,
    SaveSequence,
    TrimSequence,
)
from arriero.core.ids import SavedKey
from arriero.core.plan import DecodeRow
from arriero.core.request import SamplingParams
from arriero.testing.fakes import FaultyBackend, ScriptedBackend
from arriero.testing.faults import (
    BlockedCall,
    FailedCall,
    FailedRequest,
    FailedSampler,
    NoPlace,
    RefusedOp,
    Uncuttable,
    damage_file,
    truncate_file,
)
from arriero.testing.suites import FIRST, SECOND, answer, chunk, flat_row, request_of, tokens_of


def faulty(*faults: FailedCall | FailedRequest | NoPlace | RefusedOp | BlockedCall | FailedSampler) -> FaultyBackend:
    return FaultyBackend(SyntheticBackend(SyntheticOptions()), *faults)


def test_a_script_is_said_and_then_the_filler() -> None:
    backend = ScriptedBackend({7: (40, 41, 42)}, filler=9)
    assert answer(backend, request_of(tokens_of(5), request_id=7), FIRST, 5) == [40, 41, 42, 9, 9]
    assert answer(backend, request_of(tokens_of(5), request_id=8), SECOND, 2) == [9, 9]


def test_a_script_goes_on_after_its_tokens_were_computed_anew() -> None:
    backend = ScriptedBackend({1: (40, 41, 42)})
    request = request_of(tokens_of(3))
    answer(backend, request, FIRST, 2)
    assert backend.apply(DropSequence(FIRST))
    resumed = request_of((*request.prompt, 40))
    backend.decode([chunk(resumed, FIRST, wants_logits=False)])
    assert int(backend.decode([DecodeRow(request, FIRST, 4, 41)])[0].argmax()) == 42


def test_a_failed_request_leaves_memory_that_must_be_repaired() -> None:
    backend = faulty(FailedRequest(2))
    bad, good = request_of(tokens_of(4), request_id=2), request_of(tokens_of(4), request_id=1)
    with pytest.raises(DecodeError, match="for request 2"):
        backend.decode([chunk(good, FIRST), chunk(bad, SECOND)])
    assert backend.positions(FIRST) == (0, 3)
    assert backend.apply(TrimSequence(FIRST, 0))
    assert backend.decode([chunk(good, FIRST)]).shape[0] == 1
    assert backend.num_calls == 2


def test_calls_are_counted_from_zero() -> None:
    backend = faulty(NoPlace(0), FailedCall(1))
    request = request_of(tokens_of(4))
    with pytest.raises(KvExhausted):
        backend.decode([chunk(request, FIRST)])
    assert backend.positions(FIRST) is None
    with pytest.raises(DecodeError):
        backend.decode([chunk(request, FIRST)])
    assert backend.apply(DropSequence(FIRST))
    assert backend.decode([chunk(request, FIRST)]).shape[0] == 1


def test_an_operation_is_refused_as_often_as_told() -> None:
    backend = faulty(RefusedOp(DropSequence, FIRST, times=1), RefusedOp(TrimSequence, SECOND))
    backend.decode([chunk(request_of(tokens_of(4)), FIRST)])
    assert not backend.apply(DropSequence(FIRST))
    assert backend.positions(FIRST) == (0, 3)
    assert backend.apply(DropSequence(FIRST))
    assert not any(backend.apply(TrimSequence(SECOND, 0)) for _ in range(3))
    assert backend.apply(DropSequence(SECOND))


KEY = SavedKey(1)
FILLING: list[KvOp] = [
    CopySequence(FIRST, SECOND, 2),
    MoveSequence(FIRST, SECOND),
    SaveSequence(FIRST, KEY, 2),
    RestoreSequence(SECOND, KEY, 2),
]


@pytest.mark.parametrize("op", FILLING, ids=lambda op: type(op).__name__)
def test_an_operation_is_refused_on_its_own_sequence_or_on_any(op: KvOp) -> None:
    subject, other = (FIRST, SECOND) if isinstance(op, SaveSequence) else (SECOND, FIRST)
    for sequence_id, refuses in ((subject, True), (other, False), (None, True)):
        backend = FaultyBackend(
            SyntheticBackend(SyntheticOptions(), store=SyntheticStore()), RefusedOp(type(op), sequence_id)
        )
        backend.decode([chunk(request_of(tokens_of(4)), FIRST)])
        if isinstance(op, RestoreSequence):
            assert backend.apply(SaveSequence(FIRST, KEY, 2))
        assert backend.apply(op) is not refuses
        assert (backend.positions(SECOND) is None) == (refuses or isinstance(op, SaveSequence))


def test_an_uncuttable_memory_can_only_be_dropped_and_says_why() -> None:
    backend = FaultyBackend(SyntheticBackend(store=SyntheticStore()), Uncuttable())
    support = backend.reuse_support
    assert (support.trim, support.copy, support.save) == (False, False, False)
    assert "recurrent" in support.reason
    backend.decode([chunk(request_of(tokens_of(4)), FIRST)])
    assert not any(backend.apply(op) for op in [*FILLING, TrimSequence(FIRST, 2)])
    assert backend.positions(FIRST) == (0, 3)
    assert all(backend.apply(op) for op in (ForgetSaved(KEY), TrimSequence(FIRST, 0), DropSequence(SECOND)))


def test_fakes_pass_on_what_their_store_held() -> None:
    store = SyntheticStore()
    first = ScriptedBackend(store=store)
    assert (first.saved_runs(), first.reuse_support.save) == ((), True)
    first.decode([chunk(request_of(tokens_of(4)), FIRST)])
    assert first.apply(SaveSequence(FIRST, SavedKey(9), 4, "scope", tokens_of(4)))
    second = FaultyBackend(ScriptedBackend(store=store))
    (run,) = second.saved_runs()
    assert (run.key, run.tokens) == (KEY, tokens_of(4))
    assert not ScriptedBackend().reuse_support.save


def test_files_are_harmed_as_told(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abcd")
    damage_file(path)
    assert path.read_bytes()[:3] == b"abc"
    assert path.read_bytes()[3:] != b"d"
    damage_file(path, -1)
    truncate_file(path, 3)
    assert path.read_bytes() == b"a"


@pytest.mark.parametrize("interrupts", [False, True])
def test_a_blocked_call_waits_until_it_is_let_go(interrupts: bool) -> None:  # noqa: FBT001
    block = BlockedCall(0)
    backend = faulty(block)
    backend.interrupt()  # nothing waits yet
    outcome: list[object] = []

    def decode() -> None:
        try:
            outcome.append(backend.decode([chunk(request_of(tokens_of(4)), FIRST)]).shape[0])
        except DecodeInterrupted as stopped:
            outcome.append(type(stopped))

    other = threading.Thread(target=decode)
    other.start()
    assert block.entered.wait(30)
    assert outcome == []
    if interrupts:
        backend.interrupt()
    else:
        block.release.set()
    other.join()
    assert outcome == [DecodeInterrupted if interrupts else 1]


def test_a_blocked_call_that_nobody_lets_go_fails() -> None:
    backend = faulty(BlockedCall(0, timeout_s=0))
    with pytest.raises(DecodeError, match="never released"):
        backend.decode([chunk(request_of(tokens_of(4)), FIRST)])


def test_a_failed_sampler_chooses_for_a_while() -> None:
    backend = faulty()
    backend.add(FailedSampler(1, after=2))
    row = flat_row(backend)
    sampler = backend.sampler(request_of(tokens_of(4), sampling=SamplingParams(temperature=1.0)))
    for _ in range(2):
        sampler.sample(row.copy(), ban_end_tokens=False)
    with pytest.raises(RuntimeError, match="told to fail"):
        sampler.sample(row.copy(), ban_end_tokens=False)
    sampler.close()
    other = backend.sampler(request_of(tokens_of(4), request_id=2))
    assert [other.sample(row.copy(), ban_end_tokens=False) for _ in range(3)] == [259] * 3
