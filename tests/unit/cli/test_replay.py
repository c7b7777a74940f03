"""`--journal FILE` and `arriero sim replay FILE`, in one process."""

from pathlib import Path

import pytest

from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.cli.listen import check_files
from arriero.cli.loading import engine_options
from arriero.cli.main import main
from arriero.cli.records import open_records
from arriero.core.config import ServeConfig
from arriero.core.errors import ConfigError
from arriero.engine.engine import Engine
from arriero.engine.placement import Dedicated

LIMIT_S = 20.0


def serve_some(file: Path, num_requests: int) -> None:
    """What `serve --journal FILE` does with its engine."""
    config = ServeConfig(journal=str(file), check=True)
    backend = SyntheticBackend(SyntheticOptions(num_sequences=2))
    options = engine_options(config, backend)
    with open_records(config, backend.limits, options) as records:
        engine = Engine(backend, options, observers=records.observers)
        engine.start(Dedicated())
        handles = [engine.submit([1, 2, 3], 5, end_tokens=frozenset()) for _ in range(num_requests)]
        for handle in handles:
            handle.wait(LIMIT_S)
        engine.shutdown()
        engine.join(LIMIT_S)


def test_a_journal_is_written_and_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "j.jsonl"
    serve_some(file, 3)
    serve_some(file, 1)  # appends
    assert main(["sim", "replay", str(file), "--check"]) == 0
    out = capsys.readouterr().out
    for part in ("identical", "2 runs", "4 requests", "0 cancels"):
        assert part in out
    file.write_bytes(b"\n".join(file.read_bytes().splitlines()[:-1]))
    assert main(["sim", "replay", str(file)]) == 0
    assert "1 of the runs have no end record" in capsys.readouterr().out


def test_a_damaged_journal_ends_with_status_2_and_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "j.jsonl"
    serve_some(file, 1)
    file.write_bytes(file.read_bytes()[:-9])
    assert main(["sim", "replay", str(file)]) == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert told[0].startswith(f"arriero: {file}: line ")
    assert ": damaged (" in told[0]


def test_a_journal_that_cannot_be_written_is_told_before_a_model_is_loaded(tmp_path: Path) -> None:
    file = tmp_path / "none" / "j.jsonl"
    with pytest.raises(ConfigError) as refused:
        check_files(ServeConfig(journal=str(file)))
    assert str(refused.value) == f"--journal {file}: no such file or directory; name a file that can be written"
