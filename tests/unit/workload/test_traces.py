"""Published traces: every figure of their description, and strictness about their rows."""

import lzma
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from arriero.core.errors import BadWorkload
from arriero.workload.files import read_workload, write_workload
from arriero.workload.importing import Account, TraceImport
from arriero.workload.manifest import check_manifest
from arriero.workload.records import WorkloadRecord
from arriero.workload.settings import Vocabulary
from arriero.workload.summary import sharing_of, summarise
from arriero.workload.traces import TraceOptions, scaled

AZURE_HEADER = b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n"


def _take(kind: str, path: Path, **options: object) -> tuple[list[WorkloadRecord], Account]:
    given: dict[str, Any] = options
    trace = TraceImport(kind, path, TraceOptions(**given))
    records = list(trace.records())
    return records, trace.account()


def _azure(shared_data: Path) -> Path:
    return shared_data / "traces" / "azure_llm_2023_conv.csv.xz"


def _mooncake(shared_data: Path) -> Path:
    return shared_data / "traces" / "mooncake_synthetic_trace.jsonl.xz"


@pytest.mark.parametrize(("length", "factor", "expected"), [(1, 16, 1), (16, 16, 1), (17, 16, 2), (0, 4, 1), (5, 1, 5)])
def test_a_length_is_divided_rounded_up_and_never_below_one(length: int, factor: int, expected: int) -> None:
    assert scaled(length, factor) == expected


def test_the_conversation_trace_has_its_published_figures(shared_data: Path) -> None:
    records, account = _take("azure", _azure(shared_data))
    assert (account.num_rows, account.prompt_tokens, account.output_tokens) == (19_366, 22_361_870, 4_088_665)
    summary = summarise(records)
    assert summary.span_us == 3_501_721_937
    assert summary.burstiness == pytest.approx(1.09, abs=0.005)
    assert summary.prompts is not None
    prompts = summary.prompts
    assert (prompts.p50, prompts.p90, prompts.p99, prompts.greatest) == (1_020, 2_735, 4_142, 14_050)
    assert all(each.prompt_tokens is None for each in records)


def test_the_conversation_trace_scaled_by_16(shared_data: Path) -> None:
    records, account = _take("azure", _azure(shared_data), scale=16, speed=Fraction(2), context=512)
    assert account.num_left_out == 1
    assert account.span_us == 3_501_721_937 // 2
    summary = summarise(records)
    assert summary.prompts is not None
    assert (summary.prompts.p50, summary.prompts.p90, summary.prompts.p99) == (64, 171, 259)
    assert summary.outputs is not None
    assert (summary.outputs.p50, summary.outputs.p99, summary.outputs.greatest) == (9, 38, 63)


