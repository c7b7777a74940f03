"""From calls to the figures of a phase; the calls are made by the same callbacks as in llama.cpp."""

from itertools import count

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from arriero.core.errors import ConfigError
from arriero.lab.operators.bench import Call, check_settings
from arriero.lab.operators.granularity import BARE, WHOLE, packet_sizes
from arriero.lab.operators.granularity import Calls as PacketCalls
from arriero.lab.operators.granularity import build_phase as build_packets
from arriero.lab.operators.granularity import watch_of as watch_of_packets
from arriero.lab.operators.graph_passes import PlainNode, packets_of
from arriero.lab.operators.graph_reading import ReadGraph
from arriero.lab.operators.profile import Calls, build_phase, watch_of
from arriero.lab.operators.python_recorder import PythonRecorder
from arriero.lab.operators.recorder import EVENT
from arriero.record.cpu_lab.operators import Arm, Method
from tests.unit.lab.operators.scheduler_loop import SchedulerLoop
from tests.unit.record.cpu_lab.operator_files import SETTINGS, nodes

PLAIN = tuple(PlainNode(node.operation, 16 * (node.number + 1), (16 * node.number,)) for node in nodes(1))
UNTIMED = tuple(replace(node, stamped=None, apart=None) for node in nodes(1))
GRAPH = ReadGraph(UNTIMED, PLAIN)
NOTHING: NDArray[np.void] = np.empty(0, EVENT)


def calls_of(arm: Arm, *, bits: bytes = b"same", num_calls: int = 2) -> list[Call]:
    loop, ticks = SchedulerLoop(PythonRecorder()), count(1)
    found = []
    for _ in range(num_calls):
        events = NOTHING if arm is Arm.BARE else loop.compute(PLAIN, watch_of(arm, GRAPH))
        events["at"] = [100 * next(ticks) for _ in events]
        began = int(events["at"][0]) - 40 if len(events) else 0
        ended = int(events["at"][-1]) + 60 if len(events) else 700
        found.append(Call(began, ended, events, bits))
    return found


def every_arm(**changed: list[Call]) -> Calls:
    return {arm: {"decode": changed.get(arm.value, calls_of(arm))} for arm in Arm}


def test_a_phase_with_stamps() -> None:
    phase = build_phase("decode", SETTINGS, GRAPH, every_arm())
    assert phase.method is Method.STAMPED
    stamped = [None if node.stamped is None else node.stamped.median_ns for node in phase.nodes]
    assert stamped == [100, 100, 100, None, 100]
    assert all(node.apart is not None for node in phase.nodes)
    assert (phase.before_ns, phase.after_ns, phase.cut_ns, phase.dropped) == (40, 60, 100, 0)
    assert [arm.arm for arm in phase.arms] == list(Arm)
    assert all(arm.equal_bits for arm in phase.arms)
    assert phase.context == SETTINGS.prompt
    assert phase.reasons == {}


def test_stamps_that_fit_no_graph_leave_the_nodes_apart_with_a_reason() -> None:
    odd = [call._replace(events=call.events[:-2]) for call in calls_of(Arm.STAMPED)]
    phase = build_phase("decode", SETTINGS, GRAPH, every_arm(stamped=odd))
    assert phase.method is Method.APART
    assert phase.before_ns is None
    assert phase.reasons["before_ns"].startswith("the stamps do not fit")
    assert phase.dropped == len(odd)


def test_one_call_that_does_not_fit_is_left_out_and_counted() -> None:
    calls = calls_of(Arm.STAMPED, num_calls=5)
    calls[2] = calls[2]._replace(events=calls[2].events[:-1])
    phase = build_phase("decode", SETTINGS, GRAPH, every_arm(stamped=calls))
    assert phase.method is Method.STAMPED
    assert phase.dropped == 1


def test_other_bits_are_told() -> None:
    phase = build_phase("decode", SETTINGS, GRAPH, every_arm(apart=calls_of(Arm.APART, bits=b"other")))
    assert [arm.equal_bits for arm in phase.arms] == [True, True, True, False]


def test_the_context_of_a_prefill_call_is_what_lies_before_it() -> None:
    calls: Calls = {arm: {"prefill": calls_of(arm)} for arm in Arm}
    phase = build_phase("prefill", replace(SETTINGS, depth=32), GRAPH, calls)
    assert (phase.rows, phase.context) == (SETTINGS.prompt, 32)


def test_sizes_of_packets_are_powers_of_two_below_the_graph() -> None:
    assert packet_sizes(5) == (4, 2, 1)
    assert packet_sizes(1) == ()
    assert packet_sizes(1024)[0] == 512
    assert packet_sizes(1086)[0] == 1024


def test_a_phase_in_packets() -> None:
    loop = SchedulerLoop(PythonRecorder())
    calls: PacketCalls = {
        size: {"decode": [Call(0, 700, loop.compute(PLAIN, watch_of_packets(size, len(PLAIN))), b"same")] * 2}
        for size in (BARE, WHOLE, 4, 1)
    }
    phase = build_packets("decode", SETTINGS, len(PLAIN), calls)
    assert [arm.every for arm in phase.arms] == [None, 4, 1]
    assert [arm.num_packets for arm in phase.arms] == [len(packets_of(len(PLAIN), size)) for size in (0, 4, 1)]
    assert phase.arms[0].packets is None
    assert all(arm.packets is not None for arm in phase.arms[1:])
    assert phase.bare_ns == (700, 700)


def test_a_prompt_that_one_graph_cannot_hold_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match=r"--prompt 4096: .* lower it, and put the rest before it with --depth"):
        check_settings(replace(SETTINGS, prompt=4096))
