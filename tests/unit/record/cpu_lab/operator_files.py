"""A small operator profile and a small run of packets, written down."""

from collections.abc import Sequence

from arriero.record.cpu_lab.granularity import GranularityResult, PacketArm, PacketTimes, PhaseGranularity
from arriero.record.cpu_lab.graph_nodes import EMPTY, Family, GraphNode, NodeSource, NodeTime
from arriero.record.cpu_lab.host_split import HostPart, HostPoint, HostSplit, PartTimes
from arriero.record.cpu_lab.model_facts import ModelFacts, TensorTypeFacts
from arriero.record.cpu_lab.operators import (
    Arm,
    ArmTimes,
    Method,
    OperatorProfile,
    PhaseProfile,
    PhaseWord,
    ProfileSettings,
)
from arriero.record.cpu_lab.roofline import Arithmetic, CeilingUsed, PhaseRoofline, Roofline, WorkPart
from tests.unit.record.cpu_lab.kernel_files import SHA, conditions, environment, run_facts

SETTINGS = ProfileSettings(
    prompt=8, generate=2, depth=0, threads=2, flash_attention="auto", kv_type="f16", repetitions=2, seed=1
)
GRAPH = (
    ("inp_embd", "GET_ROWS", Family.EMBEDDING, None, 1_000.0),
    ("norm-0", "RMS_NORM", Family.NORMS, 0, 2_000.0),
    ("Qcur-0", "MUL_MAT", Family.PROJECTIONS, 0, 30_000.0),
    ("Qcur-0 (view)", "VIEW", Family.VIEWS, 0, 500.0),
    ("result_output", "MUL_MAT", Family.OUTPUT_HEAD, None, 60_000.0),
)


def model() -> ModelFacts:
    return ModelFacts(
        file="small.gguf", bytes=1000, sha256=SHA, gguf_version=3, architecture="llama", name="Small",
        num_parameters=900, declared_format="Q4_1",
        tensor_types=(TensorTypeFacts(type="Q4_1", num_tensors=2, num_weights=900, bytes=800),), fallbacks=(),
        trained_context=2048, vocab_size=4, num_layers=1, embedding_length=576, reasons={},
    )  # fmt: skip


def time(ns: float) -> NodeTime:
    return NodeTime(median_ns=ns, low_ns=0.9 * ns, high_ns=1.2 * ns)


def node(number: int, rows: int, *, stamped: bool = True) -> GraphNode:
    name, operation, family, layer, ns = GRAPH[number]
    return GraphNode(
        number=number, name=name, operation=operation, type="f32", shape=(576, rows, 1, 1),
        sources=(NodeSource(name="weight", type="q4_1", shape=(576, 576, 1, 1)),), family=family, layer=layer,
        stamped=time(ns) if stamped and operation not in EMPTY else None, apart=time(ns + 3_000),
    )  # fmt: skip


def nodes(rows: int, *, stamped: bool = True) -> tuple[GraphNode, ...]:
    return tuple(node(number, rows, stamped=stamped) for number in range(len(GRAPH)))


