import pytest

from arriero.core.errors import BadWorkload
from arriero.workload.notes import NO_NOTES, Notes, as_metadata, check_notes, notes_of
from tests.unit.workload.samples import record


def test_notes_survive_the_way_through_metadata() -> None:
    notes = Notes(session_id="s", turn=2, fresh_token_count=4, follows="a", think_time_us=0)
    assert notes_of(record(metadata=as_metadata(notes))) == notes
    assert as_metadata(NO_NOTES) is None
    assert notes_of(record(metadata={"mine": 1})) is NO_NOTES


@pytest.mark.parametrize(
    "notes", [{"follows": "a"}, {"think_time_us": 3}, {"turn": -1}, {"client": True}, {"mood": "good"}, 5]
)
def test_malformed_notes_are_an_error_that_names_the_request(notes: object) -> None:
    with pytest.raises(BadWorkload, match=r"request 'a': metadata\.arriero: "):
        notes_of(record(metadata={"arriero": notes}))


@pytest.mark.parametrize("before", ["nobody", "b", "c"])
def test_a_request_can_only_follow_one_that_comes_before(before: str) -> None:
    follower = record("b", 5, metadata=as_metadata(Notes(follows=before, think_time_us=1)))
    with pytest.raises(BadWorkload, match="comes before it"):
        check_notes([record("a", 5), follower, record("c", 5)])


def test_a_request_may_follow_one_of_the_same_moment() -> None:
    check_notes([record("b", 5, metadata=as_metadata(Notes(follows="a", think_time_us=0))), record("a", 5)])
