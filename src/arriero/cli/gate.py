"""`arriero gate [NAME ...]`, and its verbs run, reference, exactness and storm: only reads the flags."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from arriero.cli.logs import set_up_logs
from arriero.cli.sources import add_options, configure, from_flags, make_parser
from arriero.core.config import OPTIONS, PlacementKind, ServeConfig
from arriero.core.gate_args import (
    EXACTNESS_OPTIONS,
    KNOB_OPTIONS,
    STORM_OPTIONS,
    ExactnessKnobs,
    GateArgs,
    GateKnobs,
    GateVerb,
    StormKnobs,
)

# The machine that a run needs, as the published gates describe it.
# Gates that are about reuse make rules and ids of their own.
MACHINE: Final = ServeConfig(ctx_size=32_768, sequences=99, batch=1024, reuse=False)
_TAKEN: Final = (
    "model", "backend", "ctx_size", "sequences", "kv", "flash_attn", "kv_type", "exact", "threads", "n_gpu_layers",
    "batch", "micro_batch", "prefill_rows_per_seq", "prefill_rows_per_step", "engine_cpus", "log_level", "log_format",
)  # fmt: skip
MACHINE_OPTIONS: Final = tuple(
    replace(option, default=getattr(MACHINE, option.name)) for option in OPTIONS if option.name in _TAKEN
)
_SAYS: Final = MappingProxyType({
    GateVerb.GATES: "Run gates on a real model, one PASS or FAIL line each; all of them without a name.",
    GateVerb.RUN: "One run with knobs: prints its metrics, then PASS or FAIL with the reason.",
    GateVerb.REFERENCE: "G1 and G2 as a bare loop over the backend, without scheduler or engine.",
    GateVerb.EXACTNESS: "Compare answers alone and in company, cached and not, bit for bit.",
    GateVerb.STORM: "Far more requests than there is room for, many of them cancelled, in exact mode.",
})
_KNOBS: Final = MappingProxyType({
    GateVerb.RUN: KNOB_OPTIONS,
    GateVerb.EXACTNESS: EXACTNESS_OPTIONS,
    GateVerb.STORM: STORM_OPTIONS,
})
_BOTH: Final = (PlacementKind.DEDICATED, PlacementKind.SHARED)


def main(arguments: Sequence[str]) -> int:
    """Read the flags, then hand over; the exit status is 1 if anything failed."""
    gate_args = read_arguments(arguments)
    set_up_logs(gate_args.config.log_level, gate_args.config.log_format)
    status: int = import_module("arriero.testing.gates").main(gate_args)
    return status


def read_arguments(arguments: Sequence[str]) -> GateArgs:
    """What the command line asks for.

    Raises:
        ConfigError: one line that names the flag and the remedy.
    """
    words = list(arguments)
    verb = GateVerb.GATES
    if words and words[0] in _SAYS.keys() - {GateVerb.GATES}:
        verb = GateVerb(words.pop(0))
    flags = _parser(verb).parse_args(words)
    knobs: dict[str, Any] = from_flags(flags, _KNOBS.get(verb, ()))
    return GateArgs(
        verb=verb,
        names=tuple(name.upper() for name in getattr(flags, "names", [])),
        json_file=flags.json,
        placements=_BOTH if flags.placement == "both" else (PlacementKind(flags.placement),),
        interrupt=flags.interrupt,
        config=configure(flags, os.environ, MACHINE_OPTIONS, MACHINE),
        knobs=GateKnobs(**knobs) if verb is GateVerb.RUN else GateKnobs(),
        exactness=ExactnessKnobs(**knobs) if verb is GateVerb.EXACTNESS else ExactnessKnobs(),
        storm=StormKnobs(**knobs) if verb is GateVerb.STORM else StormKnobs(),
    )


def _parser(verb: GateVerb) -> argparse.ArgumentParser:
    command = "gate" if verb is GateVerb.GATES else f"gate {verb}"
    parser = make_parser(command, _SAYS[verb])
    if verb is GateVerb.GATES:
        parser.add_argument(
            "names", nargs="*", metavar="NAME", help="a gate, such as G4; or run, reference, exactness, storm"
        )
    parser.add_argument("--json", metavar="FILE", help="write the results there too")
    choices = ["both", *(kind.value for kind in PlacementKind)]
    parser.add_argument("--placement", choices=choices, default="both", help="where the engine runs (default: both)")
    parser.add_argument("--interrupt", action="store_true", help="let every cancel end the decode call it is in")
    if verb in _KNOBS:
        add_options(parser, _KNOBS[verb], with_file=False)
    add_options(parser, MACHINE_OPTIONS)
    return parser
