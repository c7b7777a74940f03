"""profile_phases: prefill and decode by operator, in arms that take turns.

    bare       a context of its own without callbacks
    still      callbacks that answer and note nothing
    stamped    one graph, a stamp after each node
    apart      each node as a graph of its own

Every repetition visits every arm once, in an order drawn anew. The first visit of each arm warms up and is in no
figure. The overhead of watching is the difference between the arms, and stands in the result beside the times.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from arriero.backend.llama_model import LlamaModel
from arriero.backend.tensor_layout import TensorReader, probe_layout
from arriero.lab.operators.bench import Call, CallBench
from arriero.lab.operators.graph_passes import fitting_passes
from arriero.lab.operators.graph_reading import ReadGraph, read_graph
from arriero.lab.operators.node_times import (
    StampedTimes,
    fits_packets,
    fits_stamps,
    packet_times,
    price_of_cut,
    stamped_times,
    with_packets,
    with_stamps,
)
from arriero.lab.operators.recorder import LISTED, STILL, Kind, Recorder, Watch
from arriero.record.cpu_lab.graph_nodes import GraphNode
from arriero.record.cpu_lab.operators import Arm, ArmTimes, Method, PhaseProfile, PhaseWord, ProfileSettings

Tell = Callable[[str], None]

PHASES: Final[tuple[PhaseWord, ...]] = ("prefill", "decode")
UNFIT: Final = "the stamps do not fit the graph's nodes: this llama.cpp joins nodes in a way that is not known here"


class Graphs(NamedTuple):
    """Both graphs of one context."""

    prefill: ReadGraph
    decode: ReadGraph

    def of(self, phase: PhaseWord) -> ReadGraph:
        """One of them."""
        return self.prefill if phase == "prefill" else self.decode


Calls = Mapping[Arm, Mapping[PhaseWord, list[Call]]]


def profile_phases(
    model: LlamaModel, settings: ProfileSettings, recorder: Recorder, tell: Tell
) -> tuple[PhaseProfile, ...]:
    """Measure, in this thread.

    Args:
        model: loaded.
        settings: what to compute, and how often.
        recorder: fresh; belongs to the watched context from now on.
        tell: hears of progress.

    Raises:
        ConfigError: the context cannot be made. BindingMismatch: the graph cannot be read.
    """
    bare = CallBench(model, settings, None)
    try:
        watched = CallBench(model, settings, recorder)
        try:
            graphs = read_graphs(model, watched)
            calls = _take_turns(bare, watched, graphs, settings, tell)
        finally:
            watched.close()
    finally:
        bare.close()
    return tuple(build_phase(phase, settings, graphs.of(phase), calls) for phase in PHASES)


def read_graphs(model: LlamaModel, bench: CallBench) -> Graphs:
    """List both graphs; each is read before the next call."""
    reader = TensorReader(model.library, probe_layout(model.library))
    bench.start()
    prefill = read_graph(reader, bench.prefill(LISTED).events)
    return Graphs(prefill, read_graph(reader, bench.decode(0, LISTED).events))


def _take_turns(bare: CallBench, watched: CallBench, graphs: Graphs, settings: ProfileSettings, tell: Tell) -> Calls:
    calls: dict[Arm, dict[PhaseWord, list[Call]]] = {arm: {"prefill": [], "decode": []} for arm in Arm}
    order = random.Random(settings.seed)
    for repetition in range(settings.repetitions + 1):
        tell("warming up" if repetition == 0 else f"repetition {repetition} of {settings.repetitions}")
        for arm in order.sample(tuple(Arm), len(Arm)):
            bench = bare if arm is Arm.BARE else watched
            visit = bench.visit(watch_of(arm, graphs.prefill), watch_of(arm, graphs.decode))
            if repetition:
                calls[arm]["prefill"].append(visit.prefill)
                calls[arm]["decode"].extend(visit.decode)
    return MappingProxyType(calls)


def watch_of(arm: Arm, graph: ReadGraph) -> Watch:
    """How a call of an arm is noted."""
    last = len(graph.nodes) - 1
    return {
        Arm.BARE: STILL,
        Arm.STILL: STILL,
        Arm.STAMPED: Watch(stamps=True, last=last),
        Arm.APART: Watch(every=1, last=last),
    }[arm]


def build_phase(phase: PhaseWord, settings: ProfileSettings, graph: ReadGraph, calls: Calls) -> PhaseProfile:
    """The figures of one phase.

    Args:
        phase: which.
        settings: of the run.
        graph: of that phase.
        calls: of every arm and phase, equally many.
    """
    mine = {arm: calls[arm][phase] for arm in Arm}
    apart = [call for call in mine[Arm.APART] if fits_packets(call, len(graph.nodes))]
    nodes: tuple[GraphNode, ...] = graph.nodes
    if apart:
        nodes = with_packets(nodes, packet_times(apart))
    stamped = _Stamped.of(graph, mine[Arm.STAMPED])
    method, reasons = Method.APART, {"before_ns": UNFIT, "after_ns": UNFIT}
    if stamped.times is not None:
        nodes, method, reasons = with_stamps(nodes, stamped.times), Method.STAMPED, {}
    cut_ns = price_of_cut(nodes)
    if cut_ns is None:
        reasons["cut_ns"] = "every node of the graph computes something"
    return PhaseProfile(
        phase=phase,
        rows=settings.prompt if phase == "prefill" else 1,
        context=settings.depth if phase == "prefill" else settings.depth + settings.prompt,
        method=method,
        arms=arm_times(mine),
        nodes=nodes,
        before_ns=None if stamped.times is None else float(np.median(stamped.times.before)),
        after_ns=None if stamped.times is None else float(np.median(stamped.times.after)),
        cut_ns=cut_ns,
        dropped=stamped.dropped + len(mine[Arm.APART]) - len(apart),
        reasons=reasons,
    )


def arm_times(calls: Mapping[Arm, Sequence[Call]]) -> tuple[ArmTimes, ...]:
    """Times of whole calls, and whether their logits are those of the bare context."""
    expected = [call.logits for call in calls[Arm.BARE]]
    return tuple(
        ArmTimes(
            arm=arm,
            ns=tuple(call.ns for call in calls[arm]),
            equal_bits=[call.logits for call in calls[arm]] == expected,
        )
        for arm in Arm
    )


class _Stamped(NamedTuple):
    """What the stamped calls gave: times if most of them fit, and how many did not."""

    times: StampedTimes | None
    dropped: int

    @classmethod
    def of(cls, graph: ReadGraph, calls: Sequence[Call]) -> "_Stamped":
        counts = [int((call.events["kind"] == Kind.STAMPED).sum()) for call in calls]
        passes = fitting_passes(graph.plain, max(set(counts), key=counts.count))
        if passes is None:
            return cls(None, len(calls))
        fitting = [call for call in calls if fits_stamps(call, len(passes))]
        return cls(stamped_times(fitting, passes) if fitting else None, len(calls) - len(fitting))
