"""`arriero lab profile`: time by operator inside the decode call, the host's part of a step, and the roofline."""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from arriero.cli.lab.operators_run import (
    Beginning,
    Opened,
    alone,
    opened,
    operators_parser,
    settings_of,
)
from arriero.cli.lab.results import require_room, tell, tell_result, write_folder
from arriero.cli.simulation.output import ROOT
from arriero.cli.sources import LineParser
from arriero.core.errors import ConfigError

if TYPE_CHECKING:
    from arriero.record.cpu_lab.host_split import HostSplit
    from arriero.record.cpu_lab.machine_result import MachineResult
    from arriero.record.cpu_lab.operators import OperatorProfile, ProfileSettings
    from arriero.record.cpu_lab.roofline import Roofline
    from arriero.report.document import Document
    from arriero.report.drawing import Drawn

FOLDER: Final = f"{ROOT}/lab/operators"
FILE: Final = "operators.json"
HOST_STEPS: Final = 48
QUICK_HOST_STEPS: Final = 8


def main(arguments: Sequence[str]) -> int:
    """Measure and write; or write the report of a file anew.

    Raises:
        ConfigError: a flag that cannot work, a busy machine, a model that cannot be read. DataError: a damaged file.
    """
    words = list(arguments)
    flags = _parser().parse_args(words)
    folder = require_room(flags, FILE)
    if flags.source is not None:
        from arriero.record.cpu_lab.operators import read_operators

        result = read_operators(Path(flags.source))
    else:
        result = _measure(flags, folder, ["arriero", "lab", "profile", *words])
    write_folder(folder, lambda: _plain(result), lambda: _drawn(result), force=flags.force)
    tell_result(result, summary_lines(result), folder, file=FILE, as_json=flags.json)
    return 0


def summary_lines(result: "OperatorProfile") -> Iterator[str]:
    """What a person wants to know: where a call's time goes, and whether watching changed it."""
    from arriero.record.cpu_lab.operator_times import accounting, by_family

    yield f"{result.evidence}: {result.model.file}, {result.settings.threads} threads, {result.callbacks}"
    for phase in result.phases:
        found, bare = accounting(phase), phase.arms[0].median_ns
        yield (
            f"{phase.phase}: {bare / 1e6:.3f} ms a call, watched {found.step_ns / 1e6:.3f}; "
            f"nodes {found.nodes_ns / 1e6:.3f} ({phase.method}); accounted for {found.accounted:.1%}"
        )
        for group in by_family(phase):
            yield f"  {group.key:<22} {group.num_nodes:>5} nodes {group.ns / 1e6:>10.3f} ms {group.share:>7.1%}"
    if result.host is not None:
        for point in result.host.points:
            yield (
                f"host, {point.sequences} sequences: step {point.step_us:,.0f} us, outside of the decode call "
                f"{point.host_us:,.0f} us ({point.host_us / point.step_us:.2%})"
            )
    if result.roofline is not None:
        for each in result.roofline.phases:
            yield (
                f"roofline, {each.phase}: bound {each.bound_ns / 1e6:.3f} ms by {each.binding}, "
                f"achieved {each.achieved:.1%}"
            )
    if result.busy is not None:
        yield f"doubtful: {result.busy}"


def _measure(flags: Namespace, folder: Path, command: Sequence[str]) -> "OperatorProfile":
    from arriero.backend.models import resolve_model
    from arriero.lab.machine.environment import lab_environment
    from arriero.lab.machine.load_samples import sample_conditions
    from arriero.lab.machine.model_file import model_facts
    from arriero.lab.operators.profile import profile_phases
    from arriero.record.cpu_lab.operators import OperatorProfile, write_operators

    settings, path = settings_of(flags), resolve_model(flags.model)
    facts = model_facts(path)
    machine = _machine(flags, settings)
    beginning = Beginning(flags, command)
    with opened(path, python_callbacks=flags.python_callbacks) as what:
        phases = alone(lambda: profile_phases(what.model, settings, what.recorder, tell))
        host = _host(what, settings, quick=flags.quick) if flags.host else None
        environment = lab_environment()
    result = OperatorProfile(
        is_quick=flags.quick,
        run=beginning.facts(),
        environment=environment,
        model=facts,
        settings=settings,
        callbacks=what.recorder.name,
        before=beginning.before,
        after=sample_conditions(),
        busy=beginning.busy,
        phases=phases,
        host=host,
        roofline=None,
        reasons=what.reasons,
    )
    if machine is not None:
        result = _with_roofline(result, path, machine)
    write_operators(folder / FILE, result)
    return result


