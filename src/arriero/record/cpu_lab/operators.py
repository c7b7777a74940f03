"""OperatorProfile: the file of `arriero lab profile`, schema `arriero-operators-v1`.

Times of whole calls are kept one by one; times of nodes as median and quartiles. Evidence is PROFILED: a call that is
watched is not the call that is served, and the file says by how much they differ.
"""

from collections.abc import Iterator
from enum import StrEnum
from statistics import median
from typing import Annotated, Final, Literal

from msgspec import Meta

from arriero.core.errors import DataError
from arriero.record.bench_parts import BenchPart, Evidence, RunFacts
from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.cpu_lab.environment import LabEnvironment
from arriero.record.cpu_lab.graph_nodes import GraphNode, Nanoseconds
from arriero.record.cpu_lab.host_split import HostSplit
from arriero.record.cpu_lab.model_facts import ModelFacts
from arriero.record.cpu_lab.result_file import ResultFile
from arriero.record.cpu_lab.roofline import Roofline
from arriero.record.strict import Count, Name, Positive

SCHEMA: Final = "arriero-operators-v1"

PhaseWord = Literal["prefill", "decode"]


class Arm(StrEnum):
    """How much a call was watched."""

    BARE = "bare"  # a context without callbacks, as a server has it
    STILL = "still"  # callbacks that answer and note nothing; the graph in one piece
    STAMPED = "stamped"  # the graph in one piece, a stamp after each node
    APART = "apart"  # each node as a graph of its own


class Method(StrEnum):
    """Which times of the nodes the tables use."""

    STAMPED = "stamped"
    APART = "apart"


class ArmTimes(BenchPart, frozen=True, kw_only=True):
    """The calls of one arm.

    Attributes:
        arm: see there.
        ns: of each call, in the order of running; the n-th of every arm computed the same rows.
        equal_bits: whether all its logits have the bits of the bare context's.
    """

    arm: Arm
    ns: Annotated[tuple[Positive, ...], Meta(min_length=1)]
    equal_bits: bool

    @property
    def median_ns(self) -> float:
        """Of the calls."""
        return median(self.ns)


class PhaseProfile(BenchPart, frozen=True, kw_only=True):
    """Prefill or decode.

    Attributes:
        phase: which.
        rows: of one call.
        context: positions in KV before the first call of a repetition; each decode call adds one.
        method: the better one of those that this machine allowed.
        arms: bare first.
        nodes: of the graph, in the order in which they are computed.
        before_ns: from the beginning of a stamped call to that of its graph; null if it was not stamped.
        after_ns: from the last stamp to the end of the call; likewise.
        cut_ns: what it costs to compute a node apart: median time of those that compute nothing.
        dropped: calls whose events did not fit the graph, and are in no figure.
        reasons: name of a field that is null -> why.
    """

    phase: PhaseWord
    rows: Positive
    context: Count
    method: Method
    arms: Annotated[tuple[ArmTimes, ...], Meta(min_length=1)]
    nodes: Annotated[tuple[GraphNode, ...], Meta(min_length=1)]
    before_ns: Nanoseconds | None
    after_ns: Nanoseconds | None
    cut_ns: Nanoseconds | None
    dropped: Count
    reasons: dict[str, str]

    def arm(self, arm: Arm) -> ArmTimes | None:
        """The calls of one arm; None if it was not run."""
        return next((each for each in self.arms if each.arm is arm), None)


class ProfileSettings(BenchPart, frozen=True, kw_only=True):
    """What was asked for.

    Attributes:
        prompt: rows of the prefill call.
        generate: decode calls of a repetition.
        depth: positions in KV before the prompt.
        threads: that compute.
        flash_attention: `on`, `off` or `auto`.
        kv_type: of keys and values.
        repetitions: of every arm, in an order drawn anew each time.
        seed: of that order.
    """

    prompt: Positive
    generate: Positive
    depth: Count
    threads: Positive
    flash_attention: Name
    kv_type: Name
    repetitions: Positive
    seed: Count


class OperatorProfile(BenchPart, frozen=True, kw_only=True):
    """The whole file.

    Attributes:
        schema_version: of the file.
        evidence: of operator times.
        is_quick: few repetitions, to see that it works.
        run: how it came about.
        environment: where.
        model: the file.
        settings: see there.
        callbacks: what they are made of.
        before: the machine before the run.
        after: the machine after it.
        busy: what kept the machine busy at the start; null if it was quiet.
        phases: prefill, then decode.
        host: the host's part of a step; null if not asked for.
        roofline: bytes and operations against ceilings; null if not asked for.
        reasons: name of a field that is null, or of what was done in a second-best way -> why.
    """

    schema_version: Literal["arriero-operators-v1"] = SCHEMA
    evidence: Evidence = Evidence.PROFILED
    is_quick: bool
    run: RunFacts
    environment: LabEnvironment
    model: ModelFacts
    settings: ProfileSettings
    callbacks: Name
    before: ConditionSample
    after: ConditionSample
    busy: str | None
    phases: tuple[PhaseProfile, ...]
    host: HostSplit | None = None
    roofline: Roofline | None = None
    reasons: dict[str, str]

    def phase(self, word: PhaseWord) -> PhaseProfile | None:
        """One of them; None if it was not profiled."""
        return next((each for each in self.phases if each.phase == word), None)


def _check(result: OperatorProfile, file: str) -> None:
    """See that labels, numbers and times of a profile fit together.

    Raises:
        DataError: names the field.
    """
    for place, found, expected in _labels(result):
        if found is not expected:
            what = f"{place}: {found} is not what a profile gives; it is {expected}"
            raise DataError(what, file=file, field=place)
    for index, phase in enumerate(result.phases):
        place = f"phases[{index}]"
        if phase.arms[0].arm is not Arm.BARE:
            raise DataError(f"{place}.arms: bare comes first; run again", file=file, field=f"{place}.arms")
        if [node.number for node in phase.nodes] != list(range(len(phase.nodes))):
            raise DataError(f"{place}.nodes: are not counted from 0; run again", file=file, field=f"{place}.nodes")
        timed = any(node.stamped if phase.method is Method.STAMPED else node.apart for node in phase.nodes)
        if not timed:
            what = f"{place}.method: no node has a time by {phase.method}; run again"
            raise DataError(what, file=file, field=f"{place}.method")


def _labels(result: OperatorProfile) -> Iterator[tuple[str, Evidence, Evidence]]:
    """Where a label stands, what it is, and what it has to be."""
    yield "evidence", result.evidence, Evidence.PROFILED
    if result.host is not None:
        yield "host.evidence", result.host.evidence, Evidence.PROFILED
    if result.roofline is not None:
        yield "roofline.evidence", result.roofline.evidence, Evidence.MEASURED
        yield "roofline.ceilings_evidence", result.roofline.ceilings_evidence, Evidence.MICROBENCHMARK


_FILE: Final = ResultFile(kind=OperatorProfile, schema=SCHEMA, check=_check)
write_operators: Final = _FILE.write
read_operators: Final = _FILE.read
