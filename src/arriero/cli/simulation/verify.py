"""`arriero sim verify`: the repository's own definitions, simulated again and compared with their references.

A reference holds hashes of configuration, workload and rows, and the metrics, so that a difference says where it is.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import asdict

from arriero.cli.simulation.lab import Files, LabInputs, load
from arriero.cli.simulation.output import write_text
from arriero.cli.simulation.simulators import LabSimulator
from arriero.cli.sources import make_parser
from arriero.core.errors import ConfigError
from arriero.metrics.lab_summary import LabLife, lab_summary
from arriero.record.lab_check import LabChecker
from arriero.record.lab_config import config_as_json, config_sha256, read_lab_config
from arriero.record.lab_envelope import check_envelope
from arriero.record.lab_file import lab_life, slos_of
from arriero.record.lab_matrix import locate, read_matrix
from arriero.record.lab_place import Place
from arriero.record.lab_rows import IterationRow, RequestRow, encode_row
from arriero.record.strict import read_table

FOLDER: Final = "definitions"
_EXIT_DIFFERS: Final = 1


def main(arguments: Sequence[str]) -> int:
    """Verify every definition; status 1 if one differs.

    Raises:
        ConfigError: there are no definitions. DataError: a file cannot be used.
    """
    from arriero.sim.runs import run_serving_lab

    parser = make_parser("sim verify", "Simulate the repository's own definitions and compare with their references.")
    parser.add_argument("--folder", metavar="DIR", help=f"where they are (default: {FOLDER} of the checkout)")
    parser.add_argument("--update-reference", action="store_true", help="rewrite the references with what comes out")
    flags = parser.parse_args(arguments)
    folder = Path(flags.folder) if flags.folder else default_folder()
    configs = definitions(folder)
    num_different = 0
    for name, path in configs.items():
        inputs = load(read_lab_config(path), Files(path, None, None, folder))
        found = outcome(inputs, run_serving_lab, name)
        reference = folder / "references" / f"{name}.json"
        if flags.update_reference:
            write_text(reference, f"{json.dumps(found, indent=2, sort_keys=True)}\n", force=True)
            print(f"{name}: reference written")
            continue
        different = difference(found, read_table(reference))
        num_different += different is not None
        print(f"{'PASS' if different is None else 'FAIL'} {name}" + (f": {different}" if different else ""))
    if not flags.update_reference:
        print(f"{len(configs) - num_different} of {len(configs)} as referenced")
    return _EXIT_DIFFERS if num_different else 0


def default_folder() -> Path:
    """The folder of the checkout that the package was loaded from, or of the working folder.

    Raises:
        ConfigError: there is none.
    """
    for root in (Path(__file__).resolve().parents[4], Path.cwd()):
        if (root / FOLDER).is_dir():
            return root / FOLDER
    raise ConfigError(f"no folder {FOLDER} in the checkout or here; name one with --folder")


def definitions(folder: Path) -> dict[str, Path]:
    """Every configuration of every matrix of the folder, by its short name.

    Raises:
        DataError: a matrix names a configuration that is not there. ConfigError: there is no matrix.
    """
    matrices = sorted(folder.glob("matrix_*.json"))
    if not matrices:
        raise ConfigError(f"{folder}: no file matrix_*.json; name the folder of definitions with --folder")
    found: dict[str, Path] = {}
    for matrix in matrices:
        paths = locate(read_matrix(matrix).configs, folder, file=str(matrix))
        found.update({path.stem: path for path in paths.values()})
    return dict(sorted(found.items()))


def outcome(inputs: LabInputs, simulate: LabSimulator, name: str) -> dict[str, Any]:
    """What a definition comes to: hashes and metrics.

    Raises:
        DataError: its rows do not fit together.
    """
    checker = LabChecker(inputs.config, name)
    digest = hashlib.sha256()
    requests: list[LabLife] = []
    num_iterations, line = 0, 0
    for row in simulate(inputs.config, inputs.records):
        line += 1
        checker.add(row, line)
        if isinstance(row, RequestRow):
            check_envelope(row, inputs.records[len(requests)], Place(name, line))
            requests.append(lab_life(row))
        num_iterations += isinstance(row, IterationRow)
        digest.update(encode_row(row) + b"\n")
    summary = checker.finish(line)
    return {
        "config_sha256": config_sha256(config_as_json(inputs.config)),
        "workload_sha256": inputs.manifest.workload_sha256,
        "rows_sha256": digest.hexdigest(),
        "metrics": lab_summary(requests, num_iterations, asdict(summary), slos_of(inputs.config)),
    }


def difference(found: dict[str, Any], reference: dict[str, Any]) -> str | None:
    """The first thing that differs, or None."""
    for name in ("config_sha256", "workload_sha256"):
        if found[name] != reference.get(name):
            return f"{name} differs: the definition has changed; look at it, then use --update-reference"
    metrics: dict[str, Any] = reference.get("metrics", {})
    for name, value in found["metrics"].items():
        if value != metrics.get(name):
            return f"{name} is {value}, the reference says {metrics.get(name)}"
    same = found["rows_sha256"] == reference.get("rows_sha256")
    return None if same else "the rows differ, and no metric shows it"
