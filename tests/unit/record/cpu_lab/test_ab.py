from pathlib import Path

import msgspec
import pytest

from arriero.core.errors import DataError
from arriero.metrics.paired_verdict import Verdict
from arriero.record.bench_parts import Evidence
from arriero.record.cpu_lab.ab import AbResult, decode_ab, encode_ab, read_ab
from tests.unit.lab.ab.runs import made_result


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> AbResult:
    return made_result(tmp_path_factory.mktemp("run"))


def test_what_is_written_is_read_and_written_again_as_the_same_bytes(result: AbResult, tmp_path: Path) -> None:
    data = encode_ab(result)
    path = tmp_path / "ab.json"
    path.write_bytes(data)
    assert encode_ab(read_ab(path)) == data
    assert result.evidence is Evidence.END_TO_END


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"evidence": Evidence.MICROBENCHMARK}, "evidence: MICROBENCHMARK is not what whole programs give"),
        ({"error": "broken"}, "error: 'broken' does not fit the status done"),
        ({"verdict": None, "word": None}, "verdict: does not fit the status done"),
        ({"verdict": Verdict.BETTER, "word": "REJECT"}, "word: REJECT is not the word for better"),
        ({"metrics": ()}, "metrics: are not those of the manifest"),
        ({"num_pairs": 3}, r"metrics\[0\].ab: does not rest on 3 pairs"),
    ],
)
def test_a_result_that_contradicts_itself_is_refused(result: AbResult, change: dict[str, object], says: str) -> None:
    with pytest.raises(DataError, match=says):
        encode_ab(msgspec.structs.replace(result, **change))


def test_another_schema_and_a_cut_file_are_refused(result: AbResult) -> None:
    data = encode_ab(result)
    with pytest.raises(DataError, match="cut off"):
        decode_ab(data[:-20], file="ab.json")
    with pytest.raises(DataError, match="schema_version"):
        decode_ab(data.replace(b"arriero-ab-v1", b"arriero-ab-v9", 1), file="ab.json")
