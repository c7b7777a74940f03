"""Tables of an operator profile; every caption carries the label of its evidence."""

from collections.abc import Callable, Mapping
from statistics import median
from typing import Final

from arriero.record.cpu_lab.graph_nodes import GraphNode
from arriero.record.cpu_lab.operator_times import (
    GraphDifference,
    GroupTime,
    accounting,
    compare_graphs,
    node_ns,
)
from arriero.record.cpu_lab.operators import Arm, OperatorProfile, PhaseProfile
from arriero.report.document import Column, Part, Table, Text
from arriero.report.written import UNDEFINED

HOTTEST: Final = 15
_MOST_DIFFERENT: Final = 12
_ARM_WORDS: Final[Mapping[Arm, str]] = {
    Arm.BARE: "no callbacks",
    Arm.STILL: "callbacks that note nothing",
    Arm.STAMPED: "one graph, a stamp after each node",
    Arm.APART: "each node as a graph of its own",
}


def milliseconds(ns: float | None) -> str:
    """With three places."""
    return UNDEFINED if ns is None else f"{ns / 1e6:,.3f}"


def microseconds(ns: float | None) -> str:
    """With one place."""
    return UNDEFINED if ns is None else f"{ns / 1e3:,.1f}"


def percent(share: float | None) -> str:
    """With one place."""
    return UNDEFINED if share is None else f"{100 * share:.1f} %"


def summary_table(profile: OperatorProfile) -> Table:
    """Where the time of one call went, in one row a phase."""
    columns = (
        Column("phase", is_number=False), Column("rows"), Column("context (tokens)"), Column("bare call (ms)"),
        Column("watched call (ms)"), Column("before the graph (ms)"), Column("nodes (ms)"),
        Column("after the graph (ms)"), Column("accounted for"), Column("nodes in all"), Column("that compute"),
        Column("node times", is_number=False),
    )  # fmt: skip
    rows: list[tuple[str, ...]] = []
    for phase in profile.phases:
        found = accounting(phase)
        rows.append((
            phase.phase, f"{phase.rows:,}", f"{phase.context:,}", milliseconds(phase.arms[0].median_ns),
            milliseconds(found.step_ns), milliseconds(found.before_ns), milliseconds(found.nodes_ns),
            milliseconds(found.after_ns), percent(found.accounted), f"{len(phase.nodes):,}",
            f"{sum(node.computes for node in phase.nodes):,}", phase.method.value,
        ))  # fmt: skip
    return Table(columns, tuple(rows), f"One call ({profile.evidence}): medians over the calls")


def overhead_table(profile: OperatorProfile) -> Table:
    """What watching costs: every arm against the bare calls that computed the same rows."""
    columns = (
        Column("phase", is_number=False), Column("calls", is_number=False), Column("n"), Column("median (ms)"),
        Column("time / bare"), Column("logits as bare", is_number=False),
    )  # fmt: skip
    rows: list[tuple[str, ...]] = []
    for phase in profile.phases:
        bare = phase.arms[0]
        for arm in phase.arms:
            ratio = median(one / other for one, other in zip(arm.ns, bare.ns, strict=True))
            rows.append((
                phase.phase, _ARM_WORDS[arm.arm], f"{len(arm.ns):,}", milliseconds(arm.median_ns),
                "" if arm is bare else f"{ratio:.3f}", "same bits" if arm.equal_bits else "other bits",
            ))  # fmt: skip
    caption = (
        f"What watching costs ({profile.evidence}): medians; ratios call by call, of calls that computed the same rows"
    )
    return Table(columns, tuple(rows), caption)


def group_table(
    profile: OperatorProfile, groups: Callable[[PhaseProfile], tuple[GroupTime, ...]], label: str, caption: str
) -> Table:
    """Groups of nodes, the phases beside each other, in the order in which they first come."""
    columns = [Column(label, is_number=False)]
    by_phase: list[dict[str, GroupTime]] = []
    for phase in profile.phases:
        word = phase.phase
        columns += [Column(f"{word}, nodes"), Column(f"{word} (ms)"), Column(f"{word}, share")]
        by_phase.append({group.key: group for group in groups(phase)})
    keys = dict.fromkeys(key for found in by_phase for key in found)
    rows = tuple((key, *(cell for found in by_phase for cell in _group_cells(found.get(key)))) for key in keys)
    totals = (sum(group.ns for group in found.values()) for found in by_phase)
    counts = (sum(group.num_nodes for group in found.values()) for found in by_phase)
    last = tuple(
        cell for total, count in zip(totals, counts, strict=True) for cell in (f"{count:,}", milliseconds(total), "")
    )
    return Table(tuple(columns), (*rows, ("all", *last)), f"{caption} ({profile.evidence})")


