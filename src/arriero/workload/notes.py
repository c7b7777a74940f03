"""What arriero's own generators say about a request beyond the format: the object `arriero` in its metadata.

A workload file says when each request arrives. In a closed loop that is not known beforehand: a request follows the
end of another one. So each record names the one that it follows and the time in between, and its `arrival_time_us` is
the moment at which it would arrive if answers took no more than their nominal time. A driver that knows these notes
runs a closed loop; one that does not runs the same requests as an open one, by the arrivals as they stand.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from arriero.core.errors import BadWorkload
from arriero.core.request import LEAST_URGENT, MOST_URGENT
from arriero.workload.records import COUNT_MAX, WorkloadRecord

KEY: Final = "arriero"
_Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
_Name = Annotated[str, Meta(min_length=1)]


class Notes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The notes on one request.

    Attributes:
        session_id: the conversation that it is a turn of.
        turn: which turn, from 0.
        fresh_token_count: how many tokens at the end of the prompt the caller wrote for this turn; what stands before
            them is the turn before and its answer, or the family's common beginning.
        client: the client of a closed loop that sends it, from 0.
        follows: the request whose end it waits for; None for one that arrives by the clock.
        think_time_us: from that end to this arrival; only with `follows`.
        priority: smaller goes first; what it is worth is the policy's matter.
        tenant: who pays for it in a fair share.
    """

    session_id: _Name | None = None
    turn: _Count | None = None
    fresh_token_count: _Count | None = None
    client: _Count | None = None
    follows: _Name | None = None
    think_time_us: _Count | None = None
    priority: Annotated[int, Meta(ge=MOST_URGENT, le=LEAST_URGENT)] = 0
    tenant: _Name | None = None

    def __post_init__(self) -> None:
        """Refuse half of a pair.

        Raises:
            ValueError: one of `follows` and `think_time_us` stands alone.
        """
        if (self.follows is None) != (self.think_time_us is None):
            raise ValueError("follows and think_time_us go together")


NO_NOTES: Final = Notes()


def as_metadata(notes: Notes) -> dict[str, Any] | None:
    """The metadata that say these notes; None if there is nothing to say."""
    return None if notes == NO_NOTES else {KEY: msgspec.to_builtins(notes)}


def notes_of(record: WorkloadRecord) -> Notes:
    """The notes on a request; empty for one that another program made.

    Raises:
        BadWorkload: there are notes, but not of this form.
    """
    if not record.metadata or KEY not in record.metadata:
        return NO_NOTES
    try:
        return msgspec.convert(record.metadata[KEY], Notes)
    except msgspec.ValidationError as error:
        raise BadWorkload(
            f"request {record.request_id!r}: metadata.{KEY}: {error}; see the workloads page for its fields",
            field="metadata",
        ) from None


def check_notes(records: Sequence[WorkloadRecord]) -> None:
    """Whether every request that follows another one can: it exists, comes earlier, and none is followed by itself.

    Raises:
        BadWorkload: not so.
    """
    arrivals = {record.request_id: record.arrival_time_us for record in records}
    for record in records:
        before = notes_of(record).follows
        if before is None:
            continue
        # earlier in (arrival, id) order, so that chains end
        if before not in arrivals or (arrivals[before], before) >= (record.arrival_time_us, record.request_id):
            raise BadWorkload(
                f"request {record.request_id!r}: metadata.{KEY}.follows: no request {before!r} comes before it; "
                "name one that does, or leave it out",
                field="metadata",
            )
