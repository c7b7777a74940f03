"""Swapping: from the word of `--preempt` to the rule by which a scheduler swaps what yields, or computes it again.

    auto         whichever takes less: by the cost profile, or without one by the rule of thumb below
    swap         whatever is computed, as long as there is room
    recompute    never

How much may be kept outside is for whoever made the host store; the rule only says whether it pays.
"""

from typing import Final, assert_never

from arriero.backend.protocol import ReuseSupport
from arriero.core.choices import PreemptKind
from arriero.costmodel.calibrated import CalibratedCost
from arriero.costmodel.passes import Stretch
from arriero.kv.reuse import WORTH_A_COPY
from arriero.scheduler.preemption import SwapRule

BYTES_A_US: Final = 4_000
"""Bytes that go out of a context, or into it, in a microsecond; a third of what was measured."""

TOKENS_A_ROW: Final = 40
"""Tokens that are moved out and in while one is computed in a chunk, where nobody has calibrated. For a small model
they were several times as many; a larger one holds more for each token, but computing it takes longer still."""

ROWS_A_CALL: Final = 8
"""Rows of a chunk that take as long as a call that computes a single one, by the same measure."""

CHUNK: Final = 256

WHATEVER_IT_COSTS: Final = SwapRule(row_time=1, answer_row_time=1)


def swap_rule(
    kind: PreemptKind, support: ReuseSupport, *, exact: bool, cost: CalibratedCost | None = None
) -> SwapRule | None:
    """The rule, in microseconds; None: what yields is computed again.

    Args:
        kind: of the configuration.
        support: of the backend; without a host store nothing is swapped.
        exact: whether an answer that is computed again takes a call for each of its tokens.
        cost: of steps, if they were calibrated.
    """
    if not support.save:
        return None
    match kind:
        case PreemptKind.RECOMPUTE:
            return None
        case PreemptKind.SWAP:
            return WHATEVER_IT_COSTS
        case PreemptKind.AUTO:
            token = 2 * support.bytes_per_token / BYTES_A_US
            row, call = _thumb(token) if cost is None else _measured(cost)
            return SwapRule(
                row_time=row,
                answer_row_time=call if exact else row,
                token_time=token,
                swap_time=WORTH_A_COPY * row,
            )
        case _:
            assert_never(kind)


def _thumb(token_time: float) -> tuple[float, float]:
    """A row of a chunk and a call of one row, by what moving a token takes."""
    row = max(TOKENS_A_ROW * token_time, 1.0)
    return row, ROWS_A_CALL * row


def _measured(cost: CalibratedCost) -> tuple[float, float]:
    """A row of a chunk, and a call of one row behind such a chunk; never nothing."""
    length = max(1, min(CHUNK, cost.rules.micro_batch, cost.valid.rows))
    chunk = cost.decode_time([Stretch(0, 0, length, wants_logits=False)])
    call = cost.decode_time([Stretch(0, length, 1, wants_logits=True)])
    return max(chunk / length, 1.0), max(call, 1.0)
