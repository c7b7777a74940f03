"""`arriero lab recommend`: its flags, and what it tells; measuring is in tests/model."""

import dataclasses
import json
from argparse import Namespace
from pathlib import Path

import pytest
from msgspec.structs import replace

from arriero.cli.lab.recommend import lines_of
from arriero.cli.lab.recommend_files import quality_command
from arriero.cli.main import main
from tests.unit.lab.recommend.fake_machines import plan
from tests.unit.record.cpu_lab.recommendations import BEST, PRESENT, candidate, judgement, run


def test_what_is_recommended_is_said_with_its_interval() -> None:
    lines = lines_of(run())
    assert lines == [
        f"{PRESENT}: 1,2 threads 1.25 times as fast (1.20 to 1.30) against 2 threads: recommended (12 pairs)",
        f"{BEST}: 2 threads, as before; no others looked faster",
        f"{BEST} with 2 threads 2.00 times as fast (1.20 to 1.30) against {PRESENT} with 2 threads: recommended",
        f"recommended here for 512 prompt tokens and 128 generated ones: {BEST}, --threads 2",
    ]


def test_what_is_not_resolved_refused_or_doubtful_is_said() -> None:
    stays = judgement(is_better=False)
    choices = (type(run().choices[0])(file=PRESENT, counts=run().present, judged=stays),)
    files = (candidate(PRESENT), candidate(BEST, refused="KL 1 is above 0.05"))
    lines = lines_of(run(files=files, choices=choices, best=PRESENT, judged=None, busy="others were busy"))
    assert lines[0] == f"{BEST} was not considered: KL 1 is above 0.05"
    assert "not resolved, so it stays at 2 (12 pairs)" in lines[1]
    assert lines[-1] == "doubtful: others were busy"


def test_the_command_for_quality_can_be_typed() -> None:
    assert quality_command(Path("a b.gguf"), [Path("c.gguf")]) == (
        "arriero lab quality --reference 'a b.gguf' c.gguf --out quality.json"
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--mix", "512"], "--mix 512: give prompt tokens, generated ones and requests at once, such as 512:128:4"),
        (["--mix", "512:128:0"], "--mix 0: too low"),
        (["--mix", "512:0"], "--mix 0: too low"),
        (["--threads", "0"], "--threads 0: "),
        (["--rounds", "none"], "--rounds none: not a whole number"),
        (["--quality-bound", "speed=1"], "--quality-bound speed=1: no such bound"),
        (["--formats", "Q3"], "no such format; use"),
        (["--model", "none.gguf"], "none.gguf"),
    ],
)
def test_what_cannot_work_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, flags: list[str], message: str
) -> None:
    monkeypatch.setattr("arriero.record.machine_load.busy_now", _quiet)
    given = flags if "--model" in flags else [*flags, "--model", str(_model(tmp_path))]
    assert main(["lab", "recommend", *given, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_run_that_exists_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.jsonl").write_text("")
    assert main(["lab", "recommend", "--out", str(tmp_path)]) == 2
    assert "holds a run already; go on with --resume, or begin anew with --force" in capsys.readouterr().err


def _quiet() -> None:
    return None


def _model(folder: Path) -> Path:
    path = folder / "m.gguf"
    path.write_bytes(b"no model")
    return path


def test_flags_are_read_by_their_names() -> None:
    from arriero.cli.lab.recommend import _counts

    assert _counts(Namespace(threads=None), 6) == (1, 2, 4, 6)
    assert _counts(Namespace(threads="3,1"), 2) == (1, 2, 3)


def test_a_folder_that_is_a_file_is_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").write_text("mine")
    assert main(["lab", "recommend", "--out", str(tmp_path / "out")]) == 2
    assert "out: is no folder; name one" in capsys.readouterr().err


def test_the_manifest_holds_contents_and_no_path_so_that_a_run_may_move() -> None:
    from arriero.cli.lab.recommend import _manifest

    asked = plan(PRESENT, BEST)
    assert all(file.path.startswith("/models/") for file in asked.files)
    manifest = _manifest(asked, {"cpu": "fast"})
    assert "/models" not in json.dumps(manifest)
    changed = replace(asked.files[0], sha256="1" * 64)
    assert _manifest(dataclasses.replace(asked, files=(changed, asked.files[1])), {"cpu": "fast"}) != manifest
