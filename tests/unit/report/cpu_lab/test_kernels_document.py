from arriero.report.cpu_lab.folder import pictures_by_key
from arriero.report.cpu_lab.kernels_document import kernels_document
from arriero.report.cpu_lab.kernels_plots import kernels_drawn, ratio_lines
from arriero.report.cpu_lab.variant_document import variant_document
from arriero.report.document import Picture
from arriero.report.markdown import as_markdown
from tests.unit.record.cpu_lab.kernel_files import candidate, kernels_result, skipped, variant_result


def test_every_table_of_times_says_what_kind_of_figure_it_holds() -> None:
    text = as_markdown(kernels_document(kernels_result(), {}))
    assert text.startswith("# Extracted kernels\n\nMICROBENCHMARK · ")
    assert "**Verdicts (MICROBENCHMARK): a candidate stops at its first failed gate**" in text
    assert "**Time of one call (MICROBENCHMARK)" in text
    assert "says nothing about its speed" in text


def test_a_verdict_stands_beside_its_reason() -> None:
    text = as_markdown(kernels_document(kernels_result(candidate(passed=False), skipped()), {}))
    assert (
        "| q8-tile | converts both scales at once | gcc 12.2.0 | 1 | rejected | time: not faster everywhere |" in text
    )
    assert "| skipped | clang is not on this machine |" in text


def test_times_stand_beside_their_ratio_and_interval() -> None:
    text = as_markdown(kernels_document(kernels_result(), {}))
    assert "| 28 | baseline | 205.0 | 200.0 | 2.44 % |  |  | yes | 0 |" in text
    assert "| 28 | candidate | 102.5 | 100.0 | 2.44 % | 2.000 | 2.000 to 2.000 | yes | 0 |" in text
    assert "| 28 | ggml: vec_dot | 91.0 |" in text
    assert "take no part in any ratio" in text
    assert "**Gates of the candidate (results compared; the gate of time is a MICROBENCHMARK)**" in text
    assert "relative to the sum of the absolute terms" in text
    assert "| ggml's matrix kernel, depth 28 | passed | 20 tiles |" in text
    assert "| `q8_tile` | 400 → – | 80 → 78 | – | 2 vbroadcastss, 1 vcvtph2ps | 1 vshufps |" in text  # noqa: RUF001 - as it is shown


def test_doubts_come_first() -> None:
    text = as_markdown(kernels_document(kernels_result(busy="others use 1.5 cores", is_quick=True), {}))
    assert "**Warning.** Doubtful: others use 1.5 cores." in text
    assert "**Warning.** A quick run" in text


def test_the_figure_has_a_row_for_each_size() -> None:
    result = kernels_result()
    lines = ratio_lines(result)
    assert [line.label for line in lines] == ["q8-tile, gcc, 28 blocks"]
    assert lines[0].value == 2
    assert len(lines[0].by_repetition) == 3
    drawn = kernels_drawn(result)
    document = kernels_document(result, pictures_by_key(drawn))
    (picture,) = (part for part in document.lead if isinstance(part, Picture))
    assert picture.caption.startswith("MICROBENCHMARK")
    assert "</svg>" in picture.fragment


def test_nothing_timed_is_nothing_drawn() -> None:
    assert kernels_drawn(kernels_result(skipped())) == ()


def test_a_variant_is_told_with_its_symbols_hashes_and_checks() -> None:
    text = as_markdown(variant_document(variant_result()))
    assert text.startswith("# Variant: packed-scale\n\nMEASURED · baseline: loads · variant: not tried")
    assert "no times" in text
    assert "200 objects, 1 compiled again, 1 with other bytes." in text
    assert "`b.cpp.o`: 1 symbols differ." in text
    assert "| `libggml-cpu.so.0` | 10 | 12 | differs |" in text
    assert "| `libggml.so.0` | 10 | 10 | the same |" in text
    assert "compiled for AVX2" in text


def test_an_edit_without_effect_is_the_first_thing_said() -> None:
    text = as_markdown(variant_document(variant_result(symbols=())))
    assert "**Attention.** The edit reaches no machine code" in text
    assert "the same instructions: something else in the file differs" in text
