import pytest

from arriero.backend.protocol import BackendLimits
from arriero.core.errors import ConfigError
from arriero.costmodel.calibrated import StepKind, kind_of
from arriero.lab.shapes import Design, Probe


def limits(*, num_sequences: int = 8, rows: int = 512, tokens: int = 2048, unified: bool = False) -> BackendLimits:
    return BackendLimits(
        num_sequences=num_sequences,
        num_rows=rows,
        micro_batch=rows,
        num_cells=tokens * num_sequences,
        sequence_limit=tokens * num_sequences if unified else tokens,
        unified=unified,
        vocab_size=300,
    )


@pytest.mark.parametrize("num_sequences", [1, 2, 3, 8, 64, 256])
@pytest.mark.parametrize("rows", [256, 512])
@pytest.mark.parametrize("tokens", [64, 300, 4096])
@pytest.mark.parametrize("unified", [False, True])
def test_every_shape_fits_its_context(num_sequences: int, rows: int, tokens: int, unified: bool) -> None:  # noqa: FBT001
    context = limits(num_sequences=num_sequences, rows=rows, tokens=tokens, unified=unified)
    design = Design(context)
    probes = design.probes()
    assert len({probe.name for probe in probes}) == len(probes)
    for probe in probes:
        ids = [row.sequence_id for row in probe.rows]
        assert ids == sorted(set(ids))
        assert max(ids) < num_sequences
        assert sum(row.num_rows for row in probe.rows) <= rows
        assert not {number for number, _ in probe.others} & set(ids)
        for row in probe.rows:
            assert row.start >= 0
            assert row.start + row.num_rows * probe.repeats <= design.depth
        assert design.depth <= context.sequence_limit
        held = sum(row.start + row.num_rows * probe.repeats for row in probe.rows)
        assert held + sum(length for _, length in probe.others) <= context.num_cells


def kinds(probes: list[Probe]) -> set[StepKind]:
    return {kind_of(probe.rows) for probe in probes}


def test_every_kind_of_step_is_fitted_and_held_out() -> None:
    probes = Design(limits()).probes()
    assert kinds([probe for probe in probes if not probe.is_held_out]) == set(StepKind)
    assert kinds([probe for probe in probes if probe.is_held_out]) == set(StepKind)
    fitted = {probe.rows for probe in probes if not probe.is_held_out}
    assert not fitted & {probe.rows for probe in probes if probe.is_held_out}


def test_both_sides_of_a_tile_are_measured() -> None:
    sizes = {row.num_rows for probe in Design(limits()).probes() for row in probe.rows}
    assert {63, 64, 65, 512} <= sizes


def test_holes_matter_with_streams_and_company_in_a_pool() -> None:
    names = [probe.name for probe in Design(limits()).probes()]
    pooled = [probe.name for probe in Design(limits(unified=True)).probes()]
    assert any("of every" in name for name in names)
    assert not any("of every" in name for name in pooled)
    assert any("crowded" in name for name in pooled)
    assert not any("crowded" in name for name in names)


def test_a_context_without_room_is_refused() -> None:
    with pytest.raises(ConfigError, match="--ctx-size: a sequence can hold 63 tokens, and a calibration needs 64"):
        Design(limits(tokens=63))
