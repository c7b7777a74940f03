"""Which cost profile a server uses."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from arriero.backend.synthetic import SyntheticOptions
from arriero.cli.cost_profiles import command, find_profile, kept_folder, kept_path, use_profile
from arriero.cli.fingerprints import ATTENTION, context_words, formula_fingerprint
from arriero.cli.loading import adapts_threads, engine_options, load_model
from arriero.cli.main import main
from arriero.core.config import BackendKind, FlashAttention, KvLayout, ServeConfig
from arriero.core.config_rules import resolve
from arriero.core.errors import ConfigError, DataError
from arriero.core.option_kinds import Threads
from arriero.record.cost_profile import (
    CostProfile,
    Fingerprint,
    Measuring,
    encode_cost_profile,
    profile_of,
    read_cost_profile,
)
from arriero.record.machine import machine_facts
from tests.unit.engine.machines import scaling_cost

CONFIG = ServeConfig(backend=BackendKind.SYNTHETIC, threads=Threads(2, 2))
HERE = Fingerprint(machine={"cpu": "a fast one"}, model={"weights": "Q4_0"}, context={ATTENTION: "on"})
MEASURING = Measuring(
    made_at="2026-01-02T03:04:05+00:00", seconds=100.0, num_rounds=3, num_samples=600, load=None, busy=None,
    version="1", library="none",
)  # fmt: skip
LIMITS = SyntheticOptions(num_sequences=4, micro_batch=64, num_cells=4 * 512).limits()


def profile(fingerprint: Fingerprint = HERE, **measuring: str | None) -> CostProfile:
    return profile_of(
        scaling_cost(1, 2),
        name="small",
        fingerprint=fingerprint,
        residuals=[],
        measuring=msgspec.structs.replace(MEASURING, **measuring),
        machine=machine_facts(),
    )


def keep(folder: Path, kept: CostProfile) -> Path:
    path = kept_path(folder, kept.name, kept.fingerprint)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_cost_profile(kept))
    return path


def otherwise(**facts: str) -> Fingerprint:
    return Fingerprint(machine=HERE.machine, model=HERE.model, context={**HERE.context, **facts})


# ── found ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_kept_profile_is_found_by_its_whole_fingerprint(tmp_path: Path) -> None:
    path = keep(tmp_path, profile())
    found = find_profile(CONFIG, "small", [HERE], tmp_path)
    assert found is not None
    assert (found.path, found.fingerprint, found.is_named) == (path, HERE, False)
    assert find_profile(CONFIG, "large", [HERE], tmp_path) is None
    assert find_profile(CONFIG, "small", [otherwise(layout="unified")], tmp_path) is None


def test_where_attention_is_open_the_newest_profile_settles_it(tmp_path: Path) -> None:
    on, off = HERE, otherwise(**{ATTENTION: "off"})
    keep(tmp_path, profile(on))
    keep(tmp_path, profile(off, made_at="2026-01-03T00:00:00+00:00"))
    found = find_profile(CONFIG, "small", [on, off], tmp_path)
    assert found is not None
    assert found.fingerprint == off


def test_names_of_models_are_names_of_files(tmp_path: Path) -> None:
    path = kept_path(tmp_path, "a/b: c", HERE)
    assert path.parent == tmp_path
    assert path.name.startswith("a_b_c-")


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"ARRIERO_PROFILES": "/p"}, Path("/p")),
        ({"XDG_CACHE_HOME": "/cache"}, Path("/cache/arriero/cost")),
        ({"XDG_CACHE_HOME": "relative"}, Path.home() / ".cache/arriero/cost"),
        ({}, Path.home() / ".cache/arriero/cost"),
    ],
)
def test_profiles_are_kept_in_the_users_cache(environment: dict[str, str], folder: Path) -> None:
    assert kept_folder(environment) == folder


# ── does not fit ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_named_profile_that_does_not_fit_is_an_error_with_the_difference(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_bytes(encode_cost_profile(profile(otherwise(layout="unified"))))
    named = replace(CONFIG, cost_profile=str(path))
    with pytest.raises(ConfigError, match=r"it does not fit \(layout: unified in the profile, unknown here\)"):
        find_profile(named, "small", [HERE], tmp_path)
    assert find_profile(named, "small", [otherwise(layout="unified")], tmp_path) is not None
    with pytest.raises(DataError, match="no such file"):
        find_profile(replace(CONFIG, cost_profile=str(tmp_path / "none")), "small", [HERE], tmp_path)


def test_a_kept_one_that_does_not_fit_is_a_warning_with_the_difference(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keep(tmp_path, profile(otherwise(layout="unified")))
    keep(tmp_path, profile(otherwise(layout="unified", device="a GPU")))
    with caplog.at_level(logging.WARNING):
        assert find_profile(CONFIG, "small", [otherwise(layout="separate")], tmp_path) is None
    (record,) = caplog.records
    assert "(layout: unified in the profile, separate here)" in record.getMessage()
    assert "arriero calibrate --backend synthetic --threads 1,2" in record.getMessage()


def test_a_kept_one_that_cannot_be_read_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keep(tmp_path, profile()).write_text("{}", encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        assert find_profile(CONFIG, "small", [HERE], tmp_path) is None
    assert "is not used" in caplog.text


@pytest.mark.parametrize("settings", [{"itl_target": 100}, {"adapt_threads": True}])
def test_what_needs_a_profile_says_how_to_make_one(settings: dict[str, object], tmp_path: Path) -> None:
    config = resolve({"backend": BackendKind.SYNTHETIC, "kv": KvLayout.UNIFIED, **settings})
    with pytest.raises(ConfigError, match="arriero calibrate --backend synthetic --kv unified"):
        find_profile(config, "synthetic", [HERE], tmp_path)


def test_the_command_has_the_flags_that_a_calibration_shares_with_a_server() -> None:
    assert command(ServeConfig()) == "arriero calibrate"
    config = ServeConfig(model="my model.gguf", ctx_size=8192, itl_target=100, port=1234)
    assert command(config) == "arriero calibrate --model 'my model.gguf' --ctx-size 8192 --itl-target 100"


# ── used ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_costs_are_for_the_context_and_the_threads_that_serve(tmp_path: Path) -> None:
    keep(tmp_path, profile())
    found = find_profile(CONFIG, "small", [HERE], tmp_path)
    used = use_profile(found, CONFIG, Threads(1, 2), LIMITS)
    assert used is not None
    assert used.cost.threads == Threads(1, 2)
    assert (used.cost.rules.micro_batch, used.cost.rules.stream_cells) == (64, 512)
    assert "2026-01-02" in used.words
    assert use_profile(None, CONFIG, Threads(1, 2), LIMITS) is None


def test_threads_that_were_not_calibrated_are_an_error_only_where_the_profile_matters(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = keep(tmp_path, profile())
    found = find_profile(CONFIG, "small", [HERE], tmp_path)
    assert found is not None
    with caplog.at_level(logging.WARNING):
        assert use_profile(found, CONFIG, Threads(4, 4), LIMITS) is None
    assert "calibrated for 1, 2 only" in caplog.text
    for config in (replace(CONFIG, itl_target=50), replace(CONFIG, cost_profile=str(path))):
        with pytest.raises(ConfigError, match="calibrated for 1, 2 only"):
            use_profile(find_profile(config, "small", [HERE], tmp_path), config, Threads(4, 4), LIMITS)


def test_a_doubtful_profile_is_used_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keep(tmp_path, profile(busy="the machine was busy"))
    with caplog.at_level(logging.WARNING):
        found = find_profile(CONFIG, "small", [HERE], tmp_path)
        assert use_profile(found, CONFIG, Threads(2, 2), LIMITS) is not None
    assert "doubtful: the machine was busy" in caplog.text


@pytest.mark.parametrize(
    ("settings", "numbers", "adapts"),
    [
        ({}, (1, 2), True),
        ({}, (2,), False),
        ({"adapt_threads": False}, (1, 2), False),
        ({"adapt_threads": True}, (2,), True),
        ({"exact": True}, (1, 2), False),
        ({"exact": True, "adapt_threads": True}, (1, 2), True),
    ],
)
def test_threads_adapt_where_there_is_a_choice(
    settings: dict[str, object],
    numbers: tuple[int, ...],
    adapts: bool,  # noqa: FBT001 - a table
) -> None:
    assert adapts_threads(resolve(settings), scaling_cost(*numbers)) is adapts


def test_without_a_profile_threads_do_not_adapt() -> None:
    assert not adapts_threads(resolve({}), None)


# ── from a calibration to a server ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def _logs_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("_logs_as_before")
def test_a_server_finds_what_a_calibration_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ARRIERO_PROFILES", str(tmp_path / "kept"))
    small = ("--backend", "synthetic", "--sequences", "2", "--ctx-size", "512", "--batch", "16", "--micro-batch", "16")
    assert main(["calibrate", *small, "--threads", "1", "--seconds", "0.1", "--busy-ok"]) == 0
    (path,) = (tmp_path / "kept").iterdir()
    assert f"profile: {path}; a server of this model with the same flags finds it there" in capsys.readouterr().out
    settings = {"sequences": 2, "ctx_size": 512, "batch": 16, "micro_batch": 16, "threads": Threads(1, 1)}
    config = resolve({"backend": BackendKind.SYNTHETIC, "itl_target": 30, "interrupt_after": 5, **settings})
    loaded = load_model(config)
    assert loaded.profile is not None
    assert loaded.profile.path == path
    options = engine_options(config, loaded.backend, loaded.cost)
    assert options.cost is loaded.cost
    assert (options.itl_target_ms, options.interrupt_after_ms, options.adapts_threads) == (30, 5, False)
    loaded.close()
    assert read_cost_profile(path).fingerprint == formula_fingerprint(config)


def test_the_words_of_a_context_follow_what_was_settled() -> None:
    settled = context_words(ServeConfig(flash_attn=FlashAttention.AUTO), FlashAttention.OFF)
    assert settled[ATTENTION] == "off"
