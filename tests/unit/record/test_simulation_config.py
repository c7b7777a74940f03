from pathlib import Path

import msgspec
import pytest

from arriero.core.errors import DataError
from arriero.record.simulation_config import Blocks, Cells, Reuse, read_simulation_config

SMALLEST = """
schema_version = "arriero-simulation-v1"
name = "small"
[limits]
sequences = 4
rows = 512
[kv]
kind = "cells"
num_cells = 4096
[cost]
base_us = 4000
[workload]
path = "chat.jsonl"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "sim.toml"
    path.write_text(text)
    return path


def test_the_smallest_configuration_fills_in_the_rest(tmp_path: Path) -> None:
    config = read_simulation_config(written(tmp_path, SMALLEST))
    assert config.kv == Cells(num_cells=4096)
    assert (config.planner, config.policy, config.trace, config.seeds) == ("decode-first", "fcfs", "counts", [])
    assert config.limits.chunked_prefill


def test_blocks_and_a_generator_with_seeds(tmp_path: Path) -> None:
    text = SMALLEST.replace('path = "chat.jsonl"', 'generator = "chat.json"')
    text = text.replace('kind = "cells"\nnum_cells = 4096', 'kind = "blocks"\ntotal_blocks = 64\nblock_size = 16')
    config = read_simulation_config(written(tmp_path, text.replace('name = "small"', 'name = "s"\nseeds = [1, 2]')))
    assert config.kv == Blocks(total_blocks=64, block_size=16)
    assert config.seeds == [1, 2]


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('name = "small"', 'title = "small"', "title"),
        ('name = "small"', "", "name"),
        ('name = "small"', 'name = "s"\nplanner = "fifo"', "planner"),
        ('name = "small"', 'name = "s"\ntrace = "all"', "trace"),
        ('name = "small"', 'name = "s"\nseeds = [1]', "seeds"),
        ('kind = "cells"', 'kind = "pages"', "kv.kind"),
        ("num_cells = 4096", "num_cells = 4096\nsequence_limit = 5000", "kv.sequence_limit"),
        ("num_cells = 4096", 'num_cells = 4096\nlayout = "separate"\nsequence_limit = 2000', "kv.sequence_limit"),
        ("num_cells = 4096", 'num_cells = 3\nlayout = "separate"', "kv.num_cells"),
        ("num_cells = 4096", 'num_cells = 4096\nreuse = {scope = "global"}', "kv.reuse.scope"),
        ("num_cells = 4096", 'num_cells = 4096\nreuse = {session_reuse = "lcp"}', "kv.reuse.session_reuse"),
        ("rows = 512\n[kv]\n", "rows = 512\nchunked_prefill = false\n[kv]\nreuse = {}\n", "kv.reuse"),
        ("sequences = 4", "sequences = 0", "limits.sequences"),
        ("rows = 512", "rows = 3", "limits.rows"),
        (
            "rows = 512",
            "rows = 512\nchunked_prefill = false\nprefill_rows_per_step = 4",
            "limits.prefill_rows_per_step",
        ),
        (
            'kind = "cells"\nnum_cells = 4096',
            'kind = "blocks"\ntotal_blocks = 4\nblock_size = 4\nshare_within_step = true',
            "kv.share_within_step",
        ),
        ("sequences = 4", "sequences = true", "limits.sequences"),
        ("base_us = 4000", "base_us = -1", "cost.base_us"),
        ("base_us = 4000", "base_us = inf", "cost.base_us"),
        ("base_us = 4000", "", "cost"),
        ("base_us = 4000", 'base_us = 4000\nprofile = "p.json"', "cost"),
        ("base_us = 4000", 'profile = "p.json"\nprefill_row_us = 3', "cost"),
        ("base_us = 4000", "base_us = 4000\nthreads = [1, 2]", "cost"),
        ("base_us = 4000", 'profile = "p.json"\nthreads = [1, 2, 3]', "cost.threads"),
        ("rows = 512", "rows = 512\nitl_target_ms = 100", "limits.itl_target_ms"),
        ("rows = 512", "rows = 512\nitl_target_ms = 0", "limits.itl_target_ms"),
        ('path = "chat.jsonl"', "", "workload"),
        ('path = "chat.jsonl"', 'path = "a"\ngenerator = "b"', "workload"),
        ('path = "chat.jsonl"', 'generator = "b"\nmanifest_path = "c"', "workload.manifest_path"),
    ],
)
def test_what_breaks_a_rule_is_refused_with_its_field(tmp_path: Path, old: str, new: str, field: str) -> None:
    path = written(tmp_path, SMALLEST.replace(old, new))
    with pytest.raises(DataError) as caught:
        read_simulation_config(path)
    assert caught.value.file == str(path)
    assert caught.value.field == field
    assert "; " in str(caught.value)


def test_layout_and_reuse_decide_how_many_positions_a_sequence_has(tmp_path: Path) -> None:
    more = 'num_cells = 4096\nlayout = "separate"\nreuse = {retained = 4, host_tokens = 9}'
    config = read_simulation_config(written(tmp_path, SMALLEST.replace("num_cells = 4096", more)))
    assert isinstance(config.kv, Cells)
    assert config.kv.reuse == Reuse(retained=4, host_tokens=9)
    assert (config.kv.retained, config.kv.limit_of(4)) == (4, 512)
    unified = Cells(num_cells=4096, reuse=Reuse())
    assert (unified.retained, unified.limit_of(4)) == (56, 4096)
    assert Cells(num_cells=4096).retained == 0
    assert Cells(num_cells=4096, layout="separate", reuse=Reuse()).retained == 0


@pytest.mark.parametrize(
    ("new", "field", "says"),
    [
        ('policy = "fifo"', "policy", "is none of fcfs, priority, shortest-prefill, deadline, fair-share, longest"),
        ('policy = "orders:"', "policy", "no module:Class"),
        ('policy = "fair-share"\nplanner = "arrival-order"', "policy", 'fair-share goes with planner = "decode-first"'),
        ('policy = "longest-match"', "policy", "set kv.reuse, or kv.prefix_cache of blocks"),
        ("ageing_us = 5", "ageing_us", "goes with the policies priority, shortest-prefill and deadline"),
        ('policy = "fair-share"\nageing_us = 5', "ageing_us", "take it out"),
        ('policy = "priority"\nageing_us = -1', "ageing_us", ""),
    ],
)
def test_a_policy_that_cannot_work_is_refused_with_the_remedy(tmp_path: Path, new: str, field: str, says: str) -> None:
    with pytest.raises(DataError) as caught:
        read_simulation_config(written(tmp_path, f"{new}\n{SMALLEST}"))
    assert caught.value.field == field
    assert says in str(caught.value)


def test_ageing_is_ten_seconds_unless_it_is_said_and_stands_in_results_only_then(tmp_path: Path) -> None:
    usual = read_simulation_config(written(tmp_path, f'policy = "priority"\n{SMALLEST}'))
    assert usual.ageing == 10_000_000
    assert "ageing_us" not in msgspec.to_builtins(usual)
    other = read_simulation_config(written(tmp_path, f'policy = "deadline"\nageing_us = 7\n{SMALLEST}'))
    assert (other.ageing, msgspec.to_builtins(other)["ageing_us"]) == (7, 7)


@pytest.mark.parametrize("policy", ["mine:Order", "a.b_c.d:Order", "fair-share"])
def test_other_policies_are_named_by_their_word_or_their_class(tmp_path: Path, policy: str) -> None:
    assert read_simulation_config(written(tmp_path, f'policy = "{policy}"\n{SMALLEST}')).policy == policy
