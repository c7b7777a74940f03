from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from arriero.core.errors import EngineFault
from arriero.core.ids import RequestId, SequenceId
from arriero.core.plan import DecodeRow, PrefillChunk, Row
from arriero.core.request import Request, SamplingParams
from arriero.sampling.sampler import SamplerPool

WARM = SamplingParams(temperature=1.0)


class CountingSampler:
    def __init__(self, says: Sequence[int]) -> None:
        self._says = iter(says)
        self.bans: list[bool] = []
        self.num_closed = 0

    def sample(self, logits: NDArray[np.float32], *, ban_end_tokens: bool) -> int:
        del logits
        self.bans.append(ban_end_tokens)
        return next(self._says)

    def close(self) -> None:
        self.num_closed += 1


class Factory:
    def __init__(self, *, fails_for: int = -1) -> None:
        self.made: dict[int, CountingSampler] = {}
        self._fails_for = fails_for

    def __call__(self, request: Request) -> CountingSampler:
        if request.request_id == self._fails_for:
            raise EngineFault("no chain")
        assert request.request_id not in self.made, "one sampler for each request"
        sampler = self.made[request.request_id] = CountingSampler([3, 2, 1])
        return sampler


def row_of(request_id: int, *, sampling: SamplingParams | None = None, start: int = 4, min_tokens: int = 0) -> Row:
    request = Request(
        request_id=RequestId(request_id),
        prompt=(1, 2, 3, 4),
        max_tokens=8,
        arrival_at=0,
        sampling=sampling if sampling is not None else SamplingParams(),
        min_tokens=min_tokens,
    )
    return DecodeRow(request, SequenceId(request_id), start, 7)


def logits_of(*rows: Sequence[float]) -> NDArray[np.float32]:
    return np.array(rows, np.float32)


def test_greedy_takes_the_first_maximum() -> None:
    pool = SamplerPool(Factory())
    tokens, failures = pool.choose([row_of(0), row_of(1)], logits_of([0, 5, 5, 1], [2, 1, 0, 2]))
    assert tokens == {0: 1, 1: 0}
    assert failures == []
    assert len(pool) == 0, "plain greedy rows need no sampler"


def test_rows_that_want_no_logits_have_none() -> None:
    silent = PrefillChunk(row_of(0).request, SequenceId(0), 0, (1, 2), wants_logits=False)
    empty = PrefillChunk(row_of(2).request, SequenceId(2), 4, (), wants_logits=True)
    tokens, _ = SamplerPool(Factory()).choose([silent, row_of(1), empty], logits_of([0, 0, 9]))
    assert tokens == {1: 2}


def test_a_request_keeps_its_sampler_until_it_is_forgotten() -> None:
    factory = Factory()
    pool = SamplerPool(factory)
    said = [pool.choose([row_of(5, sampling=WARM)], logits_of([0, 1, 2, 3]))[0][SequenceId(5)] for _ in range(3)]
    assert said == [3, 2, 1]
    pool.forget(RequestId(5))
    pool.forget(RequestId(5))
    assert factory.made[5].num_closed == 1


def test_closing_the_pool_closes_every_sampler() -> None:
    factory = Factory()
    pool = SamplerPool(factory)
    pool.choose([row_of(1, sampling=WARM), row_of(2, sampling=WARM)], logits_of([0, 1, 2, 3], [0, 1, 2, 3]))
    pool.close()
    assert [sampler.num_closed for sampler in factory.made.values()] == [1, 1]
    assert len(pool) == 0


def test_end_tokens_are_banned_until_the_minimum_is_reached() -> None:
    factory = Factory()
    pool = SamplerPool(factory)
    prompt_end = PrefillChunk(row_of(1, min_tokens=2).request, SequenceId(1), 2, (3, 4), wants_logits=True)
    first = row_of(1, min_tokens=2, start=4)
    for row in (prompt_end, first):
        pool.choose([row], logits_of([0, 1, 2, 3]))
    tokens, _ = pool.choose([row_of(1, min_tokens=2, start=5)], logits_of([9, 1, 2, 3]))
    assert factory.made[1].bans == [True, True]
    assert tokens == {1: 0}, "from then on it is plain greedy"


def test_a_sampler_that_raises_fails_its_own_sequence_only() -> None:
    pool = SamplerPool(Factory(fails_for=1))
    rows = [row_of(0), row_of(1, sampling=WARM), row_of(2, sampling=WARM)]
    tokens, failures = pool.choose(rows, logits_of([9, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]))
    assert tokens == {0: 0, 2: 3}
    assert [(each.sequence_id, each.code, each.reason) for each in failures] == [(1, "sampler_failed", "no chain")]
    for _ in range(2):
        pool.choose([row_of(2, sampling=WARM)], logits_of([0, 0, 0, 0]))
    _, failures = pool.choose([row_of(2, sampling=WARM)], logits_of([0, 0, 0, 0]))
    assert failures[0].reason.startswith("the sampler raised StopIteration")


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("sampling", [SamplingParams(), WARM])
def test_a_logit_that_is_no_number_fails_its_sequence(bad: float, sampling: SamplingParams) -> None:
    pool = SamplerPool(Factory())
    tokens, failures = pool.choose([row_of(0, sampling=sampling), row_of(1)], logits_of([0, 0, 0, bad], [0, 0, 1, 0]))
    assert tokens == {1: 2}
    assert f"the model gave {bad} as the logit of token 3" in failures[0].reason


def test_as_many_rows_as_logits_are_demanded() -> None:
    with pytest.raises(ValueError, match="zip"):
        SamplerPool(Factory()).choose([row_of(0)], logits_of([0, 1], [1, 0]))
