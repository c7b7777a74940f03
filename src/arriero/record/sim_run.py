"""The run row of a result in arriero's own mode: where it comes from and from what."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from arriero.record.lab_config import config_sha256
from arriero.record.lab_place import Place
from arriero.record.sim_rows import encode_table
from arriero.record.simulation_config import SimulationConfig, simulation_config_of
from arriero.record.strict import Count, Name, Sha256, convert, parse_object


class Code(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The program that simulated."""

    package: Name
    sha256: Sha256
    version: Name


class SimRunRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the result comes from; see `provenance.own_run_row`."""

    code: Code
    command: Annotated[list[str], Meta(min_length=1)]
    config: SimulationConfig
    config_sha256: Sha256
    dirty_worktree: bool
    evidence_type: Literal["SIMULATED"]
    git_revision: str | None
    python_version: Name
    record_type: Literal["run"]
    schema_version: Literal["arriero-simulator-v1"]
    seed: Count | None
    workload: dict[str, Any] | None
    workload_sha256: Sha256


def decode_sim_run(text: bytes, place: Place) -> SimRunRow:
    """Read and check the line.

    Raises:
        DataError: names line and field.
    """
    values = parse_object(text, file=place.file, line=place.line)
    row = convert(values, SimRunRow, file=place.file, line=place.line)
    simulation_config_of(values["config"], file=place.file, line=place.line, below="config")
    digest = config_sha256(values["config"])
    if row.config_sha256 != digest:
        raise place.broken("config_sha256", f"the configuration hashes to {digest}; run again")
    if msgspec.to_builtins(row.config) != values["config"]:
        raise place.broken("config", "leaves fields out, which a run row never does; run again")
    if any(word.startswith("/") for word in row.command):
        raise place.broken("command", "holds an absolute path; write relative ones")
    _check_seed(row, place)
    if encode_table(values) != text:
        raise place.broken("row", "is not written in the one way: sorted keys, no spaces; run again")
    return row


def _check_seed(row: SimRunRow, place: Place) -> None:
    is_generated = row.config.workload.generator is not None
    if is_generated != (row.seed is not None):
        what = "is null, but the workload is generated" if is_generated else "stands there, but the workload is a file"
        raise place.broken("seed", f"{what}; run again")
    if row.config.seeds and row.seed not in row.config.seeds:
        raise place.broken("seed", f"{row.seed} is none of the configuration's seeds; run again")
    if is_generated and (row.workload or {}).get("seed") != row.seed:
        raise place.broken("seed", "is not that of the workload's settings; run again")
