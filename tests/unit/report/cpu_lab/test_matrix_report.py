"""The report of a matrix: words, tables and figures over records made by hand."""

from pathlib import Path

import pytest
from matplotlib.container import ErrorbarContainer

from arriero.lab.analysis.matrix_analysis import KnownQuality, NamedRun, analyse
from arriero.metrics.standings import Standing
from arriero.record.bench_parts import Evidence
from arriero.record.cpu_lab.analysis import MatrixAnalysis, Quality
from arriero.record.cpu_lab.matrix import MatrixRecord
from arriero.record.cpu_lab.run_log import Status
from arriero.record.cpu_lab.worker import KvCacheType
from arriero.report.cpu_lab.folder import pictures_by_key, write_report
from arriero.report.cpu_lab.fronts import placed
from arriero.report.cpu_lab.matrix_document import all_keys, matrix_document
from arriero.report.cpu_lab.matrix_pictures import matrix_pictures
from arriero.report.document import Table
from arriero.report.house_style import BLUE, PAPER
from arriero.report.markdown import as_markdown
from tests.unit.lab.analysis.matrix_rows import SHA, record, stored
from tests.unit.report.pages import outline


def analysis(*records: MatrixRecord, quality: KnownQuality | None = None) -> MatrixAnalysis:
    return analyse([NamedRun(name="folder", sha256="5" * 64, run=stored(*records))], quality)


def threads() -> MatrixAnalysis:
    rates = {1: (50.0, 16.0), 2: (90.0, 28.0)}
    return analysis(
        record(1.0, phase="warmup"),
        record(status=Status.TIMED_OUT, repetition=9),
        *(
            record(prefill + wobble, decode + wobble, repetition, threads=number)
            for number, (prefill, decode) in rates.items()
            for repetition, wobble in ((1, -1.0), (2, 1.0))
        ),
    )


def formats() -> MatrixAnalysis:
    known = Quality(
        reference="m.F16.gguf", kl_mean=0.05, kl_high=0.06, perplexity=12.0, perplexity_ratio=1.02,
        perplexity_ratio_high=1.03, agreement=0.5, evidence=Evidence.MEASURED,
    )  # fmt: skip
    source = {"reference": "m.F16.gguf, requantised", "status": "interrupted"}
    quality = KnownQuality(of={SHA["Q4_0"]: known}, source=source)
    return analysis(record(200.0, 10.0, weights="F16"), record(100.0, 20.0, weights="Q4_0"), quality=quality)


def front(wobble: float) -> MatrixAnalysis:
    """Three files, each measured twice, as far from its mean as this."""
    rates = {"F16": 10.0, "Q8_0": 15.0, "Q4_0": 14.0}
    return analysis(*(
        record(100.0, rate + sign * wobble, repetition, weights=weights)
        for weights, rate in rates.items()
        for repetition, sign in ((1, -1), (2, 1))
    ))  # fmt: skip


def kv() -> MatrixAnalysis:
    return analysis(*(
        record(
            1000.0 / number, 20.0, 1, context_size=context, kv_key_type=kind, kv_value_type=kind,
            peak_rss_kib=context * number,
        )
        for context in (512, 1024)
        for number, kind in enumerate((KvCacheType.F16, KvCacheType.Q8_0), start=1)
    ))  # fmt: skip


def text(found: MatrixAnalysis) -> str:
    return as_markdown(matrix_document(found, {}))


def test_a_table_of_threads_has_speedup_and_efficiency() -> None:
    lines = text(threads()).splitlines()
    assert "| phase | threads | mean tokens/s | CV | speed-up | efficiency |" in lines
    assert "| prefill | 1 | 50.00 | 2.83 % | 1.000 | 1.000 |" in lines
    assert "| prefill | 2 | 90.00 | 1.57 % | 1.800 | 0.900 |" in lines
    assert "| decode | 2 | 28.00 | 5.05 % | 1.750 | 0.875 |" in lines


def test_what_is_in_no_figure_is_said_first() -> None:
    words = text(threads())
    assert "2 settings, 4 measured repetitions that succeeded. In no figure: 1 warm-up, 1 timed out." in words
    assert words.index("In no figure") < words.index("## ")


