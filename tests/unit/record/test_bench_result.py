import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from arriero.core.errors import ConfigError, DataError
from arriero.metrics.client_summary import summarise
from arriero.metrics.definitions import DEFINITIONS
from arriero.metrics.validity import Flag
from arriero.record.bench_parts import Evidence
from arriero.record.bench_result import (
    SCHEMA,
    BenchResult,
    decode_result,
    encode_result,
    read_result,
    why_not_comparable,
    write_result,
)
from tests.unit.metrics.client_lives import steady
from tests.unit.record.bench_files import late_point, lives, point, replace_struct, result


def refused(text: bytes) -> str:
    with pytest.raises(DataError) as caught:
        decode_result(text, file="r.json")
    assert caught.value.file == "r.json"
    assert "\n" not in str(caught.value)
    return str(caught.value)


def changed(path: str, value: Any, *, of: BenchResult | None = None) -> bytes:  # noqa: ANN401 - any JSON
    """The file of a result with one value put elsewhere; `path` as in error messages."""
    values = json.loads(encode_result(result() if of is None else of))
    at = values
    *way, last = path.replace("[", ".[").split(".")
    for step in way:
        at = at[int(step[1:-1])] if step.startswith("[") else at[step]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return json.dumps(values).encode()


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_validity_is_the_first_thing_in_the_file() -> None:
    assert encode_result(result()).startswith(b'{\n"validity":{"flag":"')


def test_a_line_for_each_field_each_point_and_each_life() -> None:
    lines = encode_result(result(point(), point(keep=False))).splitlines()
    assert sum(line.startswith(b'{"request_id"') for line in lines) == len(lives())
    assert sum(line.startswith(b'{"validity"') for line in lines) == 2
    assert all(json.loads(line.rstrip(b",")) for line in lines if line.startswith(b'{"request_id"'))


def test_the_same_result_gives_the_same_bytes_and_comes_back_equal() -> None:
    text = encode_result(result())
    back = decode_result(text, file="r.json")
    assert back == result()
    assert encode_result(back) == text
    assert encode_result(result()) == text


def test_keys_of_tables_ascend_whatever_order_they_came_in() -> None:
    one = result(point(setting={"b": 1, "a": 2}))
    other = result(point(setting={"a": 2, "b": 1}))
    assert encode_result(one) == encode_result(other)


def test_whole_numbers_in_fields_of_floats_are_written_as_floats() -> None:
    run = replace_struct(result().run, seconds=12)
    text = encode_result(replace_struct(result(), run=run))
    assert b'"seconds":12.0' in text
    assert encode_result(decode_result(text, file="r.json")) == text


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_a_number_that_json_does_not_have_is_refused(bad: float) -> None:
    with pytest.raises(DataError, match=r"points\[0\].setting.rate: (inf|nan) is no number of a file"):
        encode_result(result(point(setting={"rate": bad})))


def test_a_value_of_another_type_is_refused_before_it_is_written() -> None:
    wrong = replace_struct(result().run, seconds="long")
    with pytest.raises(DataError, match=r"run\.seconds"):
        encode_result(replace_struct(result(), run=wrong))


def test_a_file_is_put_in_place_whole(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    write_result(path, result())
    write_result(path, result())
    assert read_result(path) == result()
    assert [each.name for each in tmp_path.iterdir()] == ["r.json"]


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        write_result(tmp_path / "missing" / "r.json", result())
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match="cannot be written"):
        write_result(tmp_path / "folder", result())
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or directory; name a result file"):
        read_result(tmp_path / "none.json")


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_file_that_is_cut_off_says_so(share: float) -> None:
    text = encode_result(result())
    said = refused(text[: int(share * len(text))])
    assert "cut off" in said or "malformed JSON" in said


def test_every_cut_is_refused() -> None:
    text = encode_result(result(point(keep=False)))
    for end in range(0, len(text) - 2, 97):
        assert refused(text[:end])


def test_an_empty_file_is_no_result() -> None:
    assert refused(b" \n") == "the file is empty; name a result file"


def test_another_version_is_named() -> None:
    said = refused(changed("schema_version", "arriero-bench-v2"))
    assert said.startswith(f"schema_version: 'arriero-bench-v2' is not {SCHEMA}")
    assert refused(b'{"a": 1}').startswith(f"schema_version: None is not {SCHEMA}")
    assert refused(b"[1, 2}").startswith("malformed JSON")


