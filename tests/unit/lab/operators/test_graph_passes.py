from hypothesis import given
from hypothesis import strategies as st

from arriero.lab.operators.graph_passes import PlainNode, fitting_passes, packets_of, passes_of
from arriero.record.cpu_lab.graph_nodes import EMPTY
from tests.unit.lab.operators.scheduler_loop import plain_nodes

OPERATIONS = st.lists(st.sampled_from(("RMS_NORM", "MUL", "MUL_MAT", "VIEW", "PERMUTE", "ADD")), max_size=60)


@given(st.integers(1, 3000), st.integers(0, 3001))
def test_packets_partition_the_nodes(num_nodes: int, every: int) -> None:
    packets = packets_of(num_nodes, every)
    assert [number for packet in packets for number in packet] == list(range(num_nodes))
    assert all(len(packet) == every for packet in packets[:-1])
    if every:
        assert len(packets) == -(-num_nodes // every)


@given(operations=OPERATIONS, joins=st.booleans())
def test_every_node_that_computes_is_in_one_pass(*, operations: list[str], joins: bool) -> None:
    passes = passes_of(plain_nodes(operations), joins=joins)
    found = [number for numbers in passes for number in numbers]
    assert found == [number for number, name in enumerate(operations) if name not in EMPTY]


@given(operations=OPERATIONS, joins=st.booleans())
def test_passes_are_recognised_by_their_number(*, operations: list[str], joins: bool) -> None:
    nodes = plain_nodes(operations)
    passes = passes_of(nodes, joins=joins)
    fitting = fitting_passes(nodes, len(passes))
    assert fitting is not None
    assert len(fitting) == len(passes)


def test_a_norm_and_the_product_with_its_weights_are_one_pass() -> None:
    nodes = plain_nodes(("RMS_NORM", "MUL", "MUL_MAT"))
    assert passes_of(nodes, joins=True) == ((0, 1), (2,))
    assert passes_of(nodes, joins=False) == ((0,), (1,), (2,))


def test_a_product_of_something_else_is_a_pass_of_its_own() -> None:
    nodes = (PlainNode("RMS_NORM", 16, ()), PlainNode("MUL", 32, (48,)))
    assert passes_of(nodes, joins=True) == ((0,), (1,))


def test_stamps_that_fit_neither_way_are_no_profile() -> None:
    assert fitting_passes(plain_nodes(("RMS_NORM", "MUL")), 3) is None
