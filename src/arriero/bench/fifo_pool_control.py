"""The runs of gate G45, small and alike wherever they are judged: by the gate, and by the experiment on the pool.

mixed      each budget some times, and budget 0: one hash a budget, and who has nothing to compute takes no context
serial     one context, several clients: one after another, in the order of asking
hindered   one request is cancelled as it asks; whoever runs this may let another one fail
"""

from collections.abc import Sequence
from typing import Final

from arriero.bench.fifo_pool_plan import PoolPlan
from arriero.core.ids import TokenId

NUM_CONTEXTS: Final = 2
ROUNDS: Final = 2
"""How often each budget is asked for."""

_NUM_CLIENTS: Final = 5
_SERIAL_REQUESTS: Final = 4
_HINDERED_REQUESTS: Final = 8
_CANCELLED: Final = 4
"""As many run or wait before it as there are clients besides, so that it waits, unless the machine is very slow."""


def mixed_plan(prompt: tuple[TokenId, ...], budgets: Sequence[int]) -> PoolPlan:
    """Each budget, and 0, in turn."""
    return PoolPlan(
        contexts=NUM_CONTEXTS,
        concurrent=_NUM_CLIENTS,
        requests=ROUNDS * (len(budgets) + 1),
        budgets=(*budgets, 0),
        prompt=prompt,
    )


def serial_plan(prompt: tuple[TokenId, ...], budget: int) -> PoolPlan:
    """One context for all."""
    return PoolPlan(
        contexts=1, concurrent=_SERIAL_REQUESTS, requests=_SERIAL_REQUESTS, budgets=(budget,), prompt=prompt
    )


def hindered_plan(prompt: tuple[TokenId, ...], budget: int) -> PoolPlan:
    """One request is cancelled as it asks."""
    return PoolPlan(
        contexts=NUM_CONTEXTS,
        concurrent=_NUM_CLIENTS,
        requests=_HINDERED_REQUESTS,
        budgets=(budget,),
        prompt=prompt,
        cancels=(_CANCELLED,),
    )
