"""What an experiment leaves behind: whole or not at all, without absolute paths, and the plan before the run."""

import gzip
import hashlib
import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from arriero.bench.experiments import evidence
from arriero.bench.experiments.evidence import EvidencePackage
from arriero.bench.experiments.experiment import EvidenceLabel, Experiment, Outcome, Statement, Table
from arriero.core.errors import ConfigError


class Nothing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    model: str
    files: list[str] = []


OUTCOME = Outcome(
    statements=(
        Statement.equal("mules | at the ford", 9, 10),
        Statement.at_most("wait", None, 3, " ms"),
    ),
    tables=(
        Table(
            title="Mules",
            label=EvidenceLabel.MEASURED,
            heads=("ford", "mules", "share"),
            rows=(("upper", 9, 0.123456789), ("lower", None, math.inf)),
            note="One was in the clover.",
        ),
    ),
    limits=("Mules only.",),
    facts={"backend": "none", "threads": [1, 2]},
    raw={"mules.jsonl": b'{"mule":1}\n' * 50},
)

EXPERIMENT = Experiment(
    name="mules",
    number="E0",
    decides="How many mules are there?",
    metric="mules",
    comparison="upper ford against lower ford",
    difference="one mule",
    config=Nothing,
    run=lambda config, tell: OUTCOME,  # noqa: ARG005 - nothing runs
)


def finished(folder: Path, outcome: Outcome = OUTCOME, *, force: bool = False) -> None:
    package = EvidencePackage(folder, force=force)
    package.begin(EXPERIMENT, Nothing(model=str(folder / "deep" / "mule.gguf"), files=["a"]), ["arriero", str(folder)])
    package.finish(outcome)


def read(folder: Path, name: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / name).read_text())
    return found


def test_a_package_holds_the_plan_the_results_the_verdicts_and_a_page(tmp_path: Path) -> None:
    folder = tmp_path / "mules"
    finished(folder)
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md", "config.json", "raw", "results.json", "verdicts.json",
    ]  # fmt: skip
    plan, results, verdicts = (read(folder, f"{name}.json") for name in ("config", "results", "verdicts"))
    assert plan["experiment"] == {
        "name": "mules", "number": "E0", "decides": "How many mules are there?", "metric": "mules",
        "comparison": "upper ford against lower ford", "difference": "one mule",
    }  # fmt: skip
    assert plan["config_sha256"] == results["config_sha256"]
    assert results["verdict"] == verdicts["verdict"] == "FAIL"
    assert verdicts["statements"] == [
        {"text": "mules | at the ford", "measured": 9, "bound": "exactly 10", "verdict": "FAIL", "reason": None},
        {
            "text": "wait", "measured": None, "bound": "at most 3 ms", "verdict": "OPEN",
            "reason": "there was nothing to measure",
        },
    ]  # fmt: skip
    raw = gzip.decompress((folder / "raw" / "mules.jsonl.gz").read_bytes())
    assert raw == OUTCOME.raw["mules.jsonl"]
    assert results["raw"] == {
        "mules.jsonl": {
            "bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest(), "kept": "raw/mules.jsonl.gz",
        }
    }  # fmt: skip


def test_the_page_says_it_for_people(tmp_path: Path) -> None:
    finished(tmp_path / "mules")
    page = (tmp_path / "mules" / "README.md").read_text()
    assert "# E0: mules" in page
    assert "**FAIL**. How many mules are there?" in page
    assert "| mules \\| at the ford | 9 | exactly 10 | FAIL |" in page
    assert "| wait | - | at most 3 ms | OPEN (there was nothing to measure) |" in page
    assert "\nMEASURED\n" in page
    assert "| upper | 9 | 0.12346 |" in page
    assert "| lower | - | inf |" in page
    assert "- Mules only." in page
    assert "- difference that counts: one mule" in page


def test_no_absolute_path_gets_into_a_package(tmp_path: Path) -> None:
    folder = tmp_path / "mules"
    finished(folder)
    for path in folder.glob("*.*"):
        assert str(tmp_path) not in path.read_text()
    assert read(folder, "config.json")["config"] == {"model": "mule.gguf", "files": ["a"]}


def test_what_decides_stands_there_before_the_run_and_the_folder_appears_after_it(tmp_path: Path) -> None:
    folder = tmp_path / "mules"
    package = EvidencePackage(folder, force=False)
    package.begin(EXPERIMENT, Nothing(model="m"), ["arriero"])
    (draft,) = tmp_path.iterdir()
    assert json.loads((draft / "config.json").read_text())["experiment"]["metric"] == "mules"
    assert not folder.exists()
    package.finish(OUTCOME)
    assert list(tmp_path.iterdir()) == [folder]


