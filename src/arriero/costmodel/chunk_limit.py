"""What a step takes with more rows of a prompt, and how many of them still fit into a time.

The time does not always grow with the rows: from a tile of rows on attention takes another path, so that 64 rows can
take less than 63. Between two such places it does grow, so each stretch between them is searched by itself, the longest
first.

    rows      1 ......... 62 | 63 | 64 | 65 | 66 ............ micro-batch | + 1 .... + 62 | + 63 | ...

A search guesses where a straight line through both ends would meet the time, as steps take nearly so much for each
row; where that gains little, it halves.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from arriero.costmodel.calibrated import CalibratedCost, Prediction
from arriero.costmodel.chunk_times import ChunkTimes
from arriero.costmodel.passes import AnyRow, PassRules, Stretch
from arriero.costmodel.terms import BLOCK_ROWS


def with_chunk(cost: CalibratedCost, rows: Sequence[AnyRow], chunk: Stretch, *, pool: int = 0) -> Prediction:
    """What a step takes that has a chunk more; the arguments are those of `rows_within`."""
    place = bisect_left(rows, chunk.sequence_id, key=lambda row: row.sequence_id)
    return cost.predict([*rows[:place], chunk, *rows[place:]], pool=pool)


def rows_within(cost: CalibratedCost, rows: Sequence[AnyRow], chunk: Stretch, *, limit: int, pool: int = 0) -> int:
    """The most rows that a chunk may have so that the step takes no longer than `limit` microseconds.

    A number that is returned fits. Where other prompts share the passes of this one, a larger one may fit too; so it
    may, within a few rows, where kernels take rows in groups, since there 15 of them can take longer than 16.

    Args:
        cost: of steps.
        rows: what the step has already, ascending by sequence id.
        chunk: all that its prompt could use now; a shorter one gives no logits. Its sequence is not among `rows`.
        limit: for the whole step.
        pool: see `CalibratedCost.time`.

    Returns:
        0 if not even one row fits.

    Cost: some eight predictions, at most 7 + 2 log2(micro-batch), and log2 of the micro-batches that it fills. Where
    `rows` are decode rows in streams of their own, what does not depend on the chunk's length is predicted once.
    """
    if chunk.num_rows < 1:
        return 0
    return most_within(ChunkTimes(cost, rows, chunk, pool=pool).time, chunk.num_rows, cost.rules, limit)


def rows_worth(
    cost: CalibratedCost, rows: Sequence[AnyRow], chunk: Stretch, *, limit: int, pool: int = 0, least: int = 1
) -> int:
    """The rows of a chunk within a limit with which its prompt gets on fastest.

    Fewer than the most that fit where the last ones would begin a tile, or a block of the matrix kernels, and take more
    time than so few are worth. The arguments are those of `rows_within`.

    Args:
        cost, rows, chunk, limit, pool: see there.
        least: never fewer than this for that reason.

    Returns:
        0 if not even one row fits.
    """
    if chunk.num_rows < 1:
        return 0
    times = ChunkTimes(cost, rows, chunk, pool=pool)
    most = most_within(times.time, chunk.num_rows, cost.rules, limit)
    if most in {0, chunk.num_rows}:
        return most
    fewer = [times.in_blocks(most, block) for block in (BLOCK_ROWS, cost.rules.tile_rows)]
    found = [most, *(number for number in fewer if number >= least and times.time(number) <= limit)]
    return min(found, key=lambda number: times.time(number) / number)


def most_within(time: Callable[[int], float], wanted: int, rules: PassRules, limit: float) -> int:
    """The most rows, at most `wanted`, that take no longer than a limit by such a function; 0 if not even one does."""
    if time(wanted) <= limit:
        return wanted
    most = wanted - 1
    whole = _whole_passes(time, most, rules.micro_batch, limit)
    for first, last in _growing(min(most - whole, rules.micro_batch), rules.tile_rows):
        if time(whole + first) <= limit:
            # the one behind the last is either all that was wanted, which does not fit, or nobody has asked for it
            over = whole + last + 1
            return _most(time, whole + first, over if over == wanted else whole + last, limit)
    return 0


def _whole_passes(time: Callable[[int], float], most: int, micro_batch: int, limit: float) -> int:
    """Rows of the full micro-batches behind which at least one row still fits; 0 if it does behind none."""
    low, high = 0, (most - 1) // micro_batch + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if time(middle * micro_batch + 1) <= limit else (low, middle)
    return low * micro_batch


def _most(time: Callable[[int], float], first: int, last: int, limit: float) -> int:
    """The largest number of a stretch that fits, of which the first one does."""
    if time(last) <= limit:
        return last
    low, high = first, last  # `low` fits, `high` does not
    halve = False
    while high - low > 1:
        least, most = time(low), time(high)
        guess = (low + high) // 2 if halve else low + int((limit - least) * (high - low) / (most - least))
        guess = min(max(guess, low + 1), high - 1)
        width = high - low
        low, high = (guess, high) if time(guess) <= limit else (low, guess)
        halve = not halve and 2 * (high - low) > width
    return low


def _growing(most: int, tile: int) -> Iterator[tuple[int, int]]:
    """Stretches of row counts within a pass, from the longest down, in each of which the time grows."""
    for first, last in ((tile + 2, most), (tile + 1,) * 2, (tile,) * 2, (tile - 1,) * 2, (1, tile - 2)):
        if 1 <= first <= min(last, most):
            yield first, min(last, most)
