"""What is searched for the servers that are known by name, and plans of one's own from a TOML or JSON file."""

import shlex
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from arriero.bench.peers import Peer
from arriero.bench.search import Flags, Knob, SearchPlan, Stage
from arriero.core.errors import ConfigError, DataError
from arriero.record.strict import convert, read_table

DEFAULT: Final = "default"
"""The word on the command line for the plan of a server that is known by name."""

# First what decides the shape of a step, in all combinations; then single changes that seldom matter.
LLAMA_SERVER: Final = SearchPlan(
    stages=(
        Stage(
            knobs=(
                Knob(name="flash attention", choices=(("-fa", "on"), ("-fa", "off"))),
                Knob(name="KV", choices=(("--no-kv-unified",), ("--kv-unified",))),
                Knob(name="batch", choices=(("-b", "2048", "-ub", "512"), ("-b", "256", "-ub", "256"))),
            )
        ),
        Stage(
            combined=False,
            knobs=(
                Knob(name="threads for prefill", choices=(("-tb", "1"),)),
                Knob(name="polling", choices=(("--poll", "0"), ("--poll", "100"))),
                Knob(name="prompt store", choices=(("--cache-ram", "0"),)),
                Knob(name="type of K", choices=(("-ctk", "q8_0"),)),
                Knob(name="batching", choices=(("--no-cont-batching",),)),
            ),
        ),
    )
)

ARRIERO: Final = SearchPlan(
    stages=(
        Stage(
            knobs=(
                Knob(name="flash attention", choices=(("--flash-attn", "on"), ("--flash-attn", "off"))),
                Knob(name="KV", choices=(("--kv", "separate"), ("--kv", "unified"))),
                Knob(name="batch", choices=((), ("--batch", "256", "--micro-batch", "256"))),
            )
        ),
    )
)

LLAMA_CPP_PYTHON: Final = SearchPlan(
    stages=(
        Stage(
            knobs=(
                Knob(name="flash attention", choices=(("--flash_attn", "true"), ("--flash_attn", "false"))),
                Knob(name="batch", choices=((), ("--n_batch", "256", "--n_ubatch", "256"))),
            )
        ),
    )
)


def plan_of(text: str, peer: Peer | None, origin: str) -> SearchPlan:
    """The plan that a word or a file names.

    Args:
        text: `default`, or a file.
        peer: the server, if it is known by name.
        origin: the flag, for complaints.

    Raises:
        ConfigError: there is no default for this server, or the grid is too large. DataError: the file breaks a rule.
    """
    if text != DEFAULT:
        plan = read_plan(Path(text))
    elif peer is None:
        raise ConfigError(f"{origin} {text}: only a server known by name has a default; give a plan file")
    else:
        plan = _plan_for(peer)
    plan.check()
    return plan


def read_plan(path: Path) -> SearchPlan:
    """A plan from a file.

        rounds = 2
        [[stage]]
        combined = true
        [stage.knobs]
        batch = ["-b 2048 -ub 512", "-b 256 -ub 256"]

    Raises:
        DataError: it cannot be read or breaks the form.
    """
    file = str(path)
    raw = convert(read_table(path), _RawPlan, file=file)
    stages = tuple(
        Stage(
            combined=stage.combined,
            knobs=tuple(
                Knob(name=name, choices=tuple(_flags(text, name, file) for text in choices))
                for name, choices in stage.knobs.items()
            ),
        )
        for stage in raw.stage
    )
    return SearchPlan(stages=stages, num_rounds=raw.rounds)


def as_json(plan: SearchPlan) -> dict[str, Any]:
    """The plan as it is stored, in the form of a plan file."""
    return {
        "rounds": plan.num_rounds,
        "stage": [
            {
                "combined": stage.combined,
                "knobs": {knob.name: [shlex.join(choice) for choice in knob.choices] for knob in stage.knobs},
            }
            for stage in plan.stages
        ],
    }


def _plan_for(peer: Peer) -> SearchPlan:
    match peer:
        case Peer.ARRIERO:
            return ARRIERO
        case Peer.LLAMA_SERVER:
            return LLAMA_SERVER
        case Peer.LLAMA_CPP_PYTHON:
            return LLAMA_CPP_PYTHON


def _flags(text: str, knob: str, file: str) -> Flags:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        field = f"stage.knobs.{knob}"
        raise DataError(f"{field}: {text!a}: {str(error).lower()}; close the quote", file=file, field=field) from None


class _RawStage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    knobs: Annotated[dict[str, Annotated[list[str], Meta(min_length=1)]], Meta(min_length=1)]
    combined: bool = True


class _RawPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    stage: Annotated[list[_RawStage], Meta(min_length=1)]
    rounds: Annotated[int, Meta(ge=1, le=100)] = 2
