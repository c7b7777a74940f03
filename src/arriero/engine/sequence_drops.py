"""Which cleared sequences belonged to requests that ended or yielded there, and which held only a retained run."""

from collections.abc import Iterable

from arriero.core.events import Admitted, DropSequence, Event, Finished, MoveSequence, Preempted
from arriero.core.ids import SequenceId


def evicted_sequences(events: Iterable[Event]) -> list[SequenceId]:
    """The sequences that were cleared while nobody ran on them.

    A sequence is cleared right before the end of its request is told, so what was cleared and not followed by such an
    end held a run that was retained. What a moved request left behind is cleared too, and held nothing any more.
    """
    moved: list[SequenceId] = []
    evicted: list[SequenceId] = []
    pending: list[SequenceId | None] = []
    for event in events:
        match event:
            case MoveSequence(source=source):
                moved.append(source)
            case DropSequence(sequence_id) if sequence_id in moved:
                moved.remove(sequence_id)
            case DropSequence(sequence_id):
                pending.append(sequence_id)
            case Finished(sequence_id=sequence_id) | Preempted(sequence_id=sequence_id) if sequence_id in pending:
                pending.remove(sequence_id)
            case Admitted(sequence_id=sequence_id) if sequence_id in pending:
                pending.remove(sequence_id)
                evicted.append(sequence_id)
            case _:
                pass
    return [*evicted, *(each for each in pending if each is not None)]
