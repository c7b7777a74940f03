"""The command behind `arriero gate`: runs what was asked for, prints a line each, writes the file, gives the status."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console

from arriero.core.config import PlacementKind
from arriero.core.errors import ConfigError
from arriero.core.gate_args import Compositions, ExactnessKnobs, GateArgs, GateVerb
from arriero.engine.placement import Dedicated, Placement, Shared
from arriero.testing.gates import matrix_page
from arriero.testing.gates.backends import Backends, SyntheticBackends, open_backends
from arriero.testing.gates.catalogue import GATES
from arriero.testing.gates.context import PUBLISHED, GateContext, GateSize
from arriero.testing.gates.exactness import EXACTNESS
from arriero.testing.gates.findings import Count, GateReport
from arriero.testing.gates.mix import Mix, Mode
from arriero.testing.gates.reference import REFERENCE
from arriero.testing.gates.registry import Gate, run_gate
from arriero.testing.gates.run import KnobRun
from arriero.testing.gates.storm import Storm

SCHEMA: Final = 1
LONG_S: Final = 4 * 3600.0
LEAST_SEQUENCES: Final = 12
"""With fewer, the cancel plan and what waits leave no room for each other."""


class GateFile(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` writes.

    Attributes:
        schema: grows when a field changes its meaning.
        model: as it was named.
        reports: in the order in which they ran.
    """

    schema: int
    model: str
    reports: list[GateReport]


def main(args: GateArgs) -> int:
    """Do what was asked for; 1 if anything failed.

    Raises:
        ConfigError: an unknown gate, or a configuration that cannot work.
    """
    if args.verb is GateVerb.EXACTNESS and args.exactness.matrix:
        return matrix_page.main(args)
    gates = choose(args)
    if args.verb is not GateVerb.RUN and args.config.sequences < LEAST_SEQUENCES:
        message = f"--sequences {args.config.sequences} is too few for gates; use {LEAST_SEQUENCES} or more"
        raise ConfigError(message)
    console, status = Console(highlight=False, soft_wrap=True), Console(stderr=True)
    reports: list[GateReport] = []
    with status.status("loading the model") as line, _opened(gates, args) as backends:
        for report in run_all(gates, args, backends, line.update):
            reports.append(report)
            tell(console, report, block=args.verb is GateVerb.RUN)
    if args.json_file is not None:
        write_file(Path(args.json_file), args, reports)
    return 0 if all(report.passed for report in reports) else 1


def _opened(gates: Sequence[Gate], args: GateArgs) -> AbstractContextManager[Backends]:
    """The configured backends; where no gate has an engine, some that need no model."""
    if any(gate.needs_engine for gate in gates):
        return open_backends(args.config)
    return nullcontext(SyntheticBackends(args.config))


def choose(args: GateArgs) -> Sequence[Gate]:
    """The gates that were asked for.

    Raises:
        ConfigError: no gate has that name.
    """
    if args.verb is GateVerb.RUN:
        return (Gate("RUN", "one run with knobs", KnobRun(args).check, own_shape=True),)
    if args.verb is GateVerb.REFERENCE:
        return REFERENCE
    if args.verb is GateVerb.EXACTNESS:
        return (*EXACTNESS, *mixes(args.exactness))
    if args.verb is GateVerb.STORM:
        storm = Storm(args.storm.requests, args.storm.seed)
        return (Gate("STORM", "a storm in exact mode", storm.check, LONG_S, once=True),)
    by_name = {gate.name: gate for gate in GATES}
    for name in args.names:
        if name not in by_name:
            message = f"{name}: no such gate; there are {', '.join(by_name)}"
            raise ConfigError(message)
    return tuple(by_name[name] for name in args.names) or GATES


def mixes(knobs: ExactnessKnobs) -> Iterator[Gate]:
    """Requests by chance, in each mode that was asked for."""
    for mode, title in ((Mode.EXACT, "by chance, exact"), (Mode.FAST, "by chance, fast")):
        if knobs.mode in {Compositions.BOTH, mode}:
            mix = Mix(mode, knobs.requests, knobs.seed)
            yield Gate(f"MIX-{mode.name}", f"alone and in company {title}", mix.check, LONG_S, once=True)


def run_all(
    gates: Sequence[Gate], args: GateArgs, backends: Backends, on_progress: Callable[[str], None]
) -> Iterable[GateReport]:
    """Every gate in every placement, one after another."""
    size = size_of(args)
    for gate in gates:
        for kind in args.placements if gate.needs_engine and not gate.once else args.placements[:1]:
            words = f"{gate.name} {kind.value}: {gate.title}"
            on_progress(words)
            context = GateContext(
                backends=backends,
                placement=placement_of(kind, args.config.engine_cpus),
                size=size,
                interrupts=args.interrupt,
                on_progress=partial(_more, on_progress, words),
            )
            yield run_gate(gate, context)


def _more(on_progress: Callable[[str], None], words: str, more: str) -> None:
    on_progress(f"{words} ({more})")


def size_of(args: GateArgs) -> GateSize:
    """The published size, with the configured number of sequences; what does not fit into it shrinks."""
    sequences = args.config.sequences
    return replace(
        PUBLISHED,
        num_sequences=sequences,
        num_pairs=min(PUBLISHED.num_pairs, sequences // 8),
        num_waiting=min(PUBLISHED.num_waiting, sequences // 6),
    )


def placement_of(kind: PlacementKind, cpus: tuple[int, ...]) -> Placement:
    """Where the engines of a gate run."""
    return Shared() if kind is PlacementKind.SHARED else Dedicated(cpus)


def tell(console: Console, report: GateReport, *, block: bool) -> None:
    """One line; or, for a run with knobs, its figures one a line and then the verdict."""
    if block:
        console.print(f"placement: {report.placement}", markup=False)
        for name, value in report.counts.items():
            console.print(f"{name}: {_written(value)}", markup=False)
        console.print("PASS" if report.passed else f"FAIL: {report.reason}", markup=False)
        return
    verdict = "PASS" if report.passed else "FAIL"
    reason = "" if report.reason is None else f"  {report.reason};"
    counts = " ".join(f"{name}={_written(value)}" for name, value in report.counts.items())
    head = f"{verdict} {report.name:<4} {report.placement:<9} {report.seconds:7.1f} s  {report.title}:"
    console.print(f"{head}{reason} {counts}", markup=False)
    for note in report.notes:
        console.print(f"     {note}", markup=False)


def _written(value: Count) -> str:
    return "[" + ",".join(map(str, value)) + "]" if isinstance(value, list) else str(value)


def write_file(path: Path, args: GateArgs, reports: list[GateReport]) -> None:
    """Write the reports as JSON.

    Raises:
        ConfigError: the file cannot be written.
    """
    content = msgspec.json.encode(GateFile(schema=SCHEMA, model=args.config.model, reports=reports))
    try:
        path.write_bytes(msgspec.json.format(content, indent=2) + b"\n")
    except OSError as error:
        message = f"--json {path}: cannot be written ({error.strerror}); name a file in a folder that exists"
        raise ConfigError(message) from error
