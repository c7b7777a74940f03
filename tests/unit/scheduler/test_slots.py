from arriero.core.ids import RequestId
from arriero.core.plan import Deferral
from arriero.core.request import Request
from arriero.kv.cells import CellLayout, CellManager
from arriero.scheduler.admission import Continuous
from arriero.scheduler.policies import FirstComeFirstServed
from arriero.scheduler.progress import Progress
from arriero.scheduler.slots import Slots


def waiting(slots: Slots, request_id: int, prompt: int) -> Progress:
    request = Request(request_id=RequestId(request_id), prompt=(1,) * prompt, max_tokens=4, arrival_at=0)
    progress = Progress(request, (request_id,))
    slots.waiting.add(progress)
    return progress


def new_slots(num_sequences: int) -> Slots:
    layout = CellLayout(num_sequences=num_sequences, num_cells=20, sequence_limit=20, unified=True)
    return Slots(CellManager(layout), FirstComeFirstServed(), Continuous(), headroom_per_sequence=3)


def test_who_finds_every_slot_taken_is_told_apart_from_who_finds_no_cells() -> None:
    slots = new_slots(2)
    assert slots.admit(waiting(slots, 1, prompt=4)) is None
    assert slots.admit(waiting(slots, 2, prompt=14)) is Deferral.KV
    assert slots.admit(waiting(slots, 3, prompt=2)) is None
    assert slots.admit(waiting(slots, 4, prompt=2)) is Deferral.SLOTS
    assert [progress.request.request_id for progress in slots.running] == [1, 3]
    assert [progress.request.request_id for progress in slots.waiting] == [2, 4]


def test_events_are_handed_out_once() -> None:
    slots = new_slots(1)
    slots.admit(waiting(slots, 1, prompt=4))
    assert len(slots.take_events()) == 1
    assert slots.take_events() == ()
