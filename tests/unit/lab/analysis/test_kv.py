"""KV types, contexts and slices."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.lab.analysis.kv import kv_scaling
from arriero.lab.analysis.slices import Shape, cut
from arriero.record.cpu_lab.analysis import SliceKind
from tests.unit.lab.analysis.matrix_rows import groups, row

A = [Shape(512, 256, 32), Shape(1024, 768, 32), Shape(2048, 1536, 32), Shape(4096, 3072, 32)]
B = [Shape(context, 256, 64) for context in (512, 1024, 2048, 4096)]
C = [Shape(4096, 512, answer) for answer in (16, 32, 64, 128, 256)]
GROWS = {
    SliceKind.JOINT: {"context", "prompt"}, SliceKind.CONTEXT: {"context"}, SliceKind.ANSWER: {"answer"},
}  # fmt: skip
SHAPES = st.lists(st.builds(Shape, st.integers(5, 9), st.integers(1, 4), st.integers(1, 4)), max_size=14, unique=True)


def test_the_published_shapes_fall_into_the_published_slices() -> None:
    found = cut([*A, *B, *C])
    assert [(chain.kind, list(chain.shapes)) for chain in found.chains] == [
        (SliceKind.JOINT, A),
        (SliceKind.CONTEXT, B),
        (SliceKind.ANSWER, C),
    ]
    assert found.alone == ()


@given(SHAPES)
def test_slices_are_disjoint_vary_what_they_say_and_do_not_depend_on_order(shapes: list[Shape]) -> None:
    found = cut(shapes)
    taken = [shape for chain in found.chains for shape in chain.shapes]
    assert sorted([*taken, *found.alone]) == sorted(shapes)
    assert len(set(taken)) == len(taken)
    for chain in found.chains:
        axes = dict(zip(("context", "prompt", "answer"), zip(*chain.shapes, strict=True), strict=True))
        rising = {name for name, values in axes.items() if all(a < b for a, b in pairwise(values))}
        held = {name for name, values in axes.items() if len(set(values)) == 1}
        assert rising == GROWS[chain.kind]
        assert held == {"context", "prompt", "answer"} - GROWS[chain.kind]
    assert cut(list(reversed(shapes))) == found


def test_a_grid_falls_into_slices_that_vary_one_thing() -> None:
    found = cut([Shape(context, prompt, 32) for context in (1024, 2048) for prompt in (128, 256)])
    assert [chain.kind for chain in found.chains] == [SliceKind.CONTEXT, SliceKind.CONTEXT]


def test_ratios_are_to_f16_at_the_very_same_workload() -> None:
    found = kv_scaling(
        groups(
            row(200.0, 10.0, peak_rss_kib=1000),
            row(100.0, 9.0, peak_rss_kib=900, kv_key="q8_0", kv_value="q8_0"),
            row(90.0, 9.0, context_size=1024, kv_key="q8_0", kv_value="q8_0"),
        )
    )
    assert found is not None
    ratios = [(cell.prefill_ratio, cell.decode_ratio, cell.rss_ratio) for cell in found.cells]
    assert ratios == [(1.0, 1.0, 1.0), (0.5, 0.9, 0.9), (None, None, None)]
    assert found.cells[2].reason == "f16/f16 was not measured at this workload"


def test_memory_grows_by_bytes_a_context_token_between_neighbours() -> None:
    found = kv_scaling(
        groups(
            row(context_size=512, peak_rss_kib=1000, kv_cache_bytes=512 * 30),
            row(context_size=1024, peak_rss_kib=1512, kv_cache_bytes=1024 * 30),
            row(context_size=2048, peak_rss_kib=1512),
        )
    )
    assert found is not None
    growth = found.slices[0].lines[0].growth
    assert [(each.from_context, each.to_context) for each in growth] == [(512, 1024), (1024, 2048)]
    assert growth[0].rss_bytes_per_token == pytest.approx(1024.0)
    assert growth[0].kv_bytes_per_token == pytest.approx(30.0)
    assert growth[1].rss_bytes_per_token == 0.0
    assert growth[1].kv_bytes_per_token is None


def test_settings_of_other_models_or_threads_are_never_in_one_slice() -> None:
    rows = [
        row(context_size=context, threads=threads, weights=weights, kv_key=kv, kv_value=kv)
        for context in (512, 1024)
        for threads in (1, 2)
        for weights in ("Q4_0", "Q8_0")
        for kv in ("f16", "q8_0")
    ]
    found = kv_scaling(groups(*rows))
    assert found is not None
    assert len(found.slices) == 4
    for each in found.slices:
        keys = [point.group.key for line in each.lines for point in line.points]
        assert len({(one.threads, one.model) for one in keys}) == 1
        assert [(line.kv_key, len(line.points)) for line in each.lines] == [("f16", 2), ("q8_0", 2)]


def test_one_type_at_one_context_compares_nothing() -> None:
    assert kv_scaling(groups(row(threads=1), row(threads=2))) is None
