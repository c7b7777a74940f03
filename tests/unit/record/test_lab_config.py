import json
from pathlib import Path
from typing import Any

import pytest

from arriero.core.errors import ConfigError, DataError
from arriero.record.lab_comparisons import check_words
from arriero.record.lab_config import config_as_json, config_sha256, lab_config_of, read_lab_config
from arriero.record.lab_file import slos_of
from arriero.record.lab_matrix import MOST_RUNS, find_below, locate, read_matrix, select

Values = dict[str, Any]


@pytest.fixture
def values(shared_data: Path) -> Values:
    found: Values = json.loads((shared_data / "serving-lab" / "configs" / "mixed_overload.json").read_text())
    return found


def test_every_published_configuration_is_read_and_kept(shared_data: Path) -> None:
    paths = sorted((shared_data / "serving-lab" / "configs").glob("*.json"))
    configs = [path for path in paths if not path.name.startswith("matrix_")]
    assert len(configs) == 24
    for path in configs:
        assert config_as_json(read_lab_config(path)) == json.loads(path.read_text())


def test_the_hash_is_the_published_one(values: Values) -> None:
    expected = "40452aaeb740d594da250400594b4d1dce9613f2510d4853f740d3abf4172414"
    assert config_sha256(config_as_json(lab_config_of(values, file="x"))) == expected


def test_objectives_may_be_left_out(values: Values) -> None:
    values["slos"] = {"ttft_slo_us": 0}
    config = lab_config_of(values, file="x")
    assert slos_of(config) == (0, None, None)
    assert config_as_json(config)["slos"] == {"ttft_slo_us": 0}


def change(values: Values, place: str, value: object) -> None:
    *outer, last = place.split(".")
    for name in outer:
        values = values[name]
    if value is ...:
        del values[last]
    else:
        values[last] = value


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("schema_version", "serving-benchmark-config-v2"),
        ("name", ""),
        ("name", ...),
        ("evidence_type", "SIMULATED"),
        ("execution_mode", "static"),
        ("scheduling_policy", "FCFS"),
        ("max_num_sequences", 0),
        ("max_num_sequences", True),
        ("max_batched_tokens", 1.0),
        ("kv_cache.total_blocks", 0),
        ("kv_cache.block_size_tokens", ...),
        ("kv_cache.more", 1),
        ("prefix_cache.enabled", 1),
        ("prefix_cache.salt", None),
        ("backend.decode_base_us", -1),
        ("backend.decode_base_us", 2**63),
        ("backend.decode_base_us", ...),
        ("slos.ttft_slo_us", None),
        ("slos.itl_slo_us", 3),
        ("workload.path", "/etc/passwd"),
        ("workload.manifest_path", "a/../../b"),
        ("output_path", "C:\\x"),
        ("run_seed", -1),
        ("more", 1),
    ],
    ids=str,
)
def test_a_configuration_that_breaks_a_rule_is_refused_with_its_field(
    values: Values, place: str, value: object
) -> None:
    change(values, place, value)
    with pytest.raises(DataError) as caught:
        lab_config_of(values, file="x")
    assert caught.value.field == place
    assert str(caught.value).startswith(f"{place}: ")
    assert "\n" not in str(caught.value)


def test_one_at_a_time_goes_with_fcfs_alone(values: Values) -> None:
    values["execution_mode"] = "single_active_fcfs"
    with pytest.raises(DataError, match="DecodeFirst does not go with execution_mode single_active_fcfs; use FCFS"):
        lab_config_of(values, file="x")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "is no JSON object"),
        ('{"a": 1, "a": 2}', "given twice"),
        ('{"a": NaN}', "is no number"),
        ("{", "malformed"),
    ],
)
def test_a_file_without_one_sound_object_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(DataError, match=reason) as caught:
        read_lab_config(path)
    assert caught.value.file == str(path)


# ── matrices ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def matrix_values(shared_data: Path) -> Values:
    found: Values = json.loads((shared_data / "serving-lab" / "configs" / "matrix_small.json").read_text())
    return found


def written(folder: Path, values: Values) -> Path:
    path = folder / "matrix.json"
    path.write_text(json.dumps(values))
    return path


@pytest.mark.parametrize(("name", "count"), [("small", 8), ("extended", 24)])
def test_published_matrices_find_their_configurations(shared_data: Path, name: str, count: int) -> None:
    root = shared_data / "serving-lab"
    path = root / "configs" / f"matrix_{name}.json"
    matrix = read_matrix(path)
    check_words(matrix, str(path))
    assert len(set(locate(matrix.configs, root, file=str(path)).values())) == count


@pytest.mark.parametrize(
    ("place", "value", "field"),
    [
        ("max_default_runs", 7, "max_default_runs"),
        ("configs", ["a.json", "b/a.json"], "max_default_runs"),
        ("command_manifest", "/x", "configs"),
        ("comparisons.scheduler.configs", ["nobody"], "comparisons.scheduler.configs"),
        ("comparisons.scheduler.metrics", [], "comparisons[...].metrics"),
        ("more", 1, "more"),
    ],
    ids=str,
)
def test_a_matrix_that_breaks_a_rule_is_refused(
    matrix_values: Values, tmp_path: Path, place: str, value: object, field: str
) -> None:
    change(matrix_values, place, value)
    with pytest.raises(DataError) as caught:
        read_matrix(written(tmp_path, matrix_values))
    assert caught.value.field == field


def test_two_configurations_of_one_name_are_refused(matrix_values: Values, tmp_path: Path) -> None:
    matrix_values["configs"][1] = "other/fcfs_chat_small.json"
    with pytest.raises(DataError, match="fcfs_chat_small stands there twice"):
        read_matrix(written(tmp_path, matrix_values))


def test_an_unknown_word_of_a_comparison_is_refused(matrix_values: Values, tmp_path: Path) -> None:
    matrix_values["comparisons"]["scheduler"]["metrics"] = ["ttfd"]
    with pytest.raises(DataError, match="ttfd is no metric"):
        check_words(read_matrix(written(tmp_path, matrix_values)), "x")


def test_selection_keeps_the_order_and_the_limit(shared_data: Path) -> None:
    matrix = read_matrix(shared_data / "serving-lab" / "configs" / "matrix_extended.json")
    chosen = select(matrix, ["kv_small", "decode_first"], MOST_RUNS)
    assert [Path(each).stem for each in chosen] == [
        Path(each).stem for each in matrix.configs if Path(each).stem in {"kv_small", "decode_first"}
    ]
    with pytest.raises(ConfigError, match="24 runs are more than 20"):
        select(matrix, [], MOST_RUNS)
    assert len(select(matrix, [], 24)) == 24
    with pytest.raises(ConfigError, match="--only nobody"):
        select(matrix, ["nobody"], MOST_RUNS)


def test_a_path_is_found_as_written_first(tmp_path: Path) -> None:
    for folder in ("a/b", "a", "b"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "x.json").write_text(folder)
    assert find_below(tmp_path, "a/b/x.json", file="f", field="p").read_text() == "a/b"
    (tmp_path / "a" / "b" / "x.json").unlink()
    assert find_below(tmp_path, "a/b/x.json", file="f", field="p").read_text() == "a"


def test_a_link_out_of_the_root_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text("{}")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "x.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(DataError, match="leads out of"):
        find_below(tmp_path / "root", "x.json", file="f", field="p")