def hottest_table(profile: OperatorProfile, phase: PhaseProfile) -> Table:
    """The nodes that take longest, with their shapes."""
    columns = (
        Column("node", is_number=False), Column("operation", is_number=False), Column("family", is_number=False),
        Column("makes", is_number=False), Column("from", is_number=False, is_small=True), Column("median (µs)"),  # noqa: RUF001
        Column("quartiles (µs)"), Column("share"),  # noqa: RUF001 - the sign of the unit
    )  # fmt: skip
    total = sum(node_ns(node, phase.method) for node in phase.nodes)
    hottest = sorted(phase.nodes, key=lambda node: (-node_ns(node, phase.method), node.number))[:HOTTEST]
    rows = tuple(_node_row(node, phase, total) for node in hottest)
    return Table(columns, rows, f"The longest nodes of {phase.phase} ({profile.evidence})")


def structure_parts(profile: OperatorProfile) -> tuple[Part, ...]:
    """Prefill's graph against decode's."""
    prefill, decode = profile.phase("prefill"), profile.phase("decode")
    if prefill is None or decode is None:
        return (Text("Only one phase was profiled: there is nothing to compare."),)
    found = compare_graphs(prefill.nodes, decode.nodes)
    columns = (Column("count", is_number=False), Column("prefill"), Column("decode"))
    rows = (
        ("nodes", *(f"{count:,}" for count in found.num_nodes)),
        ("of these computed", *(f"{count:,}" for count in found.num_computed)),
        ("calls of one repetition", "1", f"{profile.settings.generate:,}"),
        (
            "computed nodes × calls",  # noqa: RUF001 - the sign of multiplication
            f"{found.num_computed[0]:,}",
            f"{found.num_computed[1] * profile.settings.generate:,}",
        ),
        ("nodes without a counterpart", f"{len(found.only_first):,}", f"{len(found.only_second):,}"),
        ("pairs of other shapes", f"{len(found.reshaped):,}", f"{len(found.reshaped):,}"),
        ("pairs of other types", f"{len(found.retyped):,}", f"{len(found.retyped):,}"),
    )
    counts = Table(columns, rows, f"Structure of the two graphs ({profile.evidence})")
    return (counts, *_difference_parts(profile, found))


def _difference_parts(profile: OperatorProfile, found: GraphDifference) -> tuple[Part, ...]:
    parts: list[Part] = []
    for word, nodes in (("prefill", found.only_first), ("decode", found.only_second)):
        if nodes:
            shown = ", ".join(f"{node.operation} `{node.name}`" for node in nodes[:_MOST_DIFFERENT])
            more = f" and {len(nodes) - _MOST_DIFFERENT} more" if len(nodes) > _MOST_DIFFERENT else ""
            parts.append(Text(f"Only in {word}: {shown}{more}."))
    kinds: dict[tuple[str, str, str], int] = {}
    for one, other in found.reshaped:
        key = (one.operation, shape_words(one), shape_words(other))
        kinds[key] = kinds.get(key, 0) + 1
    if kinds:
        columns = (
            Column("operation", is_number=False), Column("prefill makes", is_number=False),
            Column("decode makes", is_number=False), Column("pairs"),
        )  # fmt: skip
        ordered = sorted(kinds.items(), key=lambda each: (-each[1], each[0]))[:_MOST_DIFFERENT]
        rows = tuple((*key, f"{count:,}") for key, count in ordered)
        parts.append(Table(columns, rows, f"The most frequent pairs of other shapes ({profile.evidence})"))
    return tuple(parts)


def shape_words(node: GraphNode) -> str:
    """Type and extents, without the last ones that are 1."""
    extents = list(node.shape)
    while len(extents) > 1 and extents[-1] == 1:
        extents.pop()
    return f"{node.type} {' × '.join(map(str, extents))}"  # noqa: RUF001 - the sign of multiplication


def _group_cells(group: GroupTime | None) -> tuple[str, str, str]:
    if group is None:
        return UNDEFINED, UNDEFINED, UNDEFINED
    return f"{group.num_nodes:,}", milliseconds(group.ns), percent(group.share)


def _node_row(node: GraphNode, phase: PhaseProfile, total: float) -> tuple[str, ...]:
    time = node.stamped if phase.method == "stamped" else node.apart
    quartiles = UNDEFINED if time is None else f"{microseconds(time.low_ns)} to {microseconds(time.high_ns)}"
    ns = node_ns(node, phase.method)
    return (
        f"`{node.name}`", node.operation, node.family.value, shape_words(node),
        ", ".join(f"{source.name} {source.type}" for source in node.sources), microseconds(ns), quartiles,
        percent(ns / total if total else None),
    )  # fmt: skip
