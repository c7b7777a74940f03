"""Raw records of the context pool: every request of a run on one line."""

import json
from collections.abc import Mapping
from typing import Final

import msgspec

from arriero.bench.fifo_pool_figures import pool_figures
from arriero.bench.fifo_pool_request import PoolLife
from arriero.bench.fifo_pool_runners import PoolRun

COLUMNS: Final = ("number", "budget", "outcome", "asked", "started", "first", "ended", "context", "hash")


def run_line(run: PoolRun, about: Mapping[str, object]) -> bytes:
    """One run with its figures; moments in ns from its begin.

    Args:
        run: that has ended.
        about: what tells it from others.
    """
    line = {
        **about,
        "figures": msgspec.to_builtins(pool_figures(run)),
        "columns": COLUMNS,
        "lives": [_life(life, run.began_at) for life in run.lives],
    }
    return json.dumps(line, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def _life(life: PoolLife, origin: int) -> list[int | str | None]:
    return [
        life.number,
        life.budget,
        str(life.outcome),
        life.asked_at - origin,
        None if life.started_at is None else life.started_at - origin,
        None if life.first_at is None else life.first_at - origin,
        life.ended_at - origin,
        life.context,
        f"0x{life.token_hash:016x}",
    ]