def test_a_run_that_does_not_end_leaves_what_was_there(tmp_path: Path) -> None:
    folder = tmp_path / "mules"
    finished(folder)
    before = (folder / "results.json").read_bytes()
    package = EvidencePackage(folder, force=True)
    package.begin(EXPERIMENT, Nothing(model="other"), ["arriero"])
    package.abandon()
    assert list(tmp_path.iterdir()) == [folder]
    assert (folder / "results.json").read_bytes() == before
    package.abandon()


def test_a_package_is_replaced_only_if_asked_and_nothing_else_ever(tmp_path: Path) -> None:
    folder = tmp_path / "mules"
    finished(folder)
    with pytest.raises(ConfigError, match="--force"):
        EvidencePackage(folder, force=False)
    finished(folder, replace(OUTCOME, raw={}), force=True)
    assert not (folder / "raw").exists()
    foreign = tmp_path / "letters"
    foreign.mkdir()
    (foreign / "config.json").write_text("[]")
    with pytest.raises(ConfigError, match="no evidence package"):
        EvidencePackage(foreign, force=True)


@pytest.mark.parametrize("stop", [1, 2, 3], ids=["before it is moved", "before its successor", "before it is removed"])
def test_one_whole_package_is_there_wherever_its_replacement_is_killed(
    stop: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mules"
    finished(folder)
    earlier = (folder / "results.json").read_bytes()
    package = EvidencePackage(folder, force=True)
    package.begin(EXPERIMENT, Nothing(model="other"), ["arriero"])
    with monkeypatch.context() as patch:
        kill_at(stop, patch)
        with pytest.raises(Killed):
            package.finish(OUTCOME)
    # nobody had the time to abandon anything; the next run finds a package
    with pytest.raises(ConfigError, match="--force"):
        EvidencePackage(folder, force=False)
    assert ((folder / "results.json").read_bytes() == earlier) == (stop < 3)
    finished(folder, force=True)
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("stop", [1, 2])
def test_interrupted_replacement_leaves_the_earlier_package_under_its_name(
    stop: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mules"
    finished(folder)
    earlier = (folder / "results.json").read_bytes()
    package = EvidencePackage(folder, force=True)
    package.begin(EXPERIMENT, Nothing(model="other"), ["arriero"])
    with monkeypatch.context() as patch:
        kill_at(stop, patch)
        with pytest.raises(Killed):
            package.finish(OUTCOME)
    package.abandon()
    assert list(tmp_path.iterdir()) == [folder]
    assert (folder / "results.json").read_bytes() == earlier


class Killed(BaseException):
    """The process ends here."""


def kill_at(stop: int, patch: pytest.MonkeyPatch) -> None:
    """End at the first rename, at the second one, or at the first removal after both."""
    rename, rmtree, renames = Path.rename, shutil.rmtree, list[Path]()

    def kill_rename(self: Path, target: Path) -> Path:
        renames.append(target)
        if len(renames) == stop:
            raise Killed
        return rename(self, target)

    def kill_rmtree(path: Path, *, ignore_errors: bool = False) -> None:
        if len(renames) == 2 == stop - 1:
            raise Killed
        rmtree(path, ignore_errors=ignore_errors)

    patch.setattr(Path, "rename", kill_rename)
    patch.setattr(shutil, "rmtree", kill_rmtree)


def test_large_raw_records_leave_their_hash_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "RAW_LIMIT_BYTES", 10)
    finished(tmp_path / "mules")
    (entry,) = read(tmp_path / "mules", "results.json")["raw"].values()  # type: ignore[attr-defined]  # a table
    assert entry["kept"] is None
    assert len(entry["sha256"]) == 64
    assert not (tmp_path / "mules" / "raw").exists()
    assert "not kept" in (tmp_path / "mules" / "README.md").read_text()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    package = EvidencePackage(tmp_path / "file" / "mules", force=False)
    with pytest.raises(ConfigError, match="--out"):
        package.begin(EXPERIMENT, Nothing(model="m"), ["arriero"])


def test_the_same_run_gives_the_same_verdicts_and_raw_records(tmp_path: Path) -> None:
    for name in ("one", "two"):
        finished(tmp_path / name)
    for name in ("verdicts.json", "raw/mules.jsonl.gz"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
