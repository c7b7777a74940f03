"""Where a result comes from: code, revision, Python, command; never an absolute path."""

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from arriero.core.version import VERSION
from arriero.record.lab_config import FCFS_MODE, LabConfig, config_as_json, config_sha256
from arriero.record.lab_run import Runner, RunRow, WorkloadManifest
from arriero.record.machine import python_version

_GIT_PATIENCE_S: Final = 5
PACKAGE: Final = "arriero"
_CODE: Final = Path(__file__).resolve().parents[1]


class Revision(NamedTuple):
    """The state of the checkout that the code was loaded from."""

    revision: str | None
    branch: str | None
    is_dirty: bool  # True if it cannot be told


def code_sha256() -> str:
    """The hash of every Python file of the package, with its path inside."""
    digest = hashlib.sha256()
    for path in sorted(_CODE.rglob("*.py")):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(_CODE).as_posix()}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()


def revision() -> Revision:
    """The revision of the checkout; unknown for an installed package and where there is no git."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return Revision(None, None, is_dirty=True)
    head, branch = _git(root, "rev-parse", "HEAD"), _git(root, "rev-parse", "--abbrev-ref", "HEAD")
    changes = _git(root, "status", "--porcelain")
    return Revision(head or None, branch or None, is_dirty=changes != "")


def portable_command(words: Sequence[str]) -> list[str]:
    """A command line in which absolute paths are relative to the working folder, or cut to their last part."""
    return [_portable(word) for word in words]


def lab_run_row(config: LabConfig, manifest: WorkloadManifest, command: Sequence[str]) -> RunRow:
    """The first row of a result in the published format."""
    values = config_as_json(config)
    state = revision()
    is_fcfs = config.execution_mode == FCFS_MODE
    return RunRow(
        benchmark_runner=Runner(path=PACKAGE, sha256=code_sha256()),
        branch=state.branch,
        cmake_build_type=None,
        commands=[portable_command(command)],
        config_sha256=config_sha256(values),
        dirty_worktree=state.is_dirty,
        execution_mode=config.execution_mode,
        git_revision=state.revision,
        llama_cpp_submodule_revision=None,
        normalized_config=values,
        python_executable="python",
        python_version=python_version(),
        scheduling_policy=None if is_fcfs or config.scheduling_policy == "FCFS" else config.scheduling_policy,
        seed=config.run_seed,
        workload_manifest=manifest,
        workload_sha256=manifest.workload_sha256,
    )


def own_run_row(
    config: dict[str, Any], *, schema: str, workload_sha256: str, workload: dict[str, Any] | None, seed: int | None,
    command: Sequence[str],
) -> dict[str, Any]:  # fmt: skip
    """The first row of a result in arriero's own format.

    Args:
        config: the configuration as JSON.
        schema: of the rows that follow.
        workload_sha256: of the workload's bytes.
        workload: its manifest or its generator's settings, if there are any.
        seed: of a generated workload.
        command: the words that started the run.
    """
    state = revision()
    return {
        "record_type": "run",
        "schema_version": schema,
        "evidence_type": "SIMULATED",
        "config": config,
        "config_sha256": config_sha256(config),
        "workload": workload,
        "workload_sha256": workload_sha256,
        "seed": seed,
        "code": {"package": PACKAGE, "version": VERSION, "sha256": code_sha256()},
        "git_revision": state.revision,
        "dirty_worktree": state.is_dirty,
        "python_version": python_version(),
        "command": portable_command(command),
    }


def _portable(word: str) -> str:
    flag, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    path = Path(value)
    if not path.is_absolute():
        return word
    here = Path.cwd()
    shown = path.relative_to(here).as_posix() if path.is_relative_to(here) else path.name
    return f"{flag}{equals}{shown}"


def _git(root: Path, *words: str) -> str | None:
    program = shutil.which("git")
    if program is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            [program, "--no-optional-locks", "-C", str(root), *words],
            capture_output=True,
            text=True,
            timeout=_GIT_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
