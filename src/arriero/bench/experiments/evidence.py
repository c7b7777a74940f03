"""EvidencePackage: what an experiment leaves behind, in a folder of its own.

    config.json     what decides, the configuration, command, code and machine; written BEFORE the run
    results.json    tables under their evidence labels, facts, limits, raw records by hash
    verdicts.json   every acceptance statement
    README.md       the same for people
    raw/NAME.gz     raw records, where they are small

The folder appears when the run is over; one that is interrupted leaves what was there before as it was. An earlier
package is moved aside before the new one takes its name, and taken away after that, so that one of them is always
there. All files but the machine's facts and the figures are the same bytes for the same run.
"""

import gzip
import hashlib
import json
import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from arriero.bench.experiments.evidence_page import page
from arriero.bench.experiments.experiment import Experiment, Outcome, Statement, Table, Value
from arriero.core.errors import ConfigError
from arriero.core.version import VERSION
from arriero.record.lab_config import config_sha256
from arriero.record.machine import machine_facts
from arriero.record.machine_load import CpuSnapshot, load_between, take_snapshot
from arriero.record.provenance import PACKAGE, code_sha256, portable_command, revision

SCHEMA: Final = "arriero-experiment-v1"
RAW_LIMIT_BYTES: Final = 512 << 10
"""Compressed raw records up to this size go into the package; of larger ones only the hash."""


class EvidencePackage:
    """One run's files; `begin` before the run, `finish` after it."""

    def __init__(self, folder: Path, *, force: bool) -> None:
        """Nothing is written yet; an earlier package that was left aside gets its name back.

        Raises:
            ConfigError: the folder exists and `force` is False, or it is no evidence package.
        """
        self._folder = folder
        self._draft = folder.with_name(f".{folder.name}.partial")
        self._aside = folder.with_name(f".{folder.name}.earlier")
        self._before: CpuSnapshot | None = None
        self._restore()
        if not folder.exists():
            return
        if not force:
            raise ConfigError(f"{folder}: exists already; name another folder with --out, or replace it with --force")
        if not _is_package(folder):
            raise ConfigError(f"{folder}: is no evidence package, so it is not replaced; name another with --out")

    def begin(self, experiment: Experiment[Any], config: msgspec.Struct, command: Sequence[str]) -> None:
        """Write down what decides, before anything is measured.

        Raises:
            ConfigError: the folder cannot be written.
        """
        values: dict[str, Any] = _portable(msgspec.to_builtins(config))
        plan = {
            "schema": SCHEMA,
            "experiment": described(experiment),
            "config": values,
            "config_sha256": config_sha256(values),
            "origin": origin(command),
        }
        try:
            shutil.rmtree(self._draft, ignore_errors=True)
            self._draft.mkdir(parents=True)
        except OSError as error:
            reason = (error.strerror or "an error of the system").lower()
            message = f"{self._draft.parent}: no folder can be made there ({reason}); name another with --out"
            raise ConfigError(message) from None
        self._write("config.json", plan)
        self._before = take_snapshot()

    def finish(self, outcome: Outcome) -> None:
        """Write the rest and let the folder take its name."""
        assert self._before is not None, "a package is begun before it is finished"
        load = load_between(self._before, take_snapshot())
        plan = json.loads((self._draft / "config.json").read_text(encoding="utf-8"))
        results = {
            "schema": SCHEMA,
            "experiment": plan["experiment"]["name"],
            "config_sha256": plan["config_sha256"],
            "verdict": str(outcome.judgement),
            "facts": _plain(outcome.facts),
            "tables": [_table(each) for each in outcome.tables],
            "limits": list(outcome.limits),
            "raw": {name: self._keep(name, data) for name, data in sorted(outcome.raw.items())},
            "load_during": msgspec.to_builtins(load),
        }
        verdicts = {
            "schema": SCHEMA,
            "experiment": plan["experiment"]["name"],
            "verdict": str(outcome.judgement),
            "statements": [_statement(each) for each in outcome.statements],
        }
        self._write("results.json", results)
        self._write("verdicts.json", verdicts)
        (self._draft / "README.md").write_text(page(plan, results, verdicts), encoding="utf-8")
        shutil.rmtree(self._aside, ignore_errors=True)  # beside a package that has its name it is no longer needed
        if self._folder.exists():
            self._folder.rename(self._aside)
        self._draft.rename(self._folder)
        shutil.rmtree(self._aside, ignore_errors=True)

    def abandon(self) -> None:
        """Take away what was written, if the run did not come to its end; after `finish` it does nothing."""
        shutil.rmtree(self._draft, ignore_errors=True)
        self._restore()

    def _restore(self) -> None:
        """Give the earlier package its name back, if it was moved aside and nothing took its place."""
        if not self._folder.exists() and self._aside.exists():
            self._aside.rename(self._folder)

    def _keep(self, name: str, data: bytes) -> dict[str, Any]:
        """Compress raw records into the package if they are small; the entry that says where they are."""
        packed = gzip.compress(data, mtime=0)
        entry: dict[str, Any] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "kept": None}
        if len(packed) <= RAW_LIMIT_BYTES:
            place = self._draft / "raw" / f"{name}.gz"
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(packed)
            entry["kept"] = place.relative_to(self._draft).as_posix()
        return entry

    def _write(self, name: str, values: Mapping[str, Any]) -> None:
        text = json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
        (self._draft / name).write_text(f"{text}\n", encoding="utf-8")


def described(experiment: Experiment[Any]) -> dict[str, str]:
    """What decides, in the words of the experiment."""
    return {
        "name": experiment.name,
        "number": experiment.number,
        "decides": experiment.decides,
        "metric": experiment.metric,
        "comparison": experiment.comparison,
        "difference": experiment.difference,
    }


def origin(command: Sequence[str]) -> dict[str, Any]:
    """Command, code and machine, without absolute paths."""
    state = revision()
    return {
        "command": portable_command(command),
        "code": {"package": PACKAGE, "version": VERSION, "sha256": code_sha256()},
        "git_revision": state.revision,
        "dirty_worktree": state.is_dirty,
        "machine": msgspec.to_builtins(machine_facts()),
    }


def _portable(values: Any) -> Any:  # noqa: ANN401 - JSON values
    """The same values; texts that are absolute paths become relative, or are cut to their last part."""
    if isinstance(values, dict):
        return {name: _portable(value) for name, value in cast("dict[str, Any]", values).items()}
    if isinstance(values, list):
        return [_portable(value) for value in cast("list[object]", values)]
    return portable_command([values])[0] if isinstance(values, str) else values


def _is_package(folder: Path) -> bool:
    try:
        values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(values, dict) and cast("dict[str, Any]", values).get("schema") == SCHEMA


def _table(table: Table) -> dict[str, Any]:
    return {
        "title": table.title,
        "label": str(table.label),
        "heads": list(table.heads),
        "rows": [[_cell(value) for value in row] for row in table.rows],
        "note": table.note,
    }


def _statement(statement: Statement) -> dict[str, Any]:
    return {
        "text": statement.text,
        "measured": _cell(statement.measured),
        "bound": statement.bound,
        "verdict": str(statement.judgement),
        "reason": statement.reason,
    }


def _cell(value: Value) -> Value:
    """The value as JSON can hold it: infinities and the like as words."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _plain(facts: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON values
    return msgspec.to_builtins(facts)
