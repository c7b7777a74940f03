from pathlib import Path

import msgspec
import pytest

from arriero.core.errors import DataError
from arriero.record.cpu_lab.machine_result import Ceiling, CeilingKind, encode_machine, read_machine
from tests.unit.lab.machine.machines import RESULT


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    path.write_bytes(encode_machine(RESULT))
    assert read_machine(path) == RESULT
    assert b'"evidence": "MICROBENCHMARK"' in path.read_bytes()


def test_a_ceiling_has_median_best_and_spread() -> None:
    ceiling = RESULT.ceilings[0]
    assert (ceiling.median, ceiling.best) == (11e9, 12e9)
    assert ceiling.spread == pytest.approx(2 / 11)


def test_the_best_ceiling_of_a_kind_is_found() -> None:
    best = RESULT.best_ceiling(CeilingKind.READ)
    assert best is not None
    assert best.threads == 2
    vnni = RESULT.best_ceiling(CeilingKind.INT8, 1)
    assert vnni is not None
    assert vnni.variant == "avx512_vnni"
    assert RESULT.best_ceiling(CeilingKind.INT8, 2) is None
    assert RESULT.best_ceiling(CeilingKind.TRIAD) is None


def test_units_follow_from_the_kind() -> None:
    assert {kind.unit for kind in (CeilingKind.READ, CeilingKind.COPY, CeilingKind.TRIAD)} == {"bytes/s"}
    assert {kind.unit for kind in (CeilingKind.INT8, CeilingKind.FP32)} == {"operations/s"}


@pytest.mark.parametrize("rates", ["[]", "[0]", "[-1.0]"])
def test_a_ceiling_without_a_rate_is_refused(rates: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(
            f'{{"kind": "memory-read", "variant": "stream", "threads": 1, "rates": {rates}}}', type=Ceiling
        )


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    path.write_text('{"schema": "arriero-lab-machine-v0"}')
    with pytest.raises(DataError):
        read_machine(path)
