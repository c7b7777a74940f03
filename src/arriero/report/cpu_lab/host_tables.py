"""Tables of the host's part of a step."""

from collections.abc import Mapping
from statistics import median

from arriero.record.cpu_lab.host_split import HostPart, HostPoint, HostSplit
from arriero.report.document import Column, Part, Picture, Table, Text, present


def host_parts(split: HostSplit, pictures: Mapping[str, Picture]) -> tuple[Part, ...]:
    """The table of all parts, the picture, and how the two ways of measuring agree."""
    return present([
        pictures.get("host-split"),
        host_table(split),
        diagnostics_table(split),
        Text(
            "Parts are measured around the methods of a serving engine; what wraps them costs a quarter of a "
            "microsecond each and is in the rest, with messages, memory operations and totals. Delivery ends "
            "where a consumer is woken; detokenising and HTTP are not in an engine's step."
        ),
    ])


def host_table(split: HostSplit) -> Table:
    """Median of every part by number of sequences."""
    columns = (
        Column("part of a step", is_number=False),
        *(Column(f"{point.sequences} sequence{'s' * (point.sequences > 1)} (µs)") for point in split.points),  # noqa: RUF001
    )
    rows = [(part.value, *(f"{_part_us(point, part):,.1f}" for point in split.points)) for part in HostPart]
    rows.append(("whole step", *(f"{point.step_us:,.1f}" for point in split.points)))
    rows.append(("outside of the decode call", *(f"{point.host_us:,.1f}" for point in split.points)))
    rows.append(("its share of the step", *(f"{100 * point.host_us / point.step_us:.2f} %" for point in split.points)))
    counts = [f"{len(point.step_ns):,}" for point in split.points]
    steps = f"{counts[0]} decode steps each" if len(set(counts)) == 1 else f"{', '.join(counts)} decode steps"
    caption = f"Medians over {steps} ({split.evidence}); medians of parts do not sum up to that of the step"
    return Table(columns, tuple(rows), caption)


def diagnostics_table(split: HostSplit) -> Table:
    """The engine's own rows for the same steps."""
    columns = (
        Column("sequences"), Column("steps"), Column("`iter_wall_us`"), Column("`llama_decode_wall_us`"),
        Column("filling + call + fetch (µs)"),  # noqa: RUF001 - the sign of the unit
    )  # fmt: skip
    rows = tuple(
        (
            str(point.sequences),
            str(len(point.step_ns)),
            f"{median(point.iter_wall_us):,.1f}",
            f"{median(point.llama_decode_wall_us):,.1f}",
            f"{_around_call_us(point):,.1f}",
        )
        for point in split.points
    )
    return Table(columns, rows, f"The engine's own diagnostics of the same steps ({split.evidence}): medians")


def _part_us(point: HostPoint, part: HostPart) -> float:
    return next((each.median_us for each in point.parts if each.part is part), 0.0)


def _around_call_us(point: HostPoint) -> float:
    wanted = (HostPart.FILL, HostPart.CALL, HostPart.FETCH)
    columns = [each.ns for each in point.parts if each.part in wanted]
    return float(median(sum(step) for step in zip(*columns, strict=True))) / 1e3