def arms(times: Sequence[int]) -> tuple[ArmTimes, ...]:
    slower = {Arm.BARE: 100, Arm.STILL: 101, Arm.STAMPED: 102, Arm.APART: 150}
    return tuple(
        ArmTimes(arm=arm, ns=tuple(each * percent // 100 for each in times), equal_bits=arm is not Arm.APART)
        for arm, percent in slower.items()
    )


def phase(word: PhaseWord, *, stamped: bool = True) -> PhaseProfile:
    rows = 8 if word == "prefill" else 1
    reasons = {} if stamped else dict.fromkeys(("before_ns", "after_ns"), "no stamps here")
    return PhaseProfile(
        phase=word, rows=rows, context=0 if word == "prefill" else 8,
        method=Method.STAMPED if stamped else Method.APART, arms=arms((100_000, 102_000)),
        nodes=nodes(rows, stamped=stamped), before_ns=4_000.0 if stamped else None,
        after_ns=3_000.0 if stamped else None, cut_ns=3_500.0, dropped=0, reasons=reasons,
    )  # fmt: skip


def host_split() -> HostSplit:
    def point(sequences: int) -> HostPoint:
        parts = tuple(PartTimes(part=part, ns=(100, 120)) for part in HostPart if part is not HostPart.CALL)
        call = PartTimes(part=HostPart.CALL, ns=(90_000, 91_000))
        step = (90_700, 91_840)
        return HostPoint(
            sequences=sequences, step_ns=step, parts=(*parts, call), iter_wall_us=(90, 91),
            llama_decode_wall_us=(90, 91),
        )  # fmt: skip

    return HostSplit(prompt=64, points=(point(1), point(4)))


def roofline() -> Roofline:
    def part(word: PhaseWord, rows: int, memory_ns: float, arithmetic_ns: float) -> PhaseRoofline:
        work = WorkPart(name="weights Q4_1", bytes=800.0, operations=1800.0 * rows, arithmetic=Arithmetic.INT8,
                        from_memory=True)  # fmt: skip
        passing = WorkPart(name="activations", bytes=5000.0, operations=0.0, arithmetic=Arithmetic.FP32,
                           from_memory=False)  # fmt: skip
        return PhaseRoofline(
            phase=word, rows=rows, context=0, parts=(work, passing), measured_ns=100_000.0, memory_ns=memory_ns,
            arithmetic_ns=arithmetic_ns,
        )  # fmt: skip

    def ceiling(kind: str, rate: float) -> CeilingUsed:
        return CeilingUsed(kind=kind, variant="avx2", threads=2, rate=rate, spread=0.1)

    ceilings = (ceiling("memory-read", 2e10), ceiling("int8-dot", 1e12), ceiling("fp32-fma", 2e11))
    phases = (part("prefill", 8, 20_000.0, 50_000.0), part("decode", 1, 20_000.0, 5_000.0))
    return Roofline(method="programs in C", array_bytes=2**26, ceilings=ceilings, phases=phases)


def profile(*, stamped: bool = True, busy: str | None = None) -> OperatorProfile:
    return OperatorProfile(
        is_quick=False, run=run_facts(), environment=environment(), model=model(), settings=SETTINGS,
        callbacks="callbacks compiled by gcc 12.2.0", before=conditions(), after=conditions(), busy=busy,
        phases=(phase("prefill", stamped=stamped), phase("decode", stamped=stamped)), host=host_split(),
        roofline=roofline(), reasons={},
    )  # fmt: skip


def packet_arm(every: int | None, num_nodes: int, times: Sequence[int]) -> PacketArm:
    packets = PacketTimes(least_ns=100.0, median_ns=200.0, greatest_ns=300.0)
    return PacketArm(
        every=every, num_packets=1 if every is None else -(-num_nodes // every), ns=tuple(times),
        packets=None if every is None else packets, equal_bits=every != 1,
    )  # fmt: skip


def packets_phase(word: PhaseWord) -> PhaseGranularity:
    return PhaseGranularity(
        phase=word, rows=8 if word == "prefill" else 1, context=0, num_nodes=5, bare_ns=(100_000, 101_000, 110_000),
        arms=(
            packet_arm(None, 5, (100_000, 102_000, 111_000)), packet_arm(4, 5, (103_000, 105_000, 113_500)),
            packet_arm(1, 5, (112_000, 114_000, 122_000)),
        ),
    )  # fmt: skip


def granularity() -> GranularityResult:
    return GranularityResult(
        is_quick=True, run=run_facts(), environment=environment(), model=model(), settings=SETTINGS,
        callbacks="Python callbacks", before=conditions(), after=conditions(), busy="others are at work",
        phases=(packets_phase("prefill"), packets_phase("decode")), reasons={"callbacks": "no C compiler"},
    )  # fmt: skip
