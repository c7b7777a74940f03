"""`arriero lab granularity`: what it costs to interrupt a graph after every k-th node."""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from arriero.cli.lab.flag_values import flag_value
from arriero.cli.lab.operators_run import Beginning, alone, opened, operators_parser, settings_of
from arriero.cli.lab.results import require_room, tell, tell_result, write_folder
from arriero.cli.simulation.output import ROOT
from arriero.cli.sources import LineParser
from arriero.core.option_kinds import Numbers

if TYPE_CHECKING:
    from arriero.record.cpu_lab.granularity import GranularityResult
    from arriero.report.document import Document
    from arriero.report.drawing import Drawn

FOLDER: Final = f"{ROOT}/lab/granularity"
FILE: Final = "granularity.json"


def main(arguments: Sequence[str]) -> int:
    """Measure and write; or write the report of a file anew.

    Raises:
        ConfigError: a flag that cannot work, a busy machine, a model that cannot be read. DataError: a damaged file.
    """
    words = list(arguments)
    flags = _parser().parse_args(words)
    folder = require_room(flags, FILE)
    if flags.source is not None:
        from arriero.record.cpu_lab.granularity import read_granularity

        result = read_granularity(Path(flags.source))
    else:
        result = _measure(flags, folder, ["arriero", "lab", "granularity", *words])
    write_folder(folder, lambda: _plain(result), lambda: _drawn(result), force=flags.force)
    tell_result(result, summary_lines(result), folder, file=FILE, as_json=flags.json)
    return 0


def summary_lines(result: "GranularityResult") -> Iterator[str]:
    """One line a size."""
    from arriero.record.cpu_lab.granularity import price_of

    yield f"{result.evidence}: {result.model.file}, {result.settings.threads} threads, {result.callbacks}"
    for phase in result.phases:
        yield f"{phase.phase}, {phase.rows} rows, {phase.num_nodes} nodes:"
        for arm in phase.arms:
            price = price_of(arm, phase.arms[0], result.settings.repetitions)
            cut = (
                ""
                if price.cut_ns is None
                else f", each cut {price.cut_ns / 1e3:.1f} us{'' if price.is_resolved else ' (not resolved)'}"
            )
            size = "whole" if arm.every is None else str(arm.every)
            yield f"  {size:>6}: {price.step_ns / 1e6:>9.3f} ms, {price.slowdown:>+7.1%}{cut}"
    if result.busy is not None:
        yield f"doubtful: {result.busy}"


def _measure(flags: Namespace, folder: Path, command: Sequence[str]) -> "GranularityResult":
    from arriero.backend.models import resolve_model
    from arriero.lab.machine.environment import lab_environment
    from arriero.lab.machine.load_samples import sample_conditions
    from arriero.lab.machine.model_file import model_facts
    from arriero.lab.operators.granularity import measure_granularity
    from arriero.record.cpu_lab.granularity import GranularityResult, write_granularity

    settings, sizes, path = settings_of(flags), _sizes(flags), resolve_model(flags.model)
    facts = model_facts(path)
    beginning = Beginning(flags, command)
    with opened(path, python_callbacks=flags.python_callbacks) as what:
        phases = alone(lambda: measure_granularity(what.model, settings, what.recorder, sizes, tell))
        environment = lab_environment()
    result = GranularityResult(
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
        reasons=what.reasons,
    )
    write_granularity(folder / FILE, result)
    return result


def _sizes(flags: Namespace) -> tuple[int, ...] | None:
    if flags.sizes is None:
        return (1, 16) if flags.quick else None
    return flag_value("--sizes", flags.sizes, Numbers(1))


def _plain(result: "GranularityResult") -> "Document":
    from arriero.report.cpu_lab.granularity_document import granularity_document

    return granularity_document(result, {})


def _drawn(result: "GranularityResult") -> "tuple[Document, tuple[Drawn, ...]]":
    from arriero.report.cpu_lab.folder import pictures_by_key
    from arriero.report.cpu_lab.granularity_document import granularity_document
    from arriero.report.cpu_lab.granularity_plots import granularity_drawn

    drawn = granularity_drawn(result)
    return granularity_document(result, pictures_by_key(drawn)), drawn


def _parser() -> LineParser:
    parser = operators_parser(
        "granularity",
        "Time of a call whose graph is computed in packets of k nodes, against the same graph in one piece: what it "
        "would cost to schedule inside of a graph.",
        folder=FOLDER,
        file=FILE,
    )
    parser.add_argument("--sizes", metavar="LIST", help="nodes in a packet, such as 1,8,64 (default: powers of two)")
    return parser
