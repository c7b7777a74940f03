"""The life of one request in a pool, resumed by hand."""

from collections.abc import Sequence

import pytest

from arriero.backend.protocol import Backend
from arriero.backend.synthetic import SyntheticOptions
from arriero.bench.fifo_pool import FifoPool
from arriero.bench.fifo_pool_request import PooledRequest, PoolLife, PoolOutcome
from arriero.bench.fifo_pool_runners import resumed
from arriero.bench.fifo_pool_service import Compute, Service, Wait, serve
from arriero.bench.fifo_pool_turn import ALONE
from arriero.core.ids import RequestId
from arriero.core.request import Request, SamplingParams
from arriero.testing.fakes import FaultyBackend, ScriptedBackend
from arriero.testing.faults import FailedCall, Fault

ONE = SyntheticOptions(num_sequences=1, num_rows=4, micro_batch=4, num_cells=64)
SCRIPT = {0: [10, 11, 12, 13], 1: [20, 21, 22, 23]}


def context(*faults: Fault) -> FaultyBackend:
    return FaultyBackend(ScriptedBackend(SCRIPT, options=ONE), *faults)


def asked(number: int = 0, budget: int = 3, prompt: int = 6, end_tokens: frozenset[int] = frozenset()) -> PooledRequest:
    request = Request(
        request_id=RequestId(number),
        prompt=tuple(range(1, prompt + 1)),
        max_tokens=max(1, budget),
        arrival_at=0,
        end_tokens=end_tokens,
    )
    return PooledRequest(request, budget, iter(range(10_000)).__next__, lambda: None)


def to_the_end(service: Service, need: Wait | Compute | PoolLife | None = None) -> PoolLife:
    """Compute whatever is asked for; waiting would be for ever."""
    while not isinstance(need, PoolLife):
        if need is None:
            need = resumed(service, None)
            continue
        assert isinstance(need, Compute), "it waits, and nobody releases"
        need = resumed(service, need.call())
    return need


def run(
    request: PooledRequest, contexts: Sequence[Backend], pool: FifoPool | None = None, cancels_at: int | None = None
) -> PoolLife:
    return to_the_end(serve(request, pool or FifoPool(len(contexts)), contexts, cancels_at))


def test_a_request_computes_its_prompt_in_chunks_and_then_a_row_for_each_token() -> None:
    backend = context()
    life = run(asked(), [backend])
    assert (life.outcome, life.tokens) == (PoolOutcome.OK, (10, 11, 12))
    assert life.decode_calls == 2 + 2  # 6 prompt rows by 4, the last of which give the first token
    assert backend.positions(ALONE) is None


def test_budget_0_takes_no_context_and_makes_no_call() -> None:
    backend, pool = context(), FifoPool(1)
    holder = pool.acquire(lambda: None)
    life = run(asked(budget=0), [backend], pool)
    assert (life.outcome, life.tokens, life.decode_calls, life.context) == (PoolOutcome.OK, (), 0, None)
    pool.release(holder)
    assert pool.counts.acquires == 1
    assert backend.num_calls == 0


def test_who_waits_runs_when_the_context_is_released() -> None:
    backend, pool = context(), FifoPool(1)
    holder = pool.acquire(lambda: None)
    service = serve(asked(1), pool, [backend], None)
    assert resumed(service, None) == Wait()
    assert resumed(service, answer=True) == Wait(), "woken for nothing, it waits on"
    pool.release(holder)
    life = to_the_end(service, resumed(service, answer=True))
    assert life.tokens == (20, 21, 22)
    assert pool.counts.in_use == 0


def test_a_cancel_while_it_waits_leaves_the_queue() -> None:
    backend, pool = context(), FifoPool(1)
    holder = pool.acquire(lambda: None)
    request = asked()
    service = serve(request, pool, [backend], None)
    assert resumed(service, None) == Wait()
    assert request.cancel()
    life = resumed(service, answer=True)
    assert isinstance(life, PoolLife)
    assert (life.outcome, life.started_at) == (PoolOutcome.CANCELLED, None)
    assert pool.counts.left == 1
    pool.release(holder)
    assert pool.counts.in_use == 0


