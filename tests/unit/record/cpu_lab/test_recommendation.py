"""Recommendations as files."""

from pathlib import Path

import msgspec
import pytest

from arriero.core.errors import DataError
from arriero.record.cpu_lab.recommendation import Mix, encode_recommendation, read_recommendation, recommendations_of
from tests.unit.record.cpu_lab.recommendations import run


def test_a_file_reads_back_as_it_was(tmp_path: Path) -> None:
    for number, each in enumerate(recommendations_of(run())):
        path = tmp_path / f"{number}.json"
        path.write_bytes(encode_recommendation(each))
        assert read_recommendation(path) == each


def test_each_file_has_its_own_counts_and_the_same_best() -> None:
    one, other = recommendations_of(run())
    assert (one.file, one.counts.words, one.best.name) == ("m.Q4_1.gguf", "1,2", "m.Q4_0.gguf")
    assert (other.file, other.counts.words, other.best.name) == ("m.Q4_0.gguf", "2", "m.Q4_0.gguf")


def test_another_machine_is_told_by_what_differs() -> None:
    one = recommendations_of(run())[0]
    assert one.differences({"cpu": "fast", "cores": "2"}) == []
    assert one.differences({"cpu": "fast", "cores": "4"}) == ["cores: 2 there, 4 here"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "malformed JSON"),
        ('{"schema_version": "arriero-recommendation-v2"}', "schema_version"),
        ('{"schema_version": "arriero-recommendation-v1", "file": "x", "run": {}, "more": 1}', "more|run"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_recommendation(path)


def test_a_file_that_speaks_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(encode_recommendation(msgspec.structs.replace(recommendations_of(run())[0], file="other.gguf")))
    with pytest.raises(DataError, match="has no choice for"):
        read_recommendation(path)


def test_the_objective_is_the_seconds_of_a_request() -> None:
    assert Mix(prompt_tokens=500, generated_tokens=100).seconds(250.0, 50.0) == 4.0


def test_how_much_faster_is_said_with_its_interval() -> None:
    judged = run().choices[0].judged
    assert judged is not None
    assert judged.faster == "1.25 times as fast (1.20 to 1.30)"
    assert msgspec.structs.replace(judged, low=None).faster == "1.25 times as fast"
    assert msgspec.structs.replace(judged, ratio=None).faster == "not measured"
