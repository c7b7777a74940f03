"""Settings, readings and records of soaks, as tests want them."""

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from arriero.bench.experiments.definition import read_definition
from arriero.bench.soak.plan import Kind
from arriero.bench.soak.records import GapSums, LegRecord, Reading, ServerRecord
from arriero.bench.soak.settings import SoakSettings
from arriero.bench.soak.state import SoakState
from arriero.metrics.client_life import ClientLife, Outcome

MS = 1_000_000
S = 1_000_000_000
MIB = 1 << 20
DEFINITION = Path(__file__).resolve().parents[4] / "definitions" / "soak.toml"


def settings(*, quick: bool = True, **over: Any) -> SoakSettings:  # noqa: ANN401 - fields of the settings
    return replace(read_definition(DEFINITION, SoakSettings, quick=quick), **over)


def reading(**over: Any) -> Reading:  # noqa: ANN401 - fields of a reading
    idle = Reading(
        is_well=True, resident_bytes=100 * MIB, files=20, threads=8, tasks=5, in_flight=0, answering=0, running=0,
        waiting=0, active_cells=0, retained_cells=30, swapped=0, sequences_held=0, sequences_quarantined=0,
        sequence_ids=4, requests=0,
    )  # fmt: skip
    return replace(idle, **over)


ENDS = {
    Kind.CLIENT: {Outcome.LENGTH: 5},
    Kind.LEFT: {Outcome.CANCELLED_BY_CLIENT: 2},
    Kind.BURST: {Outcome.LENGTH: 3, Outcome.REJECTED: 4},
    Kind.LONG: {Outcome.LENGTH: 1},
    Kind.SLOW: {Outcome.LENGTH: 1},
}


def leg(number: int = 0, **over: Any) -> LegRecord:  # noqa: ANN401 - fields of a leg
    """A leg in which everything happened as it should."""
    sound = LegRecord(
        number=number, server=1, seconds=60.0, ends=ENDS, asked=16, num_surprises=0, surprises=(), num_errors=0,
        counted=16, least_counted=15, most_counted=16, quiet=GapSums(count=10, total_ns=100 * MS, held_ns=100 * MS),
        beside=GapSums(), gap_p99_ns=None, first_p50_ns=5.0 * MS, visit_s=0.0, visit_cpu_s=0.0, longest_block_ns=0,
        after=reading(requests=16),
    )  # fmt: skip
    return replace(sound, **over)


def state(*legs: LegRecord, **over: Any) -> SoakState:  # noqa: ANN401 - fields of a state
    """A soak of as many legs as are given, all on one server that ended in order."""
    wanted = settings(minutes=len(legs) * 0.5 / 60)
    server = ServerRecord(number=1, before=reading(), how="terminated", status=0)
    return replace(SoakState(settings=wanted, legs=legs, servers=(server,)), **over)


def life(
    name: str = "r",
    outcome: Outcome = Outcome.LENGTH,
    *,
    moments: tuple[int, ...] = (),
    status: int | None = 200,
    error: str | None = None,
    sent_at: int | None = 0,
) -> ClientLife:
    return ClientLife(
        request_id=name, intended_at=None, sent_at=sent_at, closed_at=moments[-1] if moments else 1, outcome=outcome,
        asked_tokens=4, chunk_at=moments, chunk_tokens=(1,) * len(moments), status=status, error=error,
    )  # fmt: skip