def _host(what: Opened, settings: "ProfileSettings", *, quick: bool) -> "HostSplit":
    from arriero.backend.llama_model import LlamaModel
    from arriero.lab.operators.host_split import split_host

    tell("the host's part of a step")
    model = LlamaModel(what.model.path)  # for this alone: its library is wrapped
    try:
        return split_host(model, settings, num_steps=QUICK_HOST_STEPS if quick else HOST_STEPS)
    finally:
        model.close()


def _machine(flags: Namespace, settings: "ProfileSettings") -> "MachineResult | None":
    """Ceilings with all that the roofline needs; None where none was asked for.

    Raises:
        ConfigError: one is missing, which is told before the profile is measured and not after it.
    """
    from arriero.lab.operators.roofline import ceilings_for

    if not flags.roofline:
        if flags.machine is not None:
            raise ConfigError("--machine: holds ceilings, which --roofline asks for; add that, or leave it out")
        return None
    found = _ceilings(flags, settings)
    ceilings_for(found, settings.threads)
    return found


def _ceilings(flags: Namespace, settings: "ProfileSettings") -> "MachineResult":
    """From a file, or measured now, before anything else runs."""
    if flags.machine is not None:
        from arriero.record.cpu_lab.machine_result import read_machine

        return read_machine(Path(flags.machine))
    from arriero.lab.machine.survey import default_probe, survey

    tell("ceilings of this machine")
    return survey(default_probe(), quick=flags.quick, threads=(settings.threads,), tell=tell)


def _with_roofline(result: "OperatorProfile", path: Path, machine: "MachineResult") -> "OperatorProfile":
    from msgspec.structs import replace

    from arriero.backend.gguf import read_header
    from arriero.lab.operators.roofline import roofline_of

    reasons = dict(result.reasons)
    if machine.environment.machine.cpu != result.environment.machine.cpu:
        reasons["roofline"] = f"the ceilings were measured on another CPU ({machine.environment.machine.cpu})"
    if machine.busy is not None:
        reasons["ceilings"] = f"doubtful: {machine.busy}"
    roofline: Roofline = roofline_of(read_header(path), result.settings, result.phases, machine)
    return replace(result, roofline=roofline, reasons=reasons)


def _plain(result: "OperatorProfile") -> "Document":
    from arriero.report.cpu_lab.operators_document import operators_document

    return operators_document(result, {})


def _drawn(result: "OperatorProfile") -> "tuple[Document, tuple[Drawn, ...]]":
    from arriero.report.cpu_lab.folder import pictures_by_key
    from arriero.report.cpu_lab.operators_document import operators_document
    from arriero.report.cpu_lab.operators_plots import operators_drawn

    drawn = operators_drawn(result)
    return operators_document(result, pictures_by_key(drawn)), drawn


def _parser() -> LineParser:
    parser = operators_parser(
        "profile",
        "Time by operator inside the decode call, prefill beside decode, without any external tool; and what watching "
        "it costs.",
        folder=FOLDER,
        file=FILE,
    )
    parser.add_argument(
        "--host", action="store_true", help="measure the host's part of a step at 1, 4, 8, 16 sequences too"
    )
    parser.add_argument(
        "--roofline", action="store_true", help="count bytes and operations against measured ceilings too"
    )
    parser.add_argument(
        "--machine", metavar="FILE", help="ceilings of an earlier `arriero lab machine` (default: measured now)"
    )
    return parser
