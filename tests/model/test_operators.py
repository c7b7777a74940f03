"""Operators of the real library, on the first layers of the embedded model."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from arriero.backend.library import load_library
from arriero.backend.llama_model import LlamaModel
from arriero.backend.passing_thread import in_passing_thread
from arriero.backend.tensor_layout import probe_layout
from arriero.lab.operators.bench import CallBench
from arriero.lab.operators.compiled_recorder import choose_recorders
from arriero.lab.operators.granularity import measure_granularity
from arriero.lab.operators.graph_passes import packets_of
from arriero.lab.operators.host_split import split_host
from arriero.lab.operators.profile import profile_phases
from arriero.lab.operators.python_recorder import PythonRecorder
from arriero.lab.operators.recorder import Chosen, Watch
from arriero.record.cpu_lab.graph_nodes import Family
from arriero.record.cpu_lab.host_split import HostPart
from arriero.record.cpu_lab.operator_times import accounting, by_layer, compare_graphs
from arriero.record.cpu_lab.operators import Arm, Method, PhaseProfile, ProfileSettings

pytestmark = pytest.mark.model

LAYERS = 3
SETTINGS = ProfileSettings(
    prompt=24, generate=1, depth=8, threads=1, flash_attention="off", kv_type="f16", repetitions=2, seed=1
)
ACCOUNTED = 0.999
"""Share of a watched call that its parts explain. Of two calls a median is the mean, and means sum up, so nothing but
time that no stamp belongs to could be missing, however busy the machine is."""


@pytest.fixture(scope="module")
def recorders(tmp_path_factory: pytest.TempPathFactory) -> Chosen:
    return choose_recorders(tmp_path_factory.mktemp("recorder"))


@pytest.fixture(scope="module")
def phases(short_model: LlamaModel, recorders: Chosen) -> tuple[PhaseProfile, ...]:
    return in_passing_thread(lambda: profile_phases(short_model, SETTINGS, recorders.make(), lambda _line: None))


@pytest.fixture
def own_model(llama_process: None, short_path: Path) -> Iterator[LlamaModel]:
    """One whose library may be wrapped."""
    del llama_process
    loaded = LlamaModel(short_path)
    yield loaded
    loaded.close()


def test_fields_of_tensors_are_found_in_the_order_in_which_they_lie(llama_process: None) -> None:
    del llama_process
    layout = probe_layout(load_library())
    places = (layout.type_at, layout.shape_at, layout.operation_at, layout.sources_at, layout.name_at)
    assert list(places) == sorted(set(places))
    assert layout.num_sources >= 4  # flash attention has four


def test_both_graphs_are_known_node_by_node(phases: tuple[PhaseProfile, ...]) -> None:
    prefill, decode = phases
    for phase, rows in ((prefill, 24), (decode, 1)):
        assert phase.rows == rows
        products = [node for node in phase.nodes if node.family is Family.FEED_FORWARD and node.operation == "MUL_MAT"]
        assert len(products) == 3 * LAYERS
        assert {node.layer for node in products} == set(range(LAYERS))
        assert products[0].shape[1] == rows
        assert [node.name for node in phase.nodes if node.family is Family.OUTPUT_HEAD] == ["result_output"]
        assert sum(node.family is Family.KV_COPY for node in phase.nodes) == 2 * LAYERS
        assert sum(node.family is Family.OTHER for node in phase.nodes) == 0
        assert [group.key for group in by_layer(phase)] == ["0", "1", "2", "outside of layers"]
    found = compare_graphs(prefill.nodes, decode.nodes)
    assert found.num_nodes == (len(prefill.nodes), len(decode.nodes))
    assert len(found.reshaped) > len(decode.nodes) // 2
    assert not found.retyped


def test_stamps_fit_the_graph_and_explain_the_call(phases: tuple[PhaseProfile, ...]) -> None:
    for phase in phases:
        assert phase.method is Method.STAMPED
        assert phase.dropped == 0
        assert sum(node.joined for node in phase.nodes) in {0, 2 * LAYERS + 1}
        for node in phase.nodes:
            assert (node.stamped is not None) == (node.computes and not node.joined)
            assert node.apart is not None
        assert ACCOUNTED <= accounting(phase).accounted <= 1 / ACCOUNTED


def test_watching_changes_no_bit(phases: tuple[PhaseProfile, ...]) -> None:
    for phase in phases:
        assert {arm.arm for arm in phase.arms if arm.equal_bits} >= {Arm.BARE, Arm.STILL, Arm.STAMPED}
        assert [len(arm.ns) for arm in phase.arms] == [2] * len(Arm)


def test_packets_of_every_size_compute_the_same_graph(short_model: LlamaModel, recorders: Chosen) -> None:
    found = in_passing_thread(
        lambda: measure_granularity(short_model, SETTINGS, recorders.make(), (16, 1), lambda _line: None)
    )
    for phase in found:
        assert [arm.every for arm in phase.arms] == [None, 16, 1]
        assert phase.arms[0].equal_bits
        for arm in phase.arms:
            assert arm.num_packets == len(packets_of(phase.num_nodes, arm.every or 0))
            assert (arm.packets is None) == (arm.every is None)


def test_callbacks_in_python_see_the_same_graph(short_model: LlamaModel, phases: tuple[PhaseProfile, ...]) -> None:
    def stamps() -> int:
        bench = CallBench(short_model, SETTINGS, PythonRecorder())
        try:
            bench.start()
            return len(bench.prefill(Watch(stamps=True, last=len(phases[0].nodes) - 1)).events)
        finally:
            bench.close()

    expected = sum(node.stamped is not None for node in phases[0].nodes) + 1
    assert in_passing_thread(stamps) == expected


def test_the_host_s_part_of_a_step_is_split(own_model: LlamaModel) -> None:
    split = split_host(own_model, SETTINGS, (1, 4), num_steps=4)
    assert [point.sequences for point in split.points] == [1, 4]
    for point in split.points:
        assert len(point.step_ns) >= 4
        for place, step in enumerate(point.step_ns):
            parts = {each.part: each.ns[place] for each in point.parts}
            assert sum(parts.values()) == step
            assert all(ns > 0 for part, ns in parts.items() if part is not HostPart.REST)
