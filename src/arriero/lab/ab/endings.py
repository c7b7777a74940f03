"""Endings: how the runs of each variant ended, told from the records alone.

A run that timed out or failed is done again when the comparison is resumed, and only the later record is in a figure.
So a variant that hangs in one run of twenty would look like one that never does, if nobody counted.
"""

from collections.abc import Iterator, Sequence

from arriero.record.cpu_lab.ab import Endings, SideEndings, StatusCount
from arriero.record.cpu_lab.ab_run import AbRecord, SideName
from arriero.record.cpu_lab.run_log import Status, latest_per_id


def endings_of(records: Sequence[AbRecord]) -> Endings:
    """Both variants; in an A/A pair both runs are A's.

    Args:
        records: all lines of the run in their order, repeated invocations too.
    """
    return Endings(a=_side(records, "a"), b=_side(records, "b"))


def _side(records: Sequence[AbRecord], side: SideName) -> SideEndings:
    return SideEndings(
        num_runs=sum(record.variant == side for record in records), unsuccessful=tuple(_unsuccessful(records, side))
    )


def _unsuccessful(records: Sequence[AbRecord], side: SideName) -> Iterator[StatusCount]:
    latest = latest_per_id(records)
    for status in Status:
        ended = [record for record in records if record.variant == side and record.status is status]
        if ended and status is not Status.SUCCESS:
            num_repeated = sum(latest[record.invocation_id] is not record for record in ended)
            yield StatusCount(status=status, num_runs=len(ended), num_repeated=num_repeated)