def test_what_is_the_same_everywhere_is_said_once() -> None:
    words = text(threads())
    assert "| prompt (tokens) | `128` |" in words
    assert "| KV | `f16/f16` |" in words
    assert "batch threads" not in words
    several = text(kv())
    assert "| threads | `1` |" in several
    assert "| KV |" not in several.partition("## ")[0]
    assert "sha256 |" not in text(formats()).partition("## ")[0]
    assert "| phase | threads | n | mean | median | min | max | SD | CV |" in words


def test_a_table_of_formats_has_size_speed_and_quality() -> None:
    words = text(formats())
    sizes = "| q4_0 | Q4_0 | 100,000 | 0.2500 | 75.00 % |"
    assert f"{sizes} 0.0500 (to 0.0600) | 12.000 | 1.0200 (to 1.0300) | 50 % | cccccccccccc |" in words
    assert "| q4_0 | 100.00 | 0.500 | -50.0 % | 20.00 | 2.000 | +100.0 % |\n" in words
    assert "| reference | `m.F16.gguf, requantised` |" in words
    assert "The quality file is not complete: interrupted." in words


def test_a_table_of_fronts_says_what_the_repetitions_resolve() -> None:
    apart, near = text(front(0.25)), text(front(1.0))
    assert "| phase | model | file (MB) | mean (tokens/s) | repetitions (tokens/s) | KL (nats) | standing |" in apart
    assert "| decode | f16 | 0.4 | 10.00 | 9.75 to 10.25 | \N{EN DASH} | beaten |" in apart
    assert "| decode | q8_0 | 0.2 | 15.00 | 14.75 to 15.25 | \N{EN DASH} | on the front |" in apart
    assert "| decode | q8_0 | 0.2 | 15.00 | 14.00 to 16.00 | \N{EN DASH} | not resolved |" in near
    assert "| decode | q4_0 | 0.1 | 14.00 | 13.00 to 15.00 | \N{EN DASH} | on the front |" in near
    assert "Where ranges overlap, the file is not resolved" in near


@pytest.mark.parametrize("wobble", [0.0, 0.25, 1.0, 4.0])
def test_pictures_and_analysis_agree_on_who_is_beaten(wobble: float) -> None:
    found = front(wobble).formats
    assert found is not None
    on_front = [point.on_front for point in found.pareto]
    assert [each.standing is not Standing.BEATEN for each in placed(found)] == on_front
    assert [each.point for each in placed(found)] == list(found.pareto)


def test_a_figure_of_a_front_shows_ranges_and_standings() -> None:
    found = front(1.0)
    (drawn,) = (each for each in matrix_pictures(found, all_keys(found)) if each.key == "pareto-1")
    decode = drawn.figure.axes[1]
    ranges = [
        tuple(float(end) for _, end in container[2][0].get_segments()[0])
        for container in decode.containers
        if isinstance(container, ErrorbarContainer)
    ]
    assert ranges == [(9.0, 11.0), (14.0, 16.0), (13.0, 15.0)]
    points = [line for line in decode.lines if line.get_marker() == "o"]
    fills = [(point.get_fillstyle(), point.get_markerfacecolor()) for point in points]
    assert fills == [("full", PAPER), ("left", BLUE), ("full", BLUE)]


def test_points_of_a_front_are_named_by_their_format_where_that_is_enough() -> None:
    def labels(*records: MatrixRecord) -> list[str]:
        found = analysis(*records)
        (drawn,) = (each for each in matrix_pictures(found, all_keys(found)) if each.key == "pareto-1")
        return [text.get_text() for text in drawn.figure.axes[0].texts]

    long, other = "SmolLM2-135M-Instruct.Q4_0", "another"
    f16, q4_0 = record(weights="F16"), record(weights="Q4_0", model_logical_id=long)
    assert labels(f16, q4_0) == ["F16", "Q4_0"]
    again = record(weights="Q4_0", model_logical_id=other, model_sha256="7" * 64, invocation_id="other")
    assert labels(q4_0, again) == [long, f"{other} Q4_0"]


