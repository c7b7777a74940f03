"""What a calibrated cost model says of the rows among which the time of a step is divided."""

from collections.abc import Sequence

from arriero.costmodel.calibrated import CalibratedCost
from arriero.costmodel.passes import Stretch
from arriero.metrics.explain_shares import RowsTime, Work


def calibrated_time(cost: CalibratedCost) -> RowsTime:
    """Microseconds inside the decode call, by the rows themselves.

    What a machine's present speed is does not matter, since only proportions are asked for.
    """

    def time_of(rows: Sequence[Work]) -> float:
        return cost.decode_time([Stretch(row.sequence_id, row.start, row.num_rows, row.wants_logits) for row in rows])

    return time_of