@pytest.mark.parametrize(("scale", "prompt_tokens", "left"), [(16, 3_826_521, 1_335_633), (64, 958_200, 335_388)])
def test_the_synthetic_trace_keeps_its_reuse_in_every_scale(
    shared_data: Path, scale: int, prompt_tokens: int, left: int
) -> None:
    records, account = _take("mooncake", _mooncake(shared_data), scale=scale)
    assert (account.num_taken, account.block_tokens) == (3_993, 512 // scale)
    assert account.prompt_tokens == prompt_tokens
    assert account.prompt_tokens - account.reusable_tokens == left
    # tokens share what ids share, and by chance a first token or two more
    shared = sharing_of(records).shared_tokens
    assert account.reusable_tokens <= shared < account.reusable_tokens + 100
    assert all(each.prompt_tokens is not None for each in records)


def test_equal_ids_are_equal_tokens_also_in_another_scale_and_slice(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    rows = [
        b'{"timestamp": 3, "input_length": 600, "output_length": 1, "hash_ids": [7, 8]}',
        b'{"timestamp": 3, "input_length": 1000, "output_length": 40, "hash_ids": [7, 9]}',
        b'{"timestamp": 9, "input_length": 600, "output_length": 3, "hash_ids": [7, 8]}',
    ]
    path.write_bytes(b"\n".join(rows))
    (first, second, third), account = _take("mooncake", path, scale=16, output_scale=1, verified=False)
    assert first.prompt_tokens is not None
    assert second.prompt_tokens is not None
    assert first.prompt_tokens == third.prompt_tokens
    assert first.prompt_tokens[:32] == second.prompt_tokens[:32]
    assert first.prompt_tokens[32:38] != second.prompt_tokens[32:38]
    assert [each.arrival_time_us for each in (first, second, third)] == [0, 0, 6000]
    assert [each.max_new_tokens for each in (first, second, third)] == [1, 40, 3]
    assert account.reusable_tokens == 32 + 38
    (coarse,), _ = _take("mooncake", path, scale=64, limit=1, verified=False)
    assert coarse.prompt_tokens is not None
    assert coarse.prompt_tokens[:8] == first.prompt_tokens[:8]


def test_an_import_has_a_manifest_that_agrees(shared_data: Path, tmp_path: Path) -> None:
    trace = TraceImport("mooncake", _mooncake(shared_data), TraceOptions(scale=64, limit=50), Vocabulary(size=100))
    path = tmp_path / "w.jsonl"
    written = write_workload(path, trace.records())
    manifest = trace.manifest(written.sha256)
    workload = read_workload(path)
    check_manifest(manifest, workload, run_seed=0)
    assert manifest.generator_config["import"]["scale"] == 64
    assert all(1000 <= token < 1100 for each in workload.records for token in each.prompt_tokens or ())


@pytest.mark.parametrize("scale", [3, 256, 512, 1024])
def test_a_scale_that_breaks_blocks_is_refused(shared_data: Path, scale: int) -> None:
    with pytest.raises(BadWorkload, match="use one of 1, 2, 4, 8, 16, 32, 64, 128") as caught:
        TraceImport("mooncake", _mooncake(shared_data), TraceOptions(scale=scale))
    assert caught.value.field == "scale"


def test_a_file_that_is_not_the_published_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(AZURE_HEADER)
    with pytest.raises(BadWorkload, match="not the published trace"):
        TraceImport("azure", path, TraceOptions())
    assert _take("azure", path, verified=False)[0] == []


@pytest.mark.parametrize("damage", ["cut", "flip", "plain"])
def test_a_damaged_archive_is_refused(shared_data: Path, tmp_path: Path, damage: str) -> None:
    raw = _azure(shared_data).read_bytes()
    damaged = {"cut": raw[:5000], "flip": raw[:9000] + b"xxxx" + raw[9004:], "plain": AZURE_HEADER}[damage]
    path = tmp_path / "t.csv.xz"
    path.write_bytes(damaged)
    with pytest.raises(BadWorkload, match="damaged xz file"):
        TraceImport("azure", path, TraceOptions(verified=False))


FIRST = b"2023-11-16 18:15:46.6805900,374,44\r\n"


@pytest.mark.parametrize(
    ("row", "field", "says"),
    [
        (b"2023-11-16 18:15:46.6805899,374,44", "TIMESTAMP", "earlier than the row before"),
        (b"2023-02-29 18:15:46.6805900,374,44", "TIMESTAMP", "is no time"),
        (b"2023-11-16 24:15:46.6805900,374,44", "TIMESTAMP", "is no time"),
        (b"2023-11-16 18:15:46.680590,374,44", "TIMESTAMP", "is no time"),
        (b"2023-11-16 18:15:47.6805900,3.5,44", "ContextTokens", "no count of tokens"),
        (b"2023-11-16 18:15:47.6805900,374,-4", "GeneratedTokens", "no count of tokens"),
        (b"2023-11-16 18:15:47.6805900,374,44,5", None, "has 4 columns"),
        (b"", None, "has 1 columns"),
    ],
    ids=count(),
)
def test_a_bad_csv_row_is_named_by_line_and_field(tmp_path: Path, row: bytes, field: str | None, says: str) -> None:
    path = tmp_path / "t.csv.xz"
    path.write_bytes(lzma.compress(AZURE_HEADER + FIRST + row + b"\n"))
    with pytest.raises(BadWorkload) as caught:
        _take("azure", path, verified=False)
    assert str(caught.value).startswith("CSV line 3: ")
    assert says in str(caught.value)
    assert (caught.value.line, caught.value.field, caught.value.file) == (3, field, str(path))


def test_a_bad_header_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(FIRST)
    with pytest.raises(BadWorkload, match="CSV line 1: the header must be TIMESTAMP"):
        _take("azure", path, verified=False)


GOOD = b'{"timestamp": 0, "input_length": 600, "output_length": 4, "hash_ids": [0, 1]}'


@pytest.mark.parametrize(
    ("row", "field", "says"),
    [
        (GOOD.replace(b": 600", b": 500"), "hash_ids", "has 2 ids, but 500 tokens are 1 blocks of 512"),
        (GOOD.replace(b"[0, 1]", b"[5, 1]"), "hash_ids", "hash_ids[1]: 1 stood elsewhere before"),
        (GOOD.replace(b"[0, 1]", b"[0, true]"), "hash_ids[1]", "expected `int`, got `bool`"),
        (GOOD.replace(b": 600", b": 0"), "input_length", "expected `int` >= 1"),
        (GOOD.replace(b"input_length", b"length"), None, "unknown field `length`"),
        (GOOD[:-1], None, "truncated"),
        (b" ", None, "blank; take the line out"),
    ],
    ids=count(),
)
def test_a_bad_json_row_is_named_by_line_and_field(tmp_path: Path, row: bytes, field: str | None, says: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(GOOD + b"\n" + row + b"\n")
    with pytest.raises(BadWorkload) as caught:
        _take("mooncake", path, verified=False)
    assert str(caught.value).startswith("JSONL line 2: ")
    assert says in str(caught.value)
    assert (caught.value.line, caught.value.field) == (2, field)


def test_rows_that_go_back_in_time_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(GOOD.replace(b": 0,", b": 9,") + b"\n" + GOOD)
    with pytest.raises(BadWorkload, match="JSONL line 2: timestamp: earlier than the row before"):
        _take("mooncake", path, verified=False)