def test_a_cancel_that_meets_the_context_gives_it_back() -> None:
    backend, pool = context(), FifoPool(1)
    holder = pool.acquire(lambda: None)
    request = asked()
    service = serve(request, pool, [backend], None)
    assert resumed(service, None) == Wait()
    pool.release(holder)
    request.cancel()
    assert isinstance(resumed(service, answer=True), PoolLife)
    counts = pool.counts
    assert (counts.acquires, counts.releases, counts.left, counts.in_use) == (2, 2, 0, 0)
    assert backend.num_calls == 0


def test_a_cancel_during_a_call_ends_it_and_the_call_counts() -> None:
    backend = context()
    request = asked()
    service = serve(request, FifoPool(1), [backend], None)
    need = resumed(service, None)
    assert isinstance(need, Compute)
    goes_on = need.call()
    assert request.cancel()
    life = to_the_end(service, resumed(service, goes_on))
    assert (life.outcome, life.tokens, life.decode_calls) == (PoolOutcome.CANCELLED, (), 1)
    assert backend.positions(ALONE) is None


def test_a_planned_cancel_strikes_after_its_tokens() -> None:
    life = run(asked(), [context()], cancels_at=2)
    assert (life.outcome, life.tokens) == (PoolOutcome.CANCELLED, (10, 11))


def test_a_cancel_after_the_last_token_still_decides() -> None:
    life = run(asked(budget=2), [context()], cancels_at=2)
    assert life.outcome is PoolOutcome.CANCELLED


@pytest.mark.parametrize("call", [0, 1, 2])
def test_a_failed_call_ends_its_request_and_clears_the_context(call: int) -> None:
    backend, pool = context(FailedCall(call)), FifoPool(1)
    life = run(asked(), [backend], pool)
    assert (life.outcome, life.error, life.decode_calls) == (PoolOutcome.ERROR, "decode_failed", call + 1)
    assert pool.counts.in_use == 0
    assert run(asked(1), [backend], pool).tokens == (20, 21, 22)


class NeverClears(Fault):
    def refuses(self, op: object) -> bool:
        del op
        return True


def test_a_context_that_cannot_be_cleared_is_an_error_and_comes_back() -> None:
    backend, pool = context(NeverClears()), FifoPool(1)
    life = run(asked(), [backend], pool)
    assert (life.outcome, life.error) == (PoolOutcome.ERROR, "not_cleared")
    assert pool.counts.in_use == 0
    again = run(asked(1), [backend], pool)
    assert (again.outcome, again.error) == (PoolOutcome.ERROR, "decode_failed")


class Explodes(Fault):
    def before_decode(self, call: int, rows: object) -> None:
        del call, rows
        raise ZeroDivisionError


def test_a_mistake_of_ours_ends_one_request_and_hangs_nobody() -> None:
    pool = FifoPool(1)
    life = run(asked(), [context(Explodes())], pool)
    assert (life.outcome, life.error) == (PoolOutcome.ERROR, "ZeroDivisionError")
    assert pool.counts.in_use == 0


def test_an_end_token_ends_the_answer_and_is_not_said() -> None:
    life = run(asked(end_tokens=frozenset({11})), [context()])
    assert (life.outcome, life.tokens) == (PoolOutcome.OK, (10,))


def test_a_sampled_request_has_a_sampler_of_its_own() -> None:
    request = Request(
        request_id=RequestId(0),
        prompt=(1, 2),
        max_tokens=3,
        arrival_at=0,
        sampling=SamplingParams(temperature=0.5, seed=3),
    )
    lives = [run(PooledRequest(request, 3, iter(range(100)).__next__, lambda: None), [context()]) for _ in range(2)]
    assert lives[0].tokens == lives[1].tokens
    assert len(lives[0].tokens) == 3
