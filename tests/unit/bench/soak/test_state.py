"""The state of a soak comes back equal, is whole at any moment, and nothing else passes for one."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from arriero.bench.soak.plan import Kind
from arriero.bench.soak.records import ServerRecord, Surprise
from arriero.bench.soak.state import STATE, SoakState, StateFile, read_state
from arriero.core.errors import ConfigError, DataError
from arriero.metrics.client_life import Outcome
from tests.unit.bench.soak.soaks import leg, reading, settings, state


def test_a_state_comes_back_equal(tmp_path: Path) -> None:
    surprise = Surprise(request_id="x", kind=Kind.SLOW, outcome=Outcome.ERROR, error="no_done", status=200)
    whole = replace(
        state(leg(0, num_surprises=1, surprises=(surprise,), gap_p99_ns=1.5, visit_cpu_s=None), leg(1)),
        failures=("a", "b"),
        num_resumed=2,
        servers=(ServerRecord(number=1, before=reading(tasks=None)),),
    )
    file = StateFile(tmp_path / "deep" / "soak", SoakState(settings=settings()))
    file.put(whole)
    assert file.state == whole
    assert read_state(tmp_path / "deep" / "soak") == whole
    assert [path.name for path in (tmp_path / "deep" / "soak").iterdir()] == [STATE]


def test_there_is_none_where_there_is_none(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None
    assert read_state(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "malformed JSON"),
        ('{"schema": "arriero-soak-v1"', "malformed JSON"),
        ('{"schema": "arriero-soak-v2", "settings": {}}', "schema"),
        ('{"schema": "arriero-soak-v1"}', "settings: missing"),
    ],
)
def test_what_is_no_state_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / STATE).write_text(text)
    with pytest.raises(DataError, match=words):
        read_state(tmp_path)


def test_legs_out_of_order_are_refused(tmp_path: Path) -> None:
    StateFile(tmp_path, state()).put(state(leg(1)))
    with pytest.raises(DataError, match="out of order"):
        read_state(tmp_path)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--out"):
        StateFile(tmp_path / "file", state()).put(state())


def test_it_is_over_when_every_leg_was_run() -> None:
    assert state(leg(0), leg(1)).is_over
    assert not replace(state(leg(0), leg(1)), legs=(leg(0),)).is_over
