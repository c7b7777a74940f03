import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from arriero.record.cpu_lab.graph_nodes import Family, GraphNode, NodeTime
from arriero.record.cpu_lab.operator_times import (
    accounting,
    by_family,
    by_layer,
    by_operation,
    compare_graphs,
    group_times,
    node_ns,
    operation_key,
)
from arriero.record.cpu_lab.operators import Method
from tests.unit.record.cpu_lab.operator_files import GRAPH, node, nodes, phase


@st.composite
def graphs(draw: st.DrawFn) -> tuple[GraphNode, ...]:
    """Nodes with any family, layer and time, some without a time."""
    found = []
    for number in range(draw(st.integers(1, 40))):
        ns = draw(st.none() | st.floats(0, 1e9))
        time = None if ns is None else NodeTime(median_ns=ns, low_ns=ns, high_ns=ns)
        found.append(
            GraphNode(
                number=number,
                name=draw(st.sampled_from(("a", "b", ""))),
                operation=draw(st.sampled_from(("MUL_MAT", "ROPE", "VIEW", "ADD"))),
                type="f32",
                shape=(1, 1, 1, 1),
                sources=node(2, 1).sources,
                family=draw(st.sampled_from(Family)),
                layer=draw(st.none() | st.integers(0, 5)),
                stamped=time,
                apart=time,
            )
        )
    return tuple(found)


@given(graphs(), st.sampled_from(Method))
def test_every_grouping_conserves_the_time_and_the_nodes(graph: tuple[GraphNode, ...], method: Method) -> None:
    total = sum(node_ns(each, method) for each in graph)
    for key in (operation_key, lambda each: each.family.value, lambda each: str(each.layer)):
        groups = group_times(graph, method, key)
        assert sum(group.ns for group in groups) == pytest.approx(total)
        assert sum(group.num_nodes for group in groups) == len(graph)
        assert sum(group.share for group in groups) == pytest.approx(1.0 if total else 0.0)
        assert [group.ns for group in groups] == sorted((group.ns for group in groups), reverse=True)


@given(graphs())
def test_a_graph_does_not_differ_from_itself(graph: tuple[GraphNode, ...]) -> None:
    found = compare_graphs(graph, graph)
    assert not (found.only_first)
    assert not (found.only_second)
    assert not (found.reshaped)
    assert not (found.retyped)


@given(graphs(), graphs())
def test_every_node_of_two_graphs_is_paired_or_alone(
    first: tuple[GraphNode, ...], second: tuple[GraphNode, ...]
) -> None:
    found = compare_graphs(first, second)
    assert len(first) - len(found.only_first) == len(second) - len(found.only_second)
    assert found.num_nodes == (len(first), len(second))


def test_groups_of_a_phase() -> None:
    found = phase("decode")
    assert [group.key for group in by_operation(found)] == ["MUL_MAT q4_1", "RMS_NORM", "GET_ROWS", "VIEW"]
    assert by_family(found)[0].key == "output head"
    layers = by_layer(found)
    assert [group.key for group in layers] == ["0", "outside of layers"]
    assert layers[0].ns == 32_000.0


def test_what_a_call_is_made_of() -> None:
    found = accounting(phase("decode"))
    assert found.nodes_ns == 93_000.0
    assert found.step_ns == 103_020.0
    assert found.accounted == pytest.approx(100_000 / 103_020)


def test_without_stamps_nothing_is_said_about_the_time_around_the_graph() -> None:
    found = accounting(phase("decode", stamped=False))
    assert (found.before_ns, found.after_ns) == (None, None)
    assert found.nodes_ns == sum(each[-1] for each in GRAPH) + 3_000 * len(GRAPH)


def test_graphs_differ_in_shapes_types_and_nodes() -> None:
    first, second = nodes(8), nodes(1)[:-1]
    retyped = (*second[:-1], replace(second[-1], type="f16"))
    found = compare_graphs(first, retyped)
    assert [each.name for each in found.only_first] == ["result_output"]
    assert found.only_second == ()
    assert len(found.reshaped) == 4
    assert [one.name for one, _ in found.retyped] == ["Qcur-0 (view)"]
    assert found.num_computed == (4, 3)


def test_numbered_nodes_are_paired_whatever_their_number() -> None:
    first = (replace(node(1, 1), name="node_7"),)
    second = (replace(node(1, 1), name="node_9"),)
    assert compare_graphs(first, second).only_first == ()
