"""One run of `lab perf`: from flags to records, and what is said about them."""

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from arriero.cli.lab.interrupts import resumable
from arriero.cli.lab.perf_flags import cpus_of, seconds, targets_of, whole
from arriero.cli.lab.results import tell
from arriero.cli.quiet import require_quiet
from arriero.core.errors import ConfigError

if TYPE_CHECKING:
    from arriero.lab.perf.plan import PerfPlan
    from arriero.lab.perf.profiler import Profiler
    from arriero.lab.perf.session import SessionOptions
    from arriero.lab.perf.tools import Tool
    from arriero.record.cpu_lab.environment import LabEnvironment
    from arriero.record.cpu_lab.perf import PerfMode


class Prepared(NamedTuple):
    """What follows from the flags alone, checked before anything is started."""

    options: "SessionOptions"
    plan: "PerfPlan"


def prepare(flags: Namespace, command: tuple[str, ...], mode: "PerfMode", tool: "Tool") -> Prepared:
    """Read the flags; the settings of the tool come later.

    Raises:
        ConfigError: a flag cannot work.
    """
    return Prepared(_options(flags), _plan(flags, command, mode, tool))


def run_profiler(flags: Namespace, prepared: Prepared, profiler: "Profiler", settings: Mapping[str, Any]) -> int:
    """Run, then say what came out.

    Returns:
        0 if every invocation succeeded, else 1.

    Raises:
        ConfigError: the machine is busy. DataError: the folder holds another run.
    """
    from arriero.lab.perf.session import run_session
    from arriero.record.cpu_lab.perf import RunStatus

    require_quiet("or use --busy-ok", busy_ok=flags.busy_ok)
    folder = Path(flags.out)
    plan = replace(prepared.plan, settings=settings)
    with resumable(folder):
        summary = run_session(plan, profiler, folder, prepared.options, tell=tell)
    _show(folder, as_json=flags.json)
    is_whole = summary.run_status is RunStatus.COMPLETED and summary.successful == summary.planned
    return 0 if is_whole else 1


def library_choice(flags: Namespace) -> Path | None:
    """The folder of another build, if one was chosen.

    Raises:
        ConfigError: it holds no library of llama.cpp.
    """
    from arriero.lab.perf.library_folder import library_folder

    return None if flags.library is None else library_folder(flags.library)


def _options(flags: Namespace) -> "SessionOptions":
    from arriero.lab.perf.session import SessionOptions

    for name in ("retry_failures", "repair", "force"):
        if getattr(flags, name) and not flags.resume:
            raise ConfigError(f"--{name.replace('_', '-')}: goes on with a run; use it with --resume")
    return SessionOptions(
        resume=flags.resume, retry_failures=flags.retry_failures, repair=flags.repair, force=flags.force
    )


def _plan(flags: Namespace, command: tuple[str, ...], mode: "PerfMode", tool: "Tool") -> "PerfPlan":
    from arriero.lab.perf.library_folder import library_folder, library_hashes
    from arriero.lab.perf.plan import PerfPlan

    library = library_choice(flags)
    targets = targets_of(flags, command, library)
    uses_llama = not command or library is not None
    return PerfPlan(
        mode=mode,
        tool=tool.words,
        settings={},
        targets=targets,
        warmups=0 if flags.quick else whole(flags, "warmups"),
        repetitions=1 if flags.quick else whole(flags, "repetitions", 1),
        timeout_s=seconds(flags, "timeout"),
        cpus=cpus_of(flags),
        library=library_hashes(library_folder(flags.library)) if uses_llama else {},
        environment=_environment(is_own=library is None),
    )


def _environment(*, is_own: bool) -> "LabEnvironment":
    """The machine; the libraries of another build are told by the manifest, since this process has not loaded them."""
    from arriero.lab.machine.environment import lab_environment

    found = lab_environment()
    if is_own:
        return found
    return msgspec.structs.replace(
        found, library=None, reasons={**found.reasons, "library": "another build was profiled: see the manifest"}
    )


def _show(folder: Path, *, as_json: bool) -> None:
    from arriero.cli.lab.perf_lines import comparison_lines
    from arriero.lab.perf.comparison import compare_runs
    from arriero.lab.perf.run_files import read_folders

    found = compare_runs(read_folders([folder]))
    if as_json:
        print(found.encode().decode(), end="")
        return
    for line in comparison_lines(found):
        print(line)
    print(f"records: {folder}; report: arriero lab perf report {folder}")
