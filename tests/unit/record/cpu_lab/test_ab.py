from pathlib import Path

import msgspec
import pytest

from arriero.core.errors import DataError
from arriero.metrics.paired_verdict import Verdict
from arriero.record.bench_parts import Evidence
from arriero.record.cpu_lab.ab import AbResult, Endings, SideEndings, StatusCount, decode_ab, encode_ab, read_ab
from arriero.record.cpu_lab.run_log import Status
from tests.unit.lab.ab.runs import made_result


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> AbResult:
    return made_result(tmp_path_factory.mktemp("run"))


def endings(status: Status, num_runs: int, num_repeated: int) -> Endings:
    """Of 8 runs of each variant, these of B are no success."""
    count = StatusCount(status=status, num_runs=num_runs, num_repeated=num_repeated)
    return Endings(a=SideEndings(num_runs=8, unsuccessful=()), b=SideEndings(num_runs=8, unsuccessful=(count,)))


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
        ({"num_aa_pairs": 1}, r"metrics\[0\].aa: does not rest on 1 pairs"),
        ({"endings": endings(Status.SUCCESS, 1, 0)}, r"endings\.b\.unsuccessful: counts a success"),
        ({"endings": endings(Status.FAILED, 9, 0)}, r"endings\.b\.num_runs: are fewer than those without success"),
        ({"endings": endings(Status.FAILED, 1, 2)}, r"endings\.b\.unsuccessful: more were repeated than there were"),
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


def test_the_floor_that_is_shown_falls_back_on_the_a_a_interval(result: AbResult) -> None:
    rate = result.metrics[0]
    assert rate.floor is not None
    assert rate.aa is not None
    assert rate.shown_floor == rate.floor.value
    interval = rate.aa.bootstrap.percentile
    without = msgspec.structs.replace(rate, floor=None)
    assert without.shown_floor == max(abs(interval.low), abs(interval.high)) / 100
    assert msgspec.structs.replace(without, aa=None).shown_floor is None
