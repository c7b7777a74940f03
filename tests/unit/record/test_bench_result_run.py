from datetime import UTC, datetime, timedelta, timezone

from arriero.core.version import VERSION
from arriero.record.bench_result_run import run_facts
from arriero.record.provenance import code_sha256


def test_a_run_tells_command_code_and_versions_without_absolute_paths() -> None:
    facts = run_facts(
        ["/somewhere/bin/arriero", "bench", "run", "--model=/models/m.gguf"],
        started_at=datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC),
        seconds=1.5,
    )
    assert facts.command == ("arriero", "bench", "run", "--model=m.gguf")
    assert facts.started_at == "2026-01-02T03:04:05+00:00"
    assert (facts.version, facts.code_sha256, facts.was_interrupted) == (VERSION, code_sha256(), False)
    assert {"msgspec", "numpy"} <= set(facts.packages)


def test_the_wall_clock_is_stored_in_utc() -> None:
    east = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))
    assert run_facts([], started_at=east, seconds=0.0).started_at == "2026-01-02T01:04:05+00:00"
