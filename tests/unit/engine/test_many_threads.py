"""Many threads submit and cancel at once; one thread alone uses the backend."""

import random
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.core.events import KvOp
from arriero.core.ids import TokenId
from arriero.core.plan import Row
from arriero.core.request import FinishReason
from arriero.engine.engine import Engine
from arriero.engine.handle import Result
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated
from arriero.testing.fakes import FaultyBackend
from arriero.testing.faults import Fault

NUM_THREADS, NUM_REQUESTS = 20, 50
SIZES = SyntheticOptions(num_sequences=8, num_rows=64, num_cells=1024, unified=True)
PROMPTS = [[number, number + 1, number * 2 % 90] for number in range(1, 21)]
NUM_TOKENS = 6
PATIENCE_S = 20.0


class Callers(Fault):
    """Notes who uses the backend."""

    def __init__(self) -> None:
        self.threads: set[int] = set()

    def before_decode(self, call: int, rows: Sequence[Row]) -> None:
        del call, rows
        self.threads.add(threading.get_ident())

    def refuses(self, op: KvOp) -> bool:
        del op
        self.threads.add(threading.get_ident())
        return False


def answers_alone() -> list[tuple[TokenId, ...]]:
    """What each prompt is answered with when nobody else asks."""
    engine = Engine(SyntheticBackend(SIZES))
    engine.start(Dedicated())
    found = [engine.submit(each, NUM_TOKENS, end_tokens=frozenset()).wait(PATIENCE_S).tokens for each in PROMPTS]
    engine.shutdown()
    engine.join(PATIENCE_S)
    return found


def ask(engine: Engine, rng: random.Random) -> tuple[int, bool, Result]:
    """One request, perhaps cancelled at a random moment: its prompt, whether it was, and its result."""
    number, cancels, after = rng.randrange(len(PROMPTS)), rng.random() < 0.3, rng.randrange(NUM_TOKENS)
    handle = engine.submit(PROMPTS[number], NUM_TOKENS, end_tokens=frozenset(), want_stream=True)
    num_read = 0
    if cancels and after:
        assert handle.stream is not None
        for tokens in handle.stream:
            num_read += len(tokens)
            if num_read >= after:
                break
    if cancels:
        handle.cancel()
    return number, cancels, handle.wait(PATIENCE_S)


def test_a10_a_thousand_requests_of_twenty_threads_meet_one_caller_and_their_solo_answers() -> None:
    callers = Callers()
    engine = Engine(FaultyBackend(SyntheticBackend(SIZES), callers), EngineOptions())
    engine.start(Dedicated())

    def work(seed: int) -> list[tuple[int, bool, Result]]:
        rng = random.Random(seed)
        return [ask(engine, rng) for _ in range(NUM_REQUESTS)]

    with ThreadPoolExecutor(NUM_THREADS) as threads:
        results = [each for found in threads.map(work, range(NUM_THREADS)) for each in found]
    engine.shutdown()
    summary = engine.join(PATIENCE_S)
    alone = answers_alone()
    assert len(results) == NUM_THREADS * NUM_REQUESTS
    assert len(callers.threads) == 1
    for number, cancels, result in results:
        if result.reason is FinishReason.LENGTH:
            assert result.tokens == alone[number]
        else:
            assert cancels
            assert result.reason is FinishReason.CANCELLED
            assert result.tokens == alone[number][: len(result.tokens)]
    assert summary.crashed is None
    assert summary.residual_sequences == ()
    assert engine.door.in_flight == 0
