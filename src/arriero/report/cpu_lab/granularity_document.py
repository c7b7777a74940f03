"""Document of a run of packets: what every cut of a graph costs."""

from collections.abc import Mapping
from statistics import median
from typing import Final

from arriero.record.cpu_lab.granularity import GranularityResult, PacketArm, PhaseGranularity, price_of
from arriero.report.cpu_lab.operators_tables import microseconds, milliseconds, percent
from arriero.report.cpu_lab.origin_parts import doubts, origin_section
from arriero.report.document import Alert, Badge, Column, Document, Level, Picture, Section, Table, Text, present
from arriero.report.written import UNDEFINED

MADE_BY: Final = "Made by `arriero lab granularity`."
LIMITS: Final = (
    "PROFILED: a graph is computed in packets of k nodes, and all compute threads come together after each. This is "
    "the least that any scheduling inside a graph would have to pay; what it might gain is not measured here."
)


def granularity_document(result: GranularityResult, pictures: Mapping[str, Picture]) -> Document:
    """The whole report.

    Args:
        result: read or just made.
        pictures: by key; those that are missing are left out.
    """
    sections = tuple(
        Section(key=phase.phase, heading=phase.phase.capitalize(), parts=_parts(result, phase))
        for phase in result.phases
    )
    return Document(
        title=f"Packets of graph nodes: {result.model.file}, {result.settings.threads} threads",
        badges=(Badge(Level.NOTE, result.evidence.value),),
        lead=present([
            Alert(Level.NOTE, LIMITS),
            *doubts(is_quick=result.is_quick, busy=result.busy, reasons=result.reasons),
            pictures.get("granularity"),
        ]),
        sections=(*sections, origin_section(result)),
        made_by=MADE_BY,
    )


def _parts(result: GranularityResult, phase: PhaseGranularity) -> tuple[Table | Text, ...]:
    whole = phase.arms[0]
    still = median(one / other for one, other in zip(whole.ns, phase.bare_ns, strict=True)) - 1
    bits = all(arm.equal_bits for arm in phase.arms)
    repetitions = result.settings.repetitions
    return (
        packet_table(result, phase),
        Text(
            f"A difference is resolved where the 95 % interval of its median over {repetitions} repetitions leaves 0 "
            "out; six repetitions are the fewest that can. Few cuts share what noise there is, so their price is known "
            "worst. Nothing cuts the whole graph, so it has dashes there."
        ),
        Text(
            f"A call without callbacks takes {milliseconds(median(phase.bare_ns))} ms (median of "
            f"{len(phase.bare_ns)}); callbacks that only answer change that by {100 * still:+.1f} %. "
            + (
                "All logits have the same bits, however the graph is cut."
                if bits
                else "Cuts change bits of the logits."
            )
        ),
    )


def packet_table(result: GranularityResult, phase: PhaseGranularity) -> Table:
    """One row a size."""
    columns = (
        Column("nodes in a packet"), Column("packets"), Column("call, median (ms)"), Column("quartiles (ms)"),
        Column("slower by"), Column("each cut (µs)"), Column("its quartiles (µs)"),  # noqa: RUF001
        Column("difference", is_number=False), Column("least packet (µs)"),  # noqa: RUF001 - the sign of the unit
        Column("median packet (µs)"), Column("greatest packet (µs)"),  # noqa: RUF001 - the sign of the unit
    )  # fmt: skip
    rows = tuple(_row(arm, phase.arms[0], result.settings.repetitions) for arm in phase.arms)
    caption = (
        f"{phase.phase.capitalize()} of {phase.rows:,} row{'s' * (phase.rows > 1)}, {phase.num_nodes:,} nodes "
        f"({result.evidence}): {len(phase.arms[0].ns)} calls of each size, in turns; differences call by call"
    )
    return Table(columns, rows, caption)


def _row(arm: PacketArm, whole: PacketArm, repetitions: int) -> tuple[str, ...]:
    price, packets = price_of(arm, whole, repetitions), arm.packets
    cut = (
        UNDEFINED
        if price.cut_low_ns is None
        else f"{microseconds(price.cut_low_ns)} to {microseconds(price.cut_high_ns)}"
    )
    sizes = (None, None, None) if packets is None else (packets.least_ns, packets.median_ns, packets.greatest_ns)
    return (
        "whole graph" if arm.every is None else f"{arm.every:,}", f"{arm.num_packets:,}", milliseconds(price.step_ns),
        f"{milliseconds(price.low_ns)} to {milliseconds(price.high_ns)}",
        "" if arm is whole else percent(price.slowdown), microseconds(price.cut_ns), cut,
        "the base" if arm is whole else "resolved" if price.is_resolved else "not resolved", *map(microseconds, sizes),
    )  # fmt: skip
