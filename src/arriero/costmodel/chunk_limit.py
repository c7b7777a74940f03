"""What a step takes with more rows of a prompt, and how many of them still fit into a time.

The time does not always grow with the rows: from a tile of rows on attention takes another path, so that 64 rows can
take less than 63. Between two such places it does grow, so each stretch between them is searched by halves, the longest
first.

    rows      1 ......... 62 | 63 | 64 | 65 | 66 ............ micro-batch | + 1 .... + 62 | + 63 | ...
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from arriero.costmodel.calibrated import CalibratedCost, Prediction
from arriero.costmodel.passes import AnyRow, PassRules, Stretch


def with_chunk(cost: CalibratedCost, rows: Sequence[AnyRow], chunk: Stretch, *, pool: int = 0) -> Prediction:
    """What a step takes that has a chunk more; the arguments are those of `rows_within`."""
    place = _place_of(rows, chunk)
    return cost.predict([*rows[:place], chunk, *rows[place:]], pool=pool)


def rows_within(cost: CalibratedCost, rows: Sequence[AnyRow], chunk: Stretch, *, limit: int, pool: int = 0) -> int:
    """The most rows that a chunk may have so that the step takes no longer than `limit` microseconds.

    A number that is returned fits. Where other prompts share the passes of this one, a larger one may fit too.

    Args:
        cost: of steps.
        rows: what the step has already, ascending by sequence id.
        chunk: all that its prompt could use now; a shorter one gives no logits. Its sequence is not among `rows`.
        limit: for the whole step.
        pool: see `CalibratedCost.time`.

    Returns:
        0 if not even one row fits.

    Cost: about 2 + log2(micro-batch) predictions for each micro-batch that the chunk fills.
    """
    place = _place_of(rows, chunk)
    before, after = rows[:place], rows[place:]

    def fits(num_rows: int) -> bool:
        is_all = num_rows == chunk.num_rows
        part = chunk._replace(num_rows=num_rows, wants_logits=chunk.wants_logits and is_all)
        return cost.time([*before, part, *after], pool=pool) <= limit

    if chunk.num_rows < 1:
        return 0
    if fits(chunk.num_rows):
        return chunk.num_rows
    for first, last in _growing(chunk.num_rows - 1, cost.rules):
        if not fits(first):
            continue
        low, high = first, last + 1  # `low` fits; nobody has asked for `high`, or it does not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low
    return 0


def _place_of(rows: Sequence[AnyRow], chunk: Stretch) -> int:
    return bisect_left(rows, chunk.sequence_id, key=lambda row: row.sequence_id)


def _growing(most: int, rules: PassRules) -> Iterator[tuple[int, int]]:
    """Stretches of row counts, from the longest down, in each of which the time grows; first and last of each."""
    tile = rules.tile_rows
    for whole in range(most // rules.micro_batch * rules.micro_batch, -1, -rules.micro_batch):
        for first, last in (
            (tile + 2, rules.micro_batch),
            (tile + 1,) * 2,
            (tile,) * 2,
            (tile - 1,) * 2,
            (1, tile - 2),
        ):
            if first <= min(last, rules.micro_batch, most - whole):
                yield whole + first, whole + min(last, rules.micro_batch, most - whole)
