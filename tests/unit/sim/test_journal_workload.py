"""A journal becomes a workload: arrivals, lengths, shared beginnings, and what became of each request."""

from pathlib import Path

import pytest

from arriero.core.errors import BadJournal
from arriero.core.events import CancelById
from arriero.core.ids import Epoch, RequestId
from arriero.core.request import Request
from arriero.record.journal import JournalLines
from arriero.record.journal_schema import TimeLine
from arriero.sim.composition import build_scheduler
from arriero.sim.journal import journal_lines
from arriero.sim.journal_workload import import_journal
from arriero.sim.simulator import Cancellation, Message, Simulator, Submission
from arriero.testing.simulation import CountingAnswers, LinearCost
from arriero.workload.files import read_workload, write_workload
from arriero.workload.notes import NO_NOTES, Notes, notes_of
from arriero.workload.records import WorkloadRecord
from tests.unit.record.test_journal import SETUP, journal


def submission(request_id: int, epoch: int, at: int, *prompt: int) -> Submission:
    return Submission(
        Request(request_id=RequestId(request_id), prompt=prompt, max_tokens=4, arrival_at=at, epoch=Epoch(epoch))
    )


MESSAGES: list[Message] = [
    submission(1, 1, 1000, 5, 6, 7),
    submission(2, 2, 1040, 5, 6, 8, 8),
    submission(2, 3, 1041, 9),  # rejected: the id is alive
    Cancellation(CancelById(RequestId(2)), 1050),
    submission(3, 4, 1300, 5, 6, 7, 0, 1, 2, 3, 9),  # goes on after the first one's answer, which is 0 1 2 3
    submission(3, 5, 1900, 5, 6, 7, 0, 1, 2, 4),
]


def write(tmp_path: Path, *lines: bytes) -> Path:
    file = tmp_path / "j.jsonl"
    file.write_bytes(b"\n".join(lines) + b"\n")
    return file


@pytest.fixture
def records(tmp_path: Path) -> list[WorkloadRecord]:
    """The requests of the messages above."""
    # one prefill step, three decode steps of 11, then the second one's prefill until 1053, where the cancel acts
    simulator = Simulator(
        scheduler=build_scheduler(SETUP), cost=LinearCost(10, per_decode_row=1), answers=CountingAnswers(), check=True
    )
    return import_journal(write(tmp_path, *journal_lines(simulator.run(MESSAGES, start_at=1000), SETUP)))


def test_arrivals_count_from_the_first_and_rejected_ones_are_left_out(records: list[WorkloadRecord]) -> None:
    assert [(each.request_id, each.arrival_time_us) for each in records] == [
        ("journal-000001", 0),
        ("journal-000002", 40),
        ("journal-000004", 300),
        ("journal-000005", 900),
    ]
    assert {each.max_new_tokens for each in records} == {4}


def test_prompts_share_beginnings_as_the_recorded_ones_did(records: list[WorkloadRecord]) -> None:
    prompts = [list(each.prompt_tokens or ()) for each in records]
    assert [len(prompt) for prompt in prompts] == [each.prompt_token_count for each in records] == [3, 4, 8, 7]
    assert prompts[1][:2] == prompts[0][:2]
    assert prompts[1][2] != prompts[0][2]
    assert prompts[2][:3] == prompts[0]
    assert prompts[3][:6] == prompts[2][:6]
    assert prompts[3][6] != prompts[2][6]


def test_what_became_of_a_request_is_in_its_metadata(records: list[WorkloadRecord]) -> None:
    assert [each.metadata and each.metadata["journal"] for each in records] == [
        {"request": 1, "reason": "length", "num_decoded": 4},
        {
            "request": 2,
            "reason": "cancelled",
            "num_decoded": 1,
            "cancel_reason": "user",
            "cancelled_after_us": 13,
        },
        {"request": 3, "reason": "length", "num_decoded": 4},
        {"request": 3, "reason": "length", "num_decoded": 4},
    ]


def test_the_workload_can_be_written_and_read(records: list[WorkloadRecord], tmp_path: Path) -> None:
    file = tmp_path / "w.jsonl"
    write_workload(file, records)
    assert list(read_workload(file).records) == records


def test_a_journal_that_is_no_whole_run_is_refused(tmp_path: Path) -> None:
    lines = JournalLines()
    with pytest.raises(BadJournal, match="line 2: 3 records are missing here") as error:
        import_journal(write(tmp_path, lines.start(SETUP, TimeLine.MICROSECONDS), lines.gap(3)))
    assert error.value.file == str(tmp_path / "j.jsonl")
    with pytest.raises(BadJournal, match="another run begins here"):
        import_journal(write(tmp_path, *journal(), *journal()))
    with pytest.raises(BadJournal, match="its times are float_ms"):
        import_journal(write(tmp_path, JournalLines().start(SETUP, TimeLine.MILLISECONDS)))


def test_who_goes_first_is_kept(tmp_path: Path) -> None:
    urgent = Request(
        request_id=RequestId(1), prompt=(5, 6), max_tokens=2, arrival_at=1000, priority=-3, deadline_at=1900, tenant="x"
    )
    plain = Request(request_id=RequestId(2), prompt=(7,), max_tokens=2, arrival_at=1100)
    simulator = Simulator(scheduler=build_scheduler(SETUP), cost=LinearCost(10), answers=CountingAnswers())
    steps = simulator.run([Submission(urgent), Submission(plain)], start_at=1000)
    lines = list(journal_lines(steps, SETUP))
    assert not any(b'"x"' in line for line in lines), "a tenant's name is in the journal"
    records = import_journal(write(tmp_path, *lines))
    workload = tmp_path / "w.jsonl"
    write_workload(workload, records)
    read = read_workload(workload).records
    assert [notes_of(each) for each in read] == [Notes(priority=-3, tenant="tenant-0"), NO_NOTES]
    assert [each.deadline_us for each in read] == [900, None]
