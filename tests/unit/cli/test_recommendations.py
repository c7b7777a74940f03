"""Where recommendations are kept and found, and what they change about a start."""

import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from arriero.cli.advice import take_advice
from arriero.cli.recommendations import find_recommendation, keep, kept_folder, kept_path, recommended_file
from arriero.cli.sources import misspelled
from arriero.core.config import BackendKind, ServeConfig
from arriero.core.errors import ConfigError
from arriero.core.option_kinds import Threads
from tests.unit.record.cpu_lab.recommendations import BEST, MACHINE, PRESENT, candidate, judgement, run

OTHER = {**MACHINE, "cores": "4"}


class Place:
    """A machine without a binding: files of a folder, digests by name."""

    def __init__(self, folder: Path, machine: Mapping[str, str] = MACHINE) -> None:
        self._folder = folder
        self._machine = machine

    def machine(self) -> Mapping[str, str]:
        return self._machine

    def file_of(self, reference: str) -> Path | None:
        path = self._folder / reference
        return path if path.is_file() else None

    def digest_of(self, path: Path) -> str:
        return f"digest of {path.name}"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    for name in (PRESENT, BEST):
        (folder / name).write_text("weights")
    return folder


@pytest.fixture
def kept(tmp_path: Path, models: Path) -> dict[str, str]:
    """An environment in which a recommendation is kept."""
    keep(tmp_path / "kept", run(models))
    return {"ARRIERO_RECOMMENDATIONS": str(tmp_path / "kept")}


# ── kept ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"ARRIERO_RECOMMENDATIONS": "/r"}, Path("/r")),
        ({"ARRIERO_RECOMMENDATIONS": "off"}, None),
        ({"XDG_CACHE_HOME": "/cache"}, Path("/cache/arriero/recommend")),
        ({"XDG_CACHE_HOME": "relative"}, Path.home() / ".cache/arriero/recommend"),
        ({}, Path.home() / ".cache/arriero/recommend"),
    ],
)
def test_recommendations_are_kept_in_the_users_cache(environment: dict[str, str], folder: Path | None) -> None:
    assert kept_folder(environment) == folder


def test_the_variable_is_known_to_the_settings() -> None:
    assert misspelled({"ARRIERO_RECOMMENDATIONS": "off"}) == []
    assert misspelled({"ARRIERO_RECOMMENDATION": "off"}) == [
        "ARRIERO_RECOMMENDATION: no setting; did you mean ARRIERO_RECOMMENDATIONS?"
    ]


def test_each_file_is_found_by_machine_and_content(tmp_path: Path) -> None:
    paths = keep(tmp_path, run())
    assert paths == tuple(kept_path(tmp_path, name, f"digest of {name}", MACHINE) for name in (PRESENT, BEST))
    found = find_recommendation(tmp_path, PRESENT, f"digest of {PRESENT}", MACHINE)
    assert found is not None
    assert found.path == paths[0]
    assert find_recommendation(tmp_path, PRESENT, "another content", MACHINE) is None
    assert find_recommendation(tmp_path, "renamed.gguf", f"digest of {PRESENT}", MACHINE) is None


def test_one_of_another_machine_is_told_and_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keep(tmp_path, run())
    with caplog.at_level(logging.WARNING):
        assert find_recommendation(tmp_path, PRESENT, f"digest of {PRESENT}", OTHER) is None
    assert "it does not fit (cores: 2 there, 4 here)" in caplog.text


def test_a_broken_one_is_told_and_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = keep(tmp_path, run())[0]
    path.write_text("{")
    with caplog.at_level(logging.WARNING):
        assert find_recommendation(tmp_path, PRESENT, f"digest of {PRESENT}", MACHINE) is None
    assert "is not used: malformed JSON" in caplog.text


def test_a_newer_one_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    keep(tmp_path, run())
    keep(tmp_path, run(made_at="2026-02-02T00:00:00+00:00"))
    assert len(list(tmp_path.iterdir())) == 2


def test_the_recommended_file_is_that_of_the_newest_run(tmp_path: Path, models: Path) -> None:
    folder = tmp_path / "kept"
    keep(folder, run(models))
    assert recommended_file(folder, MACHINE) == models / BEST
    later = run(models, made_at="2026-02-02T00:00:00+00:00", best=PRESENT, judged=None)
    keep(folder, later)
    assert recommended_file(folder, MACHINE) == models / PRESENT


# ── used ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_counts_are_taken_where_none_are_given(kept: dict[str, str], models: Path) -> None:
    advice = take_advice(ServeConfig(model=PRESENT), kept, Place(models))
    assert advice.threads == Threads(1, 2)
    assert "1,2 threads, 1.25 times as fast (1.20 to 1.30)" in advice.words(Threads(1, 2))


