import xml.etree.ElementTree as ET
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from arriero.metrics.symbol_families import Family
from arriero.record.cpu_lab.folded_stacks import FoldedStacks, clean_frame
from arriero.report.cpu_lab.flame_graph import COLOURS, boxes_of, flame_graph

STACKS = FoldedStacks((
    (("main [python3.11]", "_PyEval_EvalFrameDefault [python3.11]", "llama_decode [libllama.so]"), 10),
    (("main [python3.11]", "llama_decode [libllama.so]", "ggml_vec_dot_q4_0_q8_0 [libggml-cpu.so]"), 60),
    (("start_thread [libc.so.6]", "void f<int>(A&, B) [libggml-cpu.so]"), 30),
))
words = st.text(max_size=9).map(clean_frame)
frames = st.lists(words, min_size=1, max_size=5).map(tuple)


def folded(given_stacks: dict[tuple[str, ...], int]) -> FoldedStacks:
    return FoldedStacks(tuple(sorted(given_stacks.items())))


def test_every_family_has_a_colour_of_its_own() -> None:
    assert set(COLOURS) == set(Family)
    assert len(set(COLOURS.values())) == len(COLOURS)


def test_it_needs_nothing_but_itself_and_is_the_same_every_time() -> None:
    text = flame_graph(STACKS, "m.gguf, PROFILED & more")
    assert text == flame_graph(STACKS, "m.gguf, PROFILED & more")
    root = ET.fromstring(text)  # noqa: S314 - made by ourselves
    assert root.tag.endswith("svg")
    kinds = {each.tag.partition("}")[2] for each in root.iter()}
    assert kinds == {"svg", "title", "rect", "text", "g"}
    assert not any("href" in name or name.startswith("on") for each in root.iter() for name in each.attrib)
    assert text.count("http") == 1  # the name of the format


def test_whole_names_shares_and_families_show_on_hovering() -> None:
    text = flame_graph(STACKS, "title")
    assert "<title>ggml_vec_dot_q4_0_q8_0 [libggml-cpu.so]: 60.00 % (60), quantised dot product</title>" in text
    assert "void f&lt;int&gt;(A&amp;, B)" in text
    assert COLOURS[Family.QUANTISED_DOT] in text


def test_frames_of_the_interpreter_in_a_row_are_one() -> None:
    boxes = {(box.depth, box.word): box for box in boxes_of(STACKS)}
    assert boxes[1, "Python [interpreter]"].weight == 70
    assert boxes[2, "llama_decode [libllama.so]"].weight == 70


@given(st.dictionaries(frames, st.integers(1, 10**6), min_size=1, max_size=8))
def test_callees_lie_inside_of_their_callers_and_side_by_side(given_stacks: dict[tuple[str, ...], int]) -> None:
    stacks = folded(given_stacks)
    boxes = boxes_of(stacks)
    assert boxes[0].weight == stacks.weight
    for depth in {box.depth for box in boxes}:
        row = sorted((box for box in boxes if box.depth == depth), key=lambda box: box.start)
        assert all(one.start + one.weight <= other.start for one, other in pairwise(row))
        assert sum(box.weight for box in row) <= stacks.weight
    ET.fromstring(flame_graph(stacks, "title"))  # noqa: S314 - made by ourselves


def test_narrow_frames_are_left_out_and_told() -> None:
    stacks = FoldedStacks(((("a [x]",), 1), (("b [x]",), 10**6)))
    assert "1 that are narrower than 0.5 points are not" in flame_graph(stacks, "title")


def test_stacks_deeper_than_python_allows_are_drawn() -> None:
    deep = FoldedStacks(((tuple(f"f{number} [x]" for number in range(3000)), 5),))
    assert len(boxes_of(deep)) == 3001


def test_a_frame_without_a_name_has_the_family_of_its_caller() -> None:
    stacks = FoldedStacks(((("ggml_compute_forward_flash_attn_ext [a]", "function at 0x10 [a]"), 5),))
    assert boxes_of(stacks)[-1].family is Family.ATTENTION
