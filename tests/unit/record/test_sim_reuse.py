"""Results of runs that reuse prefixes: read back strictly, and every figure that others imply is compared."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from arriero.core.errors import DataError
from arriero.record.sim_file import read_sim_result
from arriero.record.sim_rows import encode_table
from tests.equivalence.test_reuse_counts import SHAPES, config_of, traffic_of
from tests.unit.record.sim_files import write_own

Row = dict[str, Any]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("trace", ["off", "counts", "full"])
def test_a_run_with_reuse_is_read_back(tmp_path: Path, name: str, trace: Any) -> None:  # noqa: ANN401 - a word
    records = traffic_of(name, random.Random(name).randint, 60, 200_000)
    path = tmp_path / "own.jsonl"
    written = write_own(path, replace(config_of(name), trace=trace), records)
    found = read_sim_result(path).summary
    assert json.dumps(found, sort_keys=True) == json.dumps(written, sort_keys=True)
    assert found["reuse"]["hits"]
    assert found["prefix_cache"]["cached_tokens"] <= sum(found["reuse"]["cached_tokens"].values())


def add(*names: str) -> Callable[[Row], None]:
    """One more than there was."""

    def change(summary: Row) -> None:
        place = summary
        for name in names[:-1]:
            place = place[name]
        place[names[-1]] += 1

    return change


DAMAGES: dict[str, tuple[Callable[[Row], None], str]] = {
    "prompt rows": (add("reuse", "prefill_rows"), "reuse.prefill_rows"),
    "hits": (add("reuse", "hits", "tree"), "reuse.hits"),
    "tokens": (add("reuse", "cached_tokens", "tree"), "reuse.cached_tokens"),
    "lookups": (add("reuse", "lookups", "reused"), "reuse.lookups"),
    "evictions by cause": (add("reuse", "evictions", "demand"), "evictions"),
    "evictions": (add("evictions"), "evictions"),
    "unknown": (lambda summary: summary["reuse"].update(colour=1), "reuse"),
    "no reuse at all": (lambda summary: summary.update(reuse=None), "reuse"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_figures_that_do_not_go_together_are_refused(tmp_path: Path, damage: str) -> None:
    change, field = DAMAGES[damage]
    records = traffic_of("unified", random.Random("damage").randint, 60, 3_000_000)  # too few to yield
    path = tmp_path / "own.jsonl"
    summary = write_own(path, replace(config_of("unified"), trace="counts"), records)
    assert summary["preemption"]["preemptions"] == 0
    lines = path.read_bytes().splitlines()
    row: Row = json.loads(lines[-1])
    change(row)
    path.write_bytes(b"".join(line + b"\n" for line in (*lines[:-1], encode_table(row))))
    with pytest.raises(DataError) as error:
        read_sim_result(path)
    assert str(error.value).startswith(f"line {len(lines)}: {field}")