def test_a_doubtful_one_says_so(tmp_path: Path, models: Path) -> None:
    keep(tmp_path / "kept", run(models, busy="others were busy"))
    kept = {"ARRIERO_RECOMMENDATIONS": str(tmp_path / "kept")}
    assert "doubtful" in take_advice(ServeConfig(model=PRESENT), kept, Place(models)).words(Threads(1, 2))


def test_a_flag_wins(kept: dict[str, str], models: Path) -> None:
    advice = take_advice(ServeConfig(model=PRESENT, threads=Threads(2, 2)), kept, Place(models))
    assert advice.threads is None
    assert advice.words(Threads(2, 2)).endswith("not used: --threads is given")
    assert advice.faster_file is not None


def test_pinned_engines_and_graphics_cards_were_not_measured(kept: dict[str, str], models: Path) -> None:
    pinned = take_advice(ServeConfig(model=PRESENT, engine_cpus=(0,)), kept, Place(models))
    assert (pinned.threads, pinned.obstacle) == (None, "--engine-cpus pins the engine")
    offloaded = take_advice(ServeConfig(model=PRESENT, n_gpu_layers=-1), kept, Place(models))
    assert offloaded.threads is None


def test_it_can_be_switched_off(kept: dict[str, str], models: Path) -> None:
    advice = take_advice(ServeConfig(model=PRESENT), {**kept, "ARRIERO_RECOMMENDATIONS": "off"}, Place(models))
    assert (advice.threads, advice.found) == (None, None)
    assert advice.words(Threads(2, 2)) == "off (ARRIERO_RECOMMENDATIONS)"


def test_without_one_the_command_that_makes_it_is_told(tmp_path: Path, models: Path) -> None:
    advice = take_advice(ServeConfig(model=PRESENT), {"ARRIERO_RECOMMENDATIONS": str(tmp_path / "none")}, Place(models))
    assert advice.words(Threads(2, 2)) == f"none; make one with: arriero lab recommend --model {PRESENT}"


def test_a_faster_file_is_told_and_never_taken(kept: dict[str, str], models: Path) -> None:
    advice = take_advice(ServeConfig(model=PRESENT), kept, Place(models))
    assert advice.config.model == PRESENT
    assert advice.faster_file == (f"{BEST} is 2.00 times as fast (1.20 to 1.30); serve it with --model recommended")
    assert take_advice(ServeConfig(model=BEST), kept, Place(models)).faster_file is None


def test_the_recommended_file_is_taken_when_asked_for(kept: dict[str, str], models: Path) -> None:
    advice = take_advice(ServeConfig(model="recommended"), kept, Place(models))
    assert advice.config.model == str(models / BEST)
    assert advice.threads == Threads(2, 2)
    assert advice.words(Threads(2, 2)).endswith("2 threads, nothing was found to be faster")


def test_no_recommended_file_is_an_error_with_the_remedy(kept: dict[str, str], models: Path, tmp_path: Path) -> None:
    asks = ServeConfig(model="recommended")
    with pytest.raises(ConfigError, match=r"no recommendation for this machine .* arriero lab recommend"):
        take_advice(asks, kept, Place(models, OTHER))
    with pytest.raises(ConfigError, match="recommendations are off"):
        take_advice(asks, {"ARRIERO_RECOMMENDATIONS": "off"}, Place(models))
    with pytest.raises(ConfigError, match="--backend synthetic loads no file"):
        take_advice(ServeConfig(model="recommended", backend=BackendKind.SYNTHETIC), kept)
    (models / BEST).unlink()
    with pytest.raises(ConfigError, match="is gone"):
        take_advice(asks, kept, Place(models))
    assert tmp_path.exists()


def test_a_profile_that_knows_nothing_of_the_counts_is_named(kept: dict[str, str], models: Path) -> None:
    advice = take_advice(ServeConfig(model=PRESENT), kept, Place(models))
    assert "the cost profile knows nothing of 1,2 threads" in advice.words(Threads(2, 2))


def test_a_formula_needs_none(kept: dict[str, str]) -> None:
    advice = take_advice(ServeConfig(backend=BackendKind.SYNTHETIC), kept)
    assert (advice.threads, advice.found) == (None, None)


def test_a_file_that_was_refused_is_never_recommended(tmp_path: Path, models: Path) -> None:
    files = (candidate(PRESENT, models), candidate(BEST, models, refused="KL 1 is above 0.05"))
    choices = (run(models).choices[0],)
    paths = keep(tmp_path, run(models, files=files, choices=choices, best=PRESENT, judged=judgement(is_better=False)))
    assert len(paths) == 1
    assert recommended_file(tmp_path, MACHINE) == models / PRESENT
