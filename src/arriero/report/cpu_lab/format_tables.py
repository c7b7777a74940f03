"""Tables of model files: size and quality, speed at the very same workload, and who is on the front."""

from arriero.record.cpu_lab.analysis import FormatFile, Formats
from arriero.report.cpu_lab.cells import (
    change,
    labelled_caption,
    mean_of,
    number,
    percent,
    range_of,
    setting_cells,
    setting_heads,
    with_end,
    with_reasons,
)
from arriero.report.cpu_lab.fronts import placed
from arriero.report.cpu_lab.setting_words import Wording
from arriero.report.document import Column, Table
from arriero.report.written import UNDEFINED


def file_table(formats: Formats, evidence: str) -> Table:
    """Size and quality of each file."""
    heads = (
        Column("file", is_number=False), Column("format", is_number=False), Column("bytes"),
        Column("bytes / reference"), Column("smaller by"), Column("KL (nats)"), Column("perplexity"),
        Column("perplexity / quality reference"), Column("same answers"),
        Column("sha256", is_number=False, is_small=True),
    )  # fmt: skip
    rows = tuple(_file_row(file) for file in formats.files)
    reference = formats.reference or "none"
    return Table(heads, rows, f"Model files; reference of sizes and speeds: {reference} ({evidence})")


def format_table(formats: Formats, wording: Wording) -> Table:
    """Speed of each file at each workload, beside the reference at the same one."""
    columns = wording.columns()
    rows = tuple(
        (
            *setting_cells(columns, cell.group.key),
            number(mean_of(cell.group.prefill)),
            number(cell.prefill_ratio, ".3f"),
            change(cell.prefill_ratio),
            number(mean_of(cell.group.decode)),
            number(cell.decode_ratio, ".3f"),
            change(cell.decode_ratio),
        )
        for cell in formats.cells
    )
    heads = (
        *setting_heads(columns), Column("prefill (tokens/s)"), Column("prefill / reference"), Column("change"),
        Column("decode (tokens/s)"), Column("decode / reference"), Column("change"),
    )  # fmt: skip
    keys = (cell.group.key for cell in formats.cells)
    table = Table(heads, rows, labelled_caption("Speed at the very same workload, means", wording, keys))
    return with_reasons(table, [cell.reason for cell in formats.cells])


def pareto_table(formats: Formats, wording: Wording) -> Table:
    """What each file is among those of its workload."""
    columns = wording.columns()
    rows = tuple(
        (
            point.phase.value,
            *setting_cells(columns, point.key),
            number(point.num_bytes / 1e6, ",.1f"),
            number(point.rate),
            range_of(rate),
            number(point.kl_mean, ".4f"),
            standing.value,
        )
        for point, rate, standing in placed(formats)
    )
    heads = (
        Column("phase", is_number=False), *setting_heads(columns), Column("file (MB)"), Column("mean (tokens/s)"),
        Column("repetitions (tokens/s)"), Column("KL (nats)"), Column("standing", is_number=False),
    )  # fmt: skip
    keys = (point.key for point in formats.pareto)
    return Table(heads, rows, labelled_caption("Speed, size and quality", wording, keys))


def _file_row(file: FormatFile) -> tuple[str, ...]:
    quality = file.quality
    return (
        file.model,
        file.weights,
        number(file.num_bytes, ","),
        number(file.size_ratio, ".4f"),
        percent(file.reduction),
        UNDEFINED if quality is None else with_end(quality.kl_mean, quality.kl_high),
        number(None if quality is None else quality.perplexity, ".3f"),
        UNDEFINED if quality is None else with_end(quality.perplexity_ratio, quality.perplexity_ratio_high),
        percent(None if quality is None else quality.agreement, ".0f"),
        (file.sha256 or "unknown")[:12],
    )
