"""Tables of a roofline: the bound of each call, the work behind it, and the ceilings."""

from collections.abc import Mapping
from typing import Final

from arriero.record.cpu_lab.machine_result import CeilingKind
from arriero.record.cpu_lab.roofline import PhaseRoofline, Roofline
from arriero.report.document import Column, Part, Picture, Table, Text, present
from arriero.report.written import UNDEFINED

_HOW: Final = (
    "A call cannot be shorter than its bytes take at the measured bandwidth, nor than its operations take at the "
    "measured peaks; the longer of the two is the bound, and bound / measured is what was achieved. Weights and KV are "
    "counted as read from memory once a call. A model that lies in the last-level cache can beat a bound of memory."
)


def roofline_parts(roofline: Roofline, pictures: Mapping[str, Picture]) -> tuple[Part, ...]:
    """The bound, the picture, the work, the ceilings."""
    return present([
        pictures.get("roofline"),
        bound_table(roofline),
        Text(_HOW),
        *(work_table(phase, roofline) for phase in roofline.phases),
        ceilings_table(roofline),
    ])


def bound_table(roofline: Roofline) -> Table:
    """One row a phase."""
    columns = (
        Column("phase", is_number=False), Column("rows"), Column("context (tokens)"), Column("MB"),
        Column("G operations"),
        Column("operations / byte"), Column("by memory (ms)"), Column("by arithmetic (ms)"),
        Column("binding", is_number=False), Column("measured (ms)"), Column("achieved"), Column("GB/s"),
        Column("G operations/s"),
    )  # fmt: skip
    rows = tuple(
        (
            each.phase, f"{each.rows:,}", f"{each.context:,}", f"{each.bytes / 1e6:,.1f}",
            f"{each.operations / 1e9:,.2f}",
            UNDEFINED if each.intensity is None else f"{each.intensity:,.1f}", f"{each.memory_ns / 1e6:,.3f}",
            f"{each.arithmetic_ns / 1e6:,.3f}", each.binding.value, f"{each.measured_ns / 1e6:,.3f}",
            f"{100 * each.achieved:.1f} %", f"{each.bytes / each.measured_ns:,.1f}",
            f"{each.operations / each.measured_ns:,.1f}",
        )
        for each in roofline.phases
    )  # fmt: skip
    caption = f"Bound and achieved share of one call ({roofline.evidence}, ceilings {roofline.ceilings_evidence})"
    return Table(columns, rows, caption)


def work_table(phase: PhaseRoofline, roofline: Roofline) -> Table:
    """What a call reads and computes, by kind."""
    columns = (
        Column("work", is_number=False), Column("MB"), Column("MB a token"), Column("G operations"),
        Column("G operations a token"), Column("peak", is_number=False), Column("bytes in the bound", is_number=False),
    )  # fmt: skip
    rows = tuple(
        (
            part.name, f"{part.bytes / 1e6:,.3f}", f"{part.bytes / phase.rows / 1e6:,.3f}",
            f"{part.operations / 1e9:,.3f}", f"{part.operations / phase.rows / 1e9:,.4f}", part.arithmetic.value,
            "yes" if part.from_memory else "no",
        )
        for part in phase.parts
    )  # fmt: skip
    caption = f"Work of one call of {phase.phase}, counted from the tensors; the times above are {roofline.evidence}"
    return Table(columns, rows, caption)


def ceilings_table(roofline: Roofline) -> Table:
    """What the machine can do."""
    columns = (
        Column("ceiling", is_number=False), Column("way", is_number=False), Column("threads"), Column("median"),
        Column("unit", is_number=False), Column("spread"),
    )  # fmt: skip
    rows = tuple(
        (
            each.kind, each.variant, UNDEFINED if each.threads is None else str(each.threads),
            f"{each.rate / 1e9:,.1f}", CeilingKind(each.kind).giga, f"{100 * each.spread:.1f} %",
        )
        for each in roofline.ceilings
    )  # fmt: skip
    arrays = "" if roofline.array_bytes is None else f"; arrays of {roofline.array_bytes / 2**20:,.0f} MiB"
    method = roofline.method or "an unknown method"
    return Table(columns, rows, f"Ceilings ({roofline.ceilings_evidence}): {method}{arrays}")