@pytest.mark.parametrize(
    "path",
    [
        "extra",
        "run.extra",
        "validity.extra",
        "validity.limits.valid.extra",
        "points[0].extra",
        "points[0].summary.latency.finished.ttft_ns.extra",
        "points[0].lives[1].extra",
    ],
)
def test_an_unknown_field_is_refused_at_every_depth(path: str) -> None:
    said = refused(changed(path, 1))
    assert said.startswith(f"{path}: unknown field")


@pytest.mark.parametrize(
    "path", ["run", "points", "validity.flag", "points[0].summary.counts", "points[0].lives[0].outcome"]
)
def test_a_missing_field_is_named(path: str) -> None:
    said = refused(changed(path, ...))
    assert path.rsplit(".", maxsplit=1)[-1] in said
    assert "missing" in said


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("evidence", "GUESSED"),
        ("run.seconds", "long"),
        ("run.code_sha256", "abc"),
        ("points[0].schedule.num_requests", -1),
        ("points[0].lives[0].outcome", "vanished"),
        ("target.kind", "carrier pigeon"),
        ("points", []),
        ("points[0].lives[0].sent_at", 1.5),
    ],
)
def test_an_impossible_value_is_named(path: str, value: object) -> None:
    assert refused(changed(path, value)).startswith(path.replace("[", "[").split(".lives")[0].split("[")[0])


def test_a_name_that_stands_twice_is_refused() -> None:
    text = encode_result(result()).replace(b'"evidence"', b'"evidence":"MEASURED",\n"evidence"', 1)
    assert "twice" in refused(text)


# ── agreement ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_figures_have_to_follow_from_the_lives() -> None:
    said = refused(changed("points[0].summary.counts.finished", 1))
    assert said == "points[0].summary.counts: does not follow from the lives; run again"
    moved = json.loads(encode_result(result()))["points"][0]["lives"][1]["chunk_at"]
    said = refused(changed("points[0].lives[1].chunk_at", [at + 1 for at in moved]))
    assert said == "points[0].summary.latency: does not follow from the lives; run again"


def test_the_flag_is_that_of_the_least_trustworthy_point() -> None:
    both = result(point(), late_point())
    assert both.validity.flag is Flag.INVALID
    assert decode_result(encode_result(both), file="r.json") == both
    with pytest.raises(DataError, match="validity: is not that of the least trustworthy point"):
        encode_result(replace_struct(both, validity=point().validity))


def test_a_flag_without_its_reasons_is_refused() -> None:
    assert refused(changed("points[0].validity.reasons", [], of=result(late_point()))).startswith(
        "points[0].validity.reasons: 0 reasons do not fit the flag invalid"
    )


def test_a_view_of_other_words_is_not_kept() -> None:
    view = summarise(lives(), definitions=DEFINITIONS["vllm"])
    with pytest.raises(DataError, match="'vllm' is a view of other words"):
        encode_result(result(point(summary=view)))


def test_lives_are_kept_or_not_kept() -> None:
    bare = point(keep=False)
    assert decode_result(encode_result(result(bare)), file="r.json").points[0].lives == ()
    with pytest.raises(DataError, match="keeps_lives: false, but there are lives"):
        encode_result(result(replace_struct(point(), keeps_lives=False)))


def test_a_simulated_result_says_so_and_no_other_does() -> None:
    simulated = replace_struct(result().target, kind="simulated")
    both = replace_struct(result(), target=simulated, evidence=Evidence.SIMULATED)
    assert decode_result(encode_result(both), file="r.json").evidence is Evidence.SIMULATED
    for wrong in (replace_struct(both, evidence=Evidence.END_TO_END), replace_struct(both, target=result().target)):
        with pytest.raises(DataError, match=r"evidence: .* does not fit the .* target arriero"):
            encode_result(wrong)


def test_an_invalid_result_is_never_compared() -> None:
    assert why_not_comparable(result(point([steady("r", 1.0)]))) is None
    why = why_not_comparable(result(late_point()))
    assert why is not None
    assert why.startswith("is invalid (requests left late: longest send lag 3,000.0 ms (n = 5), more than ")


def test_structs_are_closed_and_frozen() -> None:
    with pytest.raises(AttributeError):
        result().run.seconds = 1.0  # type: ignore[misc]
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"n": 1, "p50_ns": 1, "p99_ns": 1, "max_ns": 1, "more": 1}, type(result().calibration.ttft_ns))  # type: ignore[union-attr]
