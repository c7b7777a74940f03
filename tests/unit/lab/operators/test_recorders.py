"""Both recorders, driven as llama.cpp drives them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.errors import InvariantViolation
from arriero.lab.compile import Compiler, find_compilers
from arriero.lab.operators.compiled_recorder import CompiledRecorder, choose_recorders
from arriero.lab.operators.graph_passes import packets_of, passes_of
from arriero.lab.operators.python_recorder import PythonRecorder
from arriero.lab.operators.recorder import LISTED, STILL, Kind, Recorder, Watch
from tests.unit.lab.operators.scheduler_loop import SchedulerLoop, plain_nodes

OPERATIONS = ("GET_ROWS", "RMS_NORM", "MUL", "MUL_MAT", "VIEW", "RESHAPE", "ROPE", "ADD")
Make = Callable[[], Recorder]


@pytest.fixture(scope="module", params=["python", "compiled"])
def make(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Make:
    if request.param == "python":
        return PythonRecorder
    chosen = choose_recorders(tmp_path_factory.mktemp("recorder"))
    if chosen.reason is not None:
        pytest.skip(chosen.reason)
    return chosen.make


@given(st.lists(st.sampled_from(OPERATIONS), min_size=1, max_size=40), st.integers(1, 45))
def test_packets_partition_the_nodes_and_each_has_a_beginning_and_an_end(
    make: Make, operations: list[str], every: int
) -> None:
    nodes = plain_nodes(operations)
    loop = SchedulerLoop(make())
    events = loop.compute(nodes, Watch(every=every, last=len(nodes) - 1))
    expected = [tuple(packet) for packet in packets_of(len(nodes), every)]
    assert loop.packets == expected
    assert events["kind"].tolist() == [Kind.ASKED, Kind.COMPUTED] * len(expected)
    assert events["node"].tolist() == [nodes[packet[-1]].address for packet in expected for _ in range(2)]
    assert (events["at"][1:] >= events["at"][:-1]).all()


@given(st.lists(st.sampled_from(OPERATIONS), min_size=1, max_size=40))
def test_stamps_leave_the_graph_in_one_piece(make: Make, operations: list[str]) -> None:
    nodes = plain_nodes(operations)
    loop = SchedulerLoop(make())
    events = loop.compute(nodes, Watch(stamps=True, last=len(nodes) - 1))
    assert len(loop.packets) == 1
    assert events["kind"].tolist() == [Kind.ASKED, *[Kind.STAMPED] * len(passes_of(nodes, joins=True))]


def test_a_listed_graph_is_in_one_piece_and_every_node_is_in_the_list(make: Make) -> None:
    nodes = plain_nodes(OPERATIONS)
    loop = SchedulerLoop(make())
    events = loop.compute(nodes, LISTED)
    assert len(loop.packets) == 1
    assert events["node"].tolist() == [node.address for node in nodes]


def test_still_callbacks_note_nothing(make: Make) -> None:
    loop = SchedulerLoop(make())
    assert len(loop.compute(plain_nodes(OPERATIONS), STILL)) == 0
    assert len(loop.packets) == 1


def test_what_was_noted_of_one_call_is_not_in_the_next(make: Make) -> None:
    nodes = plain_nodes(OPERATIONS)
    loop = SchedulerLoop(make())
    first = loop.compute(nodes, LISTED)
    second = loop.compute(nodes, LISTED)
    assert len(first) == len(second) == len(nodes)
    assert second["at"][0] >= first["at"][-1]


def test_without_a_compiler_the_callbacks_are_in_python_and_say_so(tmp_path: Path) -> None:
    chosen = choose_recorders(tmp_path, {})
    assert chosen.reason == "no C compiler on this machine"
    assert chosen.make().name == "Python callbacks"


def test_a_compiler_that_fails_is_the_reason(tmp_path: Path) -> None:
    broken = Compiler(name="gcc", path=Path("/bin/false"), version="gcc 1.0")
    chosen = choose_recorders(tmp_path, {"gcc": broken})
    assert chosen.reason is not None
    assert chosen.reason.startswith("gcc 1.0: cannot build recorder.c")
    assert isinstance(chosen.make(), PythonRecorder)


@pytest.mark.skipif(not find_compilers(), reason="no C compiler")
def test_more_events_than_there_is_room_for_are_an_error_and_not_a_short_list(tmp_path: Path) -> None:
    made = choose_recorders(tmp_path).make()
    assert isinstance(made, CompiledRecorder)
    small = CompiledRecorder(made._library, "small", room=3)
    loop = SchedulerLoop(small)
    with pytest.raises(InvariantViolation, match="8 events of one decode call, and room for 3"):
        loop.compute(plain_nodes(OPERATIONS), LISTED)
