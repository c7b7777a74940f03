from pathlib import Path

import pytest

from arriero.bench.schedule_work import fixed_work, load_work, repeated
from arriero.core.errors import BadWorkload, ConfigError
from arriero.workload.files import write_workload
from arriero.workload.notes import notes_of
from arriero.workload.records import WorkloadClass, WorkloadRecord


def record(name: str, at: int = 0, **more: object) -> WorkloadRecord:
    return WorkloadRecord(
        request_id=name, arrival_time_us=at, prompt_token_count=4, max_new_tokens=2,
        workload_class=WorkloadClass.CHAT, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def test_a_file_gives_its_requests_by_arrival_and_its_hash(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    written = write_workload(path, [record("b", 5), record("a", 1)])
    work = load_work(str(path))
    assert [each.request_id for each in work.records] == ["a", "b"]
    assert (work.name, work.sha256, work.settings) == ("w.jsonl", written.sha256, None)


def test_lengths_are_a_workload() -> None:
    work = load_work("120x64", count=3, seed=7)
    assert [(each.prompt_token_count, each.max_new_tokens) for each in work.records] == [(120, 64)] * 3
    assert work.take(5)[:3] == work.records
    assert len(load_work("8x8").records) == 100


def test_names_and_settings_files_are_workloads(tmp_path: Path) -> None:
    assert len(load_work("chat").records) == 8
    assert len(load_work("chat").take(20)) == 20
    path = tmp_path / "s.json"
    path.write_text('{"schema_version": "serving-workload-v1", "workload_class": "burst", "request_count": 3, '
                    '"seed": 1, "arrival": {"mode": "burst", "start_time_us": 0}}')  # fmt: skip
    assert [load_work(str(path)).name, len(load_work(str(path), count=5).records)] == ["s", 5]


@pytest.mark.parametrize("word", ["nothing", "nothing.jsonl", "nothing.toml", "0x4"])
def test_what_is_no_workload_is_one_line(word: str) -> None:
    with pytest.raises(BadWorkload):
        load_work(word)


def test_a_file_that_is_too_short_is_refused_unless_it_may_be_sent_again(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    write_workload(path, [record("a", 0), record("b", 10)])
    work = load_work(str(path))
    with pytest.raises(ConfigError, match="has 2 requests and the run needs 5"):
        work.take(5)
    taken = work.take(5, repeat=True)
    assert [each.request_id for each in taken] == ["a", "b", "a~2", "b~2", "a~3"]
    assert [each.arrival_time_us for each in taken] == [0, 10, 20, 30, 40]


def test_repeated_conversations_are_conversations_of_their_own() -> None:
    notes = {"session_id": "s", "turn": 1, "follows": "a", "think_time_us": 5}
    again = repeated([record("a"), record("b", 9, metadata={"arriero": notes, "x": 1})], 2)
    assert [each.request_id for each in again] == ["a~2", "b~2"]
    assert (notes_of(again[1]).session_id, notes_of(again[1]).follows) == ("s~2", "a~2")
    assert again[1].metadata is not None
    assert again[1].metadata["x"] == 1


def test_fixed_work_is_named_by_its_lengths() -> None:
    assert fixed_work(prompt_tokens=10, max_tokens=4, count=2).name == "10x4"
