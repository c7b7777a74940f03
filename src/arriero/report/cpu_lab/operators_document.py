"""Document of an operator profile: what a call consists of, what watching it costs, and where the host's time goes."""

from collections.abc import Iterator, Mapping
from typing import Final

from arriero.record.cpu_lab.operator_times import accounting, by_family, by_layer, by_operation
from arriero.record.cpu_lab.operators import OperatorProfile
from arriero.report.cpu_lab.host_tables import host_parts
from arriero.report.cpu_lab.operators_tables import (
    group_table,
    hottest_table,
    microseconds,
    overhead_table,
    structure_parts,
    summary_table,
)
from arriero.report.cpu_lab.origin_parts import doubts, origin_section
from arriero.report.cpu_lab.roofline_tables import roofline_parts
from arriero.report.document import Alert, Badge, Document, Fold, Level, Part, Picture, Section, Text, present

MADE_BY: Final = "Made by `arriero lab profile`."
LIMITS: Final = (
    "PROFILED: times of single nodes come from calls that are watched, and the table of what watching costs says by "
    "how much these differ from calls that are not. A node's time is that of the first compute thread, its wait for "
    "the other threads after the node before included."
)
_TOLERATED: Final = 0.1
"""How far the sum of medians may lie from the median of the sums."""

_APART: Final = (
    "Node times come from graphs of one node each, which costs every node the start and the end of a parallel region: "
    "small nodes look longer than they are."
)
_OTHER_BITS: Final = (
    "Other bits mean that a cut parts what is computed in one pass otherwise, in another order of rounding; the tokens "
    "need not be others for that."
)


def operators_document(profile: OperatorProfile, pictures: Mapping[str, Picture]) -> Document:
    """The whole report.

    Args:
        profile: read or just made.
        pictures: by key; those that are missing are left out.
    """
    sections = [
        Section(key="families", heading="By family", parts=_families(profile, pictures)),
        Section(key="operations", heading="By operation", parts=_operations(profile)),
        Section(key="layers", heading="By layer", parts=_layers(profile, pictures)),
        Section(key="structure", heading="Prefill's graph against decode's", parts=structure_parts(profile)),
        Section(key="watching", heading="What watching costs", parts=_watching(profile)),
    ]
    if profile.host is not None:
        sections.append(
            Section(key="host", heading="The host's part of a step", parts=host_parts(profile.host, pictures))
        )
    if profile.roofline is not None:
        parts = roofline_parts(profile.roofline, pictures)
        sections.append(Section(key="roofline", heading="Against the ceilings", parts=parts))
    settings = profile.settings
    return Document(
        title=f"Operators: {profile.model.file}, {settings.threads} threads",
        badges=(Badge(Level.NOTE, profile.evidence.value),),
        lead=present([
            Alert(Level.NOTE, LIMITS),
            *doubts(is_quick=profile.is_quick, busy=profile.busy, reasons=profile.reasons),
            *_unaccounted(profile),
            summary_table(profile),
        ]),
        sections=(*sections, origin_section(profile)),
        made_by=MADE_BY,
    )


def _unaccounted(profile: OperatorProfile) -> Iterator[Alert]:
    """Phases whose nodes do not sum up to their calls."""
    for phase in profile.phases:
        share = accounting(phase).accounted
        if phase.method == "stamped" and abs(1 - share) > _TOLERATED:
            yield Alert(
                Level.WARNING,
                f"{phase.phase}: the parts of a call explain {100 * share:.0f} % of it. Each call was disturbed at "
                "other nodes, so medians leave the disturbance out; measure on a quiet machine.",
            )


def _families(profile: OperatorProfile, pictures: Mapping[str, Picture]) -> tuple[Part, ...]:
    return present([
        pictures.get("operators-families"),
        group_table(profile, by_family, "family", "Time of one call by family"),
        Text("Nothing is computed for views: they look at the same numbers in another way."),
    ])


def _operations(profile: OperatorProfile) -> tuple[Part, ...]:
    caption = "Time of one call by operation; matrix products with the type of their weights"
    return (
        group_table(profile, by_operation, "operation", caption),
        *(Fold(f"The longest nodes of {phase.phase}", (hottest_table(profile, phase),)) for phase in profile.phases),
    )


def _layers(profile: OperatorProfile, pictures: Mapping[str, Picture]) -> tuple[Part, ...]:
    table = group_table(profile, by_layer, "layer", "Time of one call by layer")
    return present([pictures.get("operators-layers"), Fold("Every layer", (table,))])


def _watching(profile: OperatorProfile) -> tuple[Part, ...]:
    parts: list[Part] = [overhead_table(profile)]
    parts.extend(
        Alert(Level.WARNING, f"{phase.phase}: {phase.reasons['before_ns']}. {_APART}")
        for phase in profile.phases
        if phase.method == "apart"
    )
    cuts = [(phase.phase, phase.cut_ns) for phase in profile.phases if phase.cut_ns is not None]
    if cuts:
        prices = " and ".join(f"{microseconds(ns)} µs in {word}" for word, ns in cuts)  # noqa: RUF001 - the unit's sign
        parts.append(
            Text(
                "Computed apart, a node costs a start and an end of all threads: "
                f"nodes that compute nothing take {prices}."
            )
        )
    parts.extend(
        Alert(Level.WARNING, f"{phase.phase}: {phase.dropped} calls did not fit the graph and are left out.")
        for phase in profile.phases
        if phase.dropped
    )
    if not all(arm.equal_bits for phase in profile.phases for arm in phase.arms):
        parts.append(Text(_OTHER_BITS))
    return tuple(parts)
