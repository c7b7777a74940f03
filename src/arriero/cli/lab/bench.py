"""`arriero lab bench CONFIG.yaml`: a matrix of models, threads, shapes and KV types, in a folder that can be resumed.

Status 0: every invocation has a record and succeeded. 1: some did not, or the time was over. 130: interrupted.
"""

from argparse import Namespace
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from arriero.cli.lab.interrupts import resumable
from arriero.cli.lab.results import tell
from arriero.cli.quiet import require_quiet
from arriero.cli.sources import LineParser, make_parser
from arriero.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from arriero.lab.matrix.config import ReadConfig
    from arriero.lab.matrix.normalize import Written
    from arriero.lab.matrix.session import SessionOptions
    from arriero.lab.matrix.setup import Choice
    from arriero.record.cpu_lab.matrix import MatrixSummary

EXECUTORS: Final = ("in-process", "llama-bench", "smoke")


def main(arguments: Sequence[str]) -> int:
    """Run a matrix, go on with one, show one, or make its table anew.

    Raises:
        ConfigError: flags that exclude each other, a busy machine, or an executor that cannot be had.
        DataError: the configuration or a run's files break their format.
    """
    flags = _parser().parse_args(arguments)
    _require_yaml()
    if flags.recompute is not None:
        return _recompute(flags)
    if flags.config is None:
        raise ConfigError("lab bench: no configuration given; name a YAML file, see definitions/lab/")
    from arriero.lab.matrix.config import read_config
    from arriero.lab.matrix.setup import planned_lines

    read = read_config(Path(flags.config))
    choice = _choice(flags)
    if flags.dry_run:
        for line in planned_lines(read, choice):
            print(line)
        return 0
    return _run(flags, read, choice)


def _run(flags: Namespace, read: "ReadConfig", choice: "Choice") -> int:
    from arriero.cli.lab.bench_view import outcome_lines, summary_json

    folder = _folder(flags, read)
    summary = _measure(flags, read, choice, folder)
    table = _table(folder, partial=flags.partial)
    if flags.json:
        print(summary_json(summary, table))
    else:
        for line in outcome_lines(summary, table, folder):
            print(line)
    return 0 if summary.successful_invocations == summary.planned_invocations else 1


def _measure(flags: Namespace, read: "ReadConfig", choice: "Choice", folder: Path) -> "MatrixSummary":
    from arriero.cli.simulation.output import refuse_links
    from arriero.lab.machine.environment import lab_environment
    from arriero.lab.machine.load_samples import sample_conditions
    from arriero.lab.matrix.runner import Surroundings
    from arriero.lab.matrix.session import run_matrix
    from arriero.lab.matrix.setup import environment_for, make_plan

    refuse_links(folder)
    options = _options(flags)
    environment = lab_environment()
    plan = make_plan(read, choice, environment)
    require_quiet("or use --busy-ok for doubtful figures", busy_ok=flags.busy_ok)
    around = Surroundings(environment_for(environment, plan.executor.kind), sample_conditions)
    with resumable(folder):
        return run_matrix(plan, folder, around, tell, options)


def _table(folder: Path, *, partial: bool) -> "Written | None":
    """Write the table; a run that is not complete has none yet, unless it was asked for."""
    from arriero.lab.matrix.normalize import write_normalized

    try:
        return write_normalized(folder, partial=partial)
    except DataError as problem:
        tell(f"no table yet: {problem}")
        return None


def _require_yaml() -> None:
    """Say early what would otherwise be an error of an import.

    Raises:
        ConfigError: PyYAML is not installed.
    """
    if find_spec("yaml") is None:
        raise ConfigError("configurations are YAML, and PyYAML is not here; pip install 'arriero[lab]'")


def _recompute(flags: Namespace) -> int:
    """Make the table anew from the records alone."""
    from arriero.cli.lab.bench_view import table_lines
    from arriero.lab.matrix.normalize import write_normalized

    written = write_normalized(Path(flags.recompute), partial=flags.partial)
    for line in table_lines(written.file):
        print(line)
    print(f"table: {', '.join(str(path) for path in written.paths)}")
    return 0


def _folder(flags: Namespace, read: "ReadConfig") -> Path:
    """Where the run goes; a quick one beside the whole one."""
    if flags.out is not None:
        return Path(flags.out)
    folder = read.resolve(read.config.output_directory)
    return folder.with_name(f"{folder.name}-quick") if flags.quick else folder


def _choice(flags: Namespace) -> "Choice":
    from arriero.lab.matrix.setup import Choice
    from arriero.record.cpu_lab.matrix import ExecutorKind

    executor = None if flags.executor is None else ExecutorKind(flags.executor)
    return Choice(executor=executor, llama_bench=flags.llama_bench, quick=flags.quick)


def _options(flags: Namespace) -> "SessionOptions":
    from arriero.lab.matrix.session import SessionOptions

    resume = flags.resume or flags.retry_failures
    for flag, is_given in (("--force", flags.force), ("--repair", flags.repair)):
        if is_given and not resume:
            raise ConfigError(f"{flag}: is for going on with a run; use it with --resume")
    return SessionOptions(
        resume=resume,
        retry_failures=flags.retry_failures,
        force=flags.force,
        repair=flags.repair,
        sync=not flags.no_sync,
        max_seconds=flags.max_seconds,
    )


def _parser() -> LineParser:
    from arriero.cli.simulation.numbers import amount

    parser = make_parser("lab bench", "Run a matrix of measurements durably; the keys are in docs/lab/matrix.md.")
    parser.add_argument("config", metavar="CONFIG.yaml", nargs="?", help="what to measure")
    parser.add_argument("--out", metavar="FOLDER", help="where the run goes (default: its output_directory)")
    parser.add_argument("--dry-run", action="store_true", help="show cases and commands, and run nothing")
    parser.add_argument("--executor", choices=EXECUTORS, help="who measures (default: as the configuration says)")
    parser.add_argument("--llama-bench", metavar="PATH", help="measure by this program")
    parser.add_argument("--resume", action="store_true", help="go on with a run; begins one if there is none")
    parser.add_argument("--retry-failures", action="store_true", help="go on, and do again what did not succeed")
    parser.add_argument("--force", action="store_true", help="go on although settings, files or build differ")
    parser.add_argument("--repair", action="store_true", help="set aside a last line that a killed process cut off")
    parser.add_argument("--max-seconds", metavar="S", type=amount, help="begin nothing new after so long")
    parser.add_argument("--no-sync", action="store_true", help="do not wait for the disk after each record")
    parser.add_argument("--partial", action="store_true", help="write the table of a run that is not complete")
    parser.add_argument("--recompute", metavar="FOLDER", help="make the table of a run anew from its records alone")
    parser.add_argument("--quick", action="store_true", help="one small case for each KV type, once")
    parser.add_argument("--busy-ok", action="store_true", help="measure beside busy processes; the records say so")
    parser.add_argument("--json", action="store_true", help="print the summary and the table as JSON")
    return parser