def test_one_repetition_has_no_spread() -> None:
    words = text(formats())
    assert "| decode | q4_0 | 1 | 20.00 | 20.00 | 20.00 | 20.00 | \N{EN DASH} | \N{EN DASH} |" in words
    assert "| decode | f16 | 0.4 | 10.00 | \N{EN DASH} | \N{EN DASH} | not resolved |" in words


def test_a_ratio_that_is_missing_has_its_reason_and_no_column_is_there_for_none() -> None:
    assert "why no ratio" not in text(formats())
    words = text(analysis(record(weights="F16"), record(weights="Q4_0"), record(weights="Q4_0", threads=2)))
    (row,) = (line for line in words.splitlines() if "the reference was not measured at this workload" in line)
    assert row.startswith("| q4_0 | 2 | 100.00 | \N{EN DASH} | \N{EN DASH} |")
    assert words.count("| why no ratio |") == 1


def test_where_quality_was_not_measured_it_is_said_and_never_0() -> None:
    words = text(analysis(record(weights="F16"), record(weights="Q4_0")))
    assert "No quality was given" in words
    assert "| q4_0 | Q4_0 | 100,000 | 0.2500 | 75.00 % | \N{EN DASH} | \N{EN DASH} |" in words


def test_a_slice_has_ratios_and_memory_growth() -> None:
    words = text(kv())
    assert "B: the context grows, prompt and answer are fixed (MEASURED)" in words
    row = "| q8_0/q8_0 | 1,024 | 128 | 32 | 500.00 | 0.500 | 20.00 | 1.000 | 2,048 | 2.000 | 2,048 | \N{EN DASH} |"
    assert row in words


def test_every_table_carries_its_evidence() -> None:
    for found in (threads(), formats(), kv()):
        made = matrix_document(found, {})
        tables = [part for section in made.sections for part in section.parts if isinstance(part, Table)]
        assert tables
        assert all("MEASURED" in table.caption for table in tables)
    simulated = analysis(record(), record(evidence=Evidence.SIMULATED, threads=2))
    words = text(simulated)
    assert "different kinds of evidence" in words
    assert "(MEASURED and SIMULATED)" in words
    assert "| phase | evidence | threads | n |" in words


def test_machine_and_versions_are_on_the_page() -> None:
    words = text(threads())
    for each in ("a CPU", "avx2", "sha256 of run.jsonl", "ffffffff", "These figures hold for this machine"):
        assert each in words


@pytest.mark.parametrize(
    ("found", "keys"),
    [
        (threads(), ["threads-1"]),
        (formats(), ["formats-1", "pareto-1"]),
        (kv(), ["kv-1"]),
        (analysis(record(prompt_tokens=64), record(prompt_tokens=128)), ["lengths-prefill-1"]),
    ],
)
def test_each_analysis_has_its_figures(found: MatrixAnalysis, keys: list[str], tmp_path: Path) -> None:
    drawn = list(matrix_pictures(found, all_keys(found)))
    assert [each.key for each in drawn] == keys
    made = matrix_document(found, pictures_by_key(drawn))
    paths = write_report(made, drawn, tmp_path)
    assert [path.stem for path in paths[2:]] == keys
    assert set(keys) <= set(outline(paths[1].read_text()).ids)


def test_points_of_different_slices_are_never_connected() -> None:
    shapes = [(512, 256, 32), (1024, 768, 32), (2048, 256, 64), (4096, 256, 64)]
    found = analysis(*(
        record(context_size=context, prompt_tokens=prompt, generated_tokens=answer)
        for context, prompt, answer in shapes
    ))  # fmt: skip
    drawn = [each for each in matrix_pictures(found, all_keys(found)) if each.key.startswith("kv-")]
    lines = [
        sorted(float(at) for at in container[0].get_xdata())
        for each in drawn
        for container in each.figure.axes[0].containers
        if isinstance(container, ErrorbarContainer)
    ]
    assert lines == [[512.0, 1024.0], [2048.0, 4096.0]]
