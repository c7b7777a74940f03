"""measure_granularity: the same graph in one piece and in packets of k nodes, in arms that take turns.

Whoever wants to decide something inside a graph - which layer to run next, whether to let another request in - has to
interrupt it there. Every interruption brings all compute threads together, starts them again and parts nodes that would
be computed in one pass. The price of that is what is measured here; what would be gained by it is not.
"""

import random
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from arriero.backend.llama_model import LlamaModel
from arriero.lab.operators.bench import Call, CallBench
from arriero.lab.operators.graph_passes import packets_of
from arriero.lab.operators.node_times import fits_packets, packet_times
from arriero.lab.operators.profile import PHASES, Graphs, Tell, read_graphs
from arriero.lab.operators.recorder import STILL, Recorder, Watch
from arriero.record.cpu_lab.granularity import PacketArm, PacketTimes, PhaseGranularity
from arriero.record.cpu_lab.operators import PhaseWord, ProfileSettings

WHOLE: Final = 0
BARE: Final = -1


class _Sizes(NamedTuple):
    """Packet sizes, the largest first."""

    sizes: tuple[int, ...]

    @property
    def arms(self) -> tuple[int, ...]:
        return (BARE, WHOLE, *self.sizes)


def packet_sizes(num_nodes: int) -> tuple[int, ...]:
    """Powers of two below the number of nodes, the largest first."""
    return tuple(2**power for power in reversed(range(num_nodes.bit_length())) if 2**power < num_nodes)


def measure_granularity(
    model: LlamaModel, settings: ProfileSettings, recorder: Recorder, sizes: tuple[int, ...] | None, tell: Tell
) -> tuple[PhaseGranularity, ...]:
    """Measure, in this thread.

    Args:
        model: loaded.
        settings: what to compute, and how often.
        recorder: fresh; belongs to the watched context from now on.
        sizes: nodes in a packet; None takes all powers of two.
        tell: hears of progress.

    Raises:
        ConfigError: the context cannot be made. BindingMismatch: the graph cannot be read.
    """
    bare = CallBench(model, settings, None)
    try:
        watched = CallBench(model, settings, recorder)
        try:
            graphs = read_graphs(model, watched)
            longest = max(len(graphs.prefill.nodes), len(graphs.decode.nodes))
            chosen = _Sizes(tuple(sorted(set(sizes), reverse=True)) if sizes else packet_sizes(longest))
            calls = _take_turns((bare, watched), graphs, chosen, settings, tell)
        finally:
            watched.close()
    finally:
        bare.close()
    return tuple(build_phase(phase, settings, len(graphs.of(phase).nodes), calls) for phase in PHASES)


Calls = Mapping[int, Mapping[PhaseWord, list[Call]]]
"""By nodes in a packet; 0: in one piece, -1: without callbacks."""


def _take_turns(
    benches: tuple[CallBench, CallBench], graphs: Graphs, sizes: _Sizes, settings: ProfileSettings, tell: Tell
) -> Calls:
    bare, watched = benches
    calls: dict[int, dict[PhaseWord, list[Call]]] = {size: {"prefill": [], "decode": []} for size in sizes.arms}
    order = random.Random(settings.seed)
    for repetition in range(settings.repetitions + 1):
        tell("warming up" if repetition == 0 else f"repetition {repetition} of {settings.repetitions}")
        for size in order.sample(sizes.arms, len(sizes.arms)):
            bench = bare if size == BARE else watched
            visit = bench.visit(*(watch_of(size, len(graphs.of(phase).nodes)) for phase in PHASES))
            if repetition:
                calls[size]["prefill"].append(visit.prefill)
                calls[size]["decode"].extend(visit.decode)
    return calls


def watch_of(size: int, num_nodes: int) -> Watch:
    """How a call of that arm is noted."""
    return STILL if size <= WHOLE else Watch(every=size, last=num_nodes - 1)


def build_phase(phase: PhaseWord, settings: ProfileSettings, num_nodes: int, calls: Calls) -> PhaseGranularity:
    """The figures of one phase.

    Args:
        phase: which.
        settings: of the run.
        num_nodes: of its graph.
        calls: of every arm and phase, equally many.
    """
    expected = [call.logits for call in calls[BARE][phase]]
    arms = tuple(
        PacketArm(
            every=size or None,
            num_packets=len(packets_of(num_nodes, size)),
            ns=tuple(call.ns for call in by_phase[phase]),
            packets=None if size == WHOLE else spread_of(by_phase[phase], len(packets_of(num_nodes, size))),
            equal_bits=[call.logits for call in by_phase[phase]] == expected,
        )
        for size, by_phase in calls.items()
        if size != BARE
    )
    return PhaseGranularity(
        phase=phase,
        rows=settings.prompt if phase == "prefill" else 1,
        context=settings.depth if phase == "prefill" else settings.depth + settings.prompt,
        num_nodes=num_nodes,
        bare_ns=tuple(call.ns for call in calls[BARE][phase]),
        arms=arms,
    )


def spread_of(calls: list[Call], num_packets: int) -> PacketTimes | None:
    """Least, median and greatest of the packets' medians; None if no call's events fit."""
    fitting = [call for call in calls if fits_packets(call, num_packets)]
    if not fitting:
        return None
    medians = np.median(packet_times(fitting), axis=0)
    return PacketTimes(
        least_ns=float(medians.min()), median_ns=float(np.median(medians)), greatest_ns=float(medians.max())
    )
