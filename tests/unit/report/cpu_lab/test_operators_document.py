import re

import pytest
from msgspec.structs import replace

from arriero.report.cpu_lab.folder import pictures_by_key
from arriero.report.cpu_lab.granularity_document import granularity_document
from arriero.report.cpu_lab.granularity_plots import granularity_drawn
from arriero.report.cpu_lab.operators_document import operators_document
from arriero.report.cpu_lab.operators_plots import operators_drawn
from arriero.report.document import Document, Fold, Picture, Table
from arriero.report.markdown import as_markdown
from tests.unit.record.cpu_lab.operator_files import granularity, packets_phase, phase, profile

LABEL = re.compile("PROFILED|MEASURED|MICROBENCHMARK")


def tables(document: Document) -> list[Table]:
    parts = [*document.lead, *(part for section in document.sections for part in section.parts)]
    folded = [inner for part in parts if isinstance(part, Fold) for inner in part.parts]
    return [part for part in (*parts, *folded) if isinstance(part, Table)]


@pytest.mark.parametrize(
    "document", [operators_document(profile(), {}), granularity_document(granularity(), {})], ids=["profile", "packets"]
)
def test_every_table_says_what_kind_of_figure_it_holds(document: Document) -> None:
    found = tables(document)
    assert found
    for table in found:
        assert LABEL.search(table.caption), table.caption
        assert all(len(row) == len(table.columns) for row in table.rows), table.caption


def test_groups_stand_beside_each_other_and_sum_up() -> None:
    text = as_markdown(operators_document(profile(), {}))
    assert "| output head | 1 | 0.060 | 64.5 % | 1 | 0.060 | 64.5 % |" in text
    assert "| MUL_MAT q4_1 | 2 | 0.090 | 96.8 % | 2 | 0.090 | 96.8 % |" in text
    assert "| all | 5 | 0.093 |  | 5 | 0.093 |  |" in text


def test_what_watching_costs_is_told_arm_by_arm() -> None:
    text = as_markdown(operators_document(profile(), {}))
    assert "| decode | no callbacks | 2 | 0.101 |  | same bits |" in text
    assert "| decode | each node as a graph of its own | 2 | 0.151 | 1.500 | other bits |" in text
    assert "nodes that compute nothing take 3.5 µs in prefill and 3.5 µs in decode" in text  # noqa: RUF001 - the sign of the unit


def test_structure_is_compared() -> None:
    text = as_markdown(operators_document(profile(), {}))
    assert "| nodes | 5 | 5 |" in text
    assert "| of these computed | 4 | 4 |" in text
    assert "| MUL_MAT | f32 576 × 8 | f32 576 | 2 |" in text  # noqa: RUF001 - the sign of multiplication


def test_host_and_roofline_have_their_tables() -> None:
    text = as_markdown(operators_document(profile(), {}))
    assert "| decode call | 90.5 | 90.5 |" in text
    assert "**Medians over 2 decode steps each (PROFILED); medians of parts" in text
    assert "| prefill | 8 | 0 | 0.0 | 0.00 | 18.0 | 0.020 | 0.050 | arithmetic | 0.100 | 50.0 % |" in text
    assert "| activations | 0.005 |" in text
    assert "| memory-read | avx2 | 2 | 20.0 | GB/s | 10.0 % |" in text
    assert "| int8-dot | avx2 | 2 | 1,000.0 | Gop/s | 10.0 % |" in text


def test_without_stamps_the_reader_is_warned() -> None:
    text = as_markdown(operators_document(profile(stamped=False, busy="others use 1.5 cores"), {}))
    assert "**Warning.** decode: no stamps here. Node times come from graphs of one node each" in text
    assert "**Warning.** Doubtful: others use 1.5 cores." in text


def test_one_phase_alone_is_a_report_too() -> None:
    alone = replace(profile(), phases=(phase("decode"),), host=None, roofline=None)
    text = as_markdown(operators_document(alone, pictures_by_key(operators_drawn(alone))))
    assert "there is nothing to compare" in text


def test_a_call_that_its_nodes_do_not_explain_is_told() -> None:
    sound = as_markdown(operators_document(profile(), {}))
    assert "the parts of a call explain" not in sound
    decode = phase("decode")
    slow = tuple(replace(arm, ns=tuple(2 * each for each in arm.ns)) for arm in decode.arms)
    text = as_markdown(operators_document(replace(profile(), phases=(replace(decode, arms=slow),)), {}))
    assert "**Warning.** decode: the parts of a call explain 49 % of it." in text


def test_dropped_calls_are_told() -> None:
    dropped = replace(profile(), phases=(replace(phase("decode"), dropped=3),))
    assert "decode: 3 calls did not fit the graph" in as_markdown(operators_document(dropped, {}))


def test_figures_of_a_profile() -> None:
    drawn = operators_drawn(profile())
    assert [each.key for each in drawn] == ["operators-families", "host-split", "roofline"]
    for picture in pictures_by_key(drawn).values():
        assert "</svg>" in picture.fragment
        assert LABEL.search(picture.caption)


def test_layers_are_drawn_where_there_are_several() -> None:
    deep = tuple(replace(node, layer=node.number) for node in phase("decode").nodes)
    found = operators_drawn(replace(profile(), phases=(replace(phase("decode"), nodes=deep),)))
    assert "operators-layers" in {each.key for each in found}


def test_packets_and_their_price() -> None:
    drawn = granularity_drawn(granularity())
    document = granularity_document(granularity(), pictures_by_key(drawn))
    assert any(isinstance(part, Picture) for part in document.lead)
    text = as_markdown(document)
    assert "| whole graph | 1 | 0.102 |" in text
    assert "| 1 | 5 | 0.114 | 0.113 to 0.118 | 11.8 % | 3.0 | 2.9 to 3.0 | not resolved | 0.1 | 0.2 | 0.3 |" in text
    assert "Cuts change bits of the logits." in text
    assert "callbacks: no C compiler." in text


def test_a_graph_that_was_never_cut_has_no_figure() -> None:
    whole = packets_phase("decode")
    assert granularity_drawn(replace(granularity(), phases=(replace(whole, arms=whole.arms[:1]),))) == ()
