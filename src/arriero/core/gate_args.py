"""GateArgs: what a gate run is asked to do; the knobs have the defaults of the published control plane."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Final

from arriero.core.config import PlacementKind, ServeConfig, options_of
from arriero.core.option import Spec
from arriero.core.option_kinds import Numbers, Switch, Text, Whole, Word

KNOBS: Final = "Knobs"


class GateVerb(StrEnum):
    """What `arriero gate` does."""

    GATES = "gates"  # the named gates, one PASS or FAIL line each
    RUN = "run"  # one run with knobs, its metrics block, PASS or FAIL
    REFERENCE = "reference"  # G1 and G2 as a bare loop over the backend
    EXACTNESS = "exactness"  # answers alone and in company, bit for bit
    STORM = "storm"  # far more requests than there is room for, in exact mode


@dataclass(frozen=True, slots=True, kw_only=True)
class GateKnobs:
    """What one run is made of; slots, context, batch and threads are in the configuration beside it."""

    prompt: Annotated[str, Spec(KNOBS, Text("TEXT"), "the prompt of every request")] = "Hello, my name is"
    prompts_file: Annotated[str | None, Spec(KNOBS, Text("FILE"), "prompts, one a line, round-robin")] = None
    active: Annotated[
        int | None,
        Spec(KNOBS, Whole(0), "requests preloaded into slots", unit="requests", unset="as many as --sequences"),
    ] = None
    budgets: Annotated[
        tuple[int, ...],
        Spec(KNOBS, Numbers(1), "decode budgets of the preloaded requests, round-robin", unit="tokens"),
    ] = (8, 64, 256)
    waiting: Annotated[int, Spec(KNOBS, Whole(0), "requests preloaded into the queue", unit="requests")] = 0
    waiting_budget: Annotated[int, Spec(KNOBS, Whole(1), "their decode budget", unit="tokens")] = 64
    external: Annotated[int, Spec(KNOBS, Whole(0), "requests submitted while it runs", unit="requests")] = 0
    external_budget: Annotated[int, Spec(KNOBS, Whole(1), "their decode budget", unit="tokens")] = 64
    release_step: Annotated[
        int | None, Spec(KNOBS, Whole(0), "the step at which they are submitted", unset="the start")
    ] = None
    cancel_plan: Annotated[
        tuple[int, ...], Spec(KNOBS, Numbers(0, may_be_empty=True), "request numbers to cancel, or none")
    ] = (1, 4, 7, 2, 5, 8)
    cancel_after: Annotated[int, Spec(KNOBS, Whole(0), "cancel them after so many tokens", unit="tokens")] = 16
    reuse_completed: Annotated[bool, Spec(KNOBS, Switch(), "slots of completed requests go to those that wait")] = False
    stream_all: Annotated[bool, Spec(KNOBS, Switch(), "give every request a stream")] = False
    repeats: Annotated[int, Spec(KNOBS, Whole(1), "how often the run is repeated", unit="runs")] = 1


KNOB_OPTIONS: Final = options_of(GateKnobs)


class Compositions(StrEnum):
    """Which compositions answers are compared under."""

    EXACT = "exact"  # nothing may differ
    FAST = "fast"  # what differs is told
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactnessKnobs:
    """What answers alone and in company are compared on."""

    requests: Annotated[int, Spec(KNOBS, Whole(1), "requests by chance", unit="requests")] = 100
    seed: Annotated[int, Spec(KNOBS, Whole(0), "the same seed gives the same requests and engines")] = 1
    mode: Annotated[
        Compositions, Spec(KNOBS, Word(Compositions), "exact: nothing may differ; fast: what differs is told")
    ] = Compositions.BOTH
    matrix: Annotated[
        bool, Spec(KNOBS, Switch(), "instead, measure what changes bits: KV layouts, flash attention, weight formats")
    ] = False
    markdown: Annotated[str | None, Spec(KNOBS, Text("FILE"), "write the tables of --matrix there too")] = None


EXACTNESS_OPTIONS: Final = options_of(ExactnessKnobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class StormKnobs:
    """How large the storm is."""

    requests: Annotated[int, Spec(KNOBS, Whole(1), "requests by chance", unit="requests")] = 2000
    seed: Annotated[int, Spec(KNOBS, Whole(0), "the same seed gives the same requests")] = 1


STORM_OPTIONS: Final = options_of(StormKnobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateArgs:
    """One invocation.

    Attributes:
        verb: what to do.
        names: the gates to run, as given; empty for all. For the verb `gates` only.
        json_file: where the results go beside the terminal, or None.
        placements: in which to run, in this order.
        interrupt: whether a cancel may end a decode call in all of them.
        config: model, backend, slots, context, batch, threads, caps; its placement means nothing.
        knobs: for the verb `run` only.
        exactness, storm: for the verbs of these names only.
    """

    verb: GateVerb = GateVerb.GATES
    names: tuple[str, ...] = ()
    json_file: str | None = None
    placements: tuple[PlacementKind, ...] = (PlacementKind.DEDICATED, PlacementKind.SHARED)
    interrupt: bool = False
    config: ServeConfig = field(default_factory=ServeConfig)
    knobs: GateKnobs = field(default_factory=GateKnobs)
    exactness: ExactnessKnobs = field(default_factory=ExactnessKnobs)
    storm: StormKnobs = field(default_factory=StormKnobs)
