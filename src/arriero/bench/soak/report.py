"""The report of a soak: statements, a line for each leg, and what became of every kind of request."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from arriero.bench.experiments.evidence_page import shown
from arriero.bench.experiments.experiment import EvidenceLabel, Outcome, Statement, Table, Value
from arriero.bench.experiments.samples import rounded
from arriero.bench.soak.judge import all_gaps, judge, memory_slope
from arriero.bench.soak.plan import Kind
from arriero.bench.soak.records import GapSums, LegRecord
from arriero.bench.soak.state import SoakState
from arriero.metrics.client_life import Outcome as End
from arriero.metrics.theil_sen import Slope
from arriero.record.provenance import portable_command

REPORT: Final = "README.md"
VERDICTS: Final = "verdicts.json"

_MIB: Final = 1 << 20
_MS: Final = 1e6


def outcome_of(state: SoakState) -> Outcome:
    """Statements and tables of a soak, whether it is over or not."""
    return Outcome(
        statements=tuple(judge(state)),
        tables=(_legs(state), _ends(state), _gaps(state), _servers(state)),
        limits=(
            "Client, server and neighbour share the machine; a gap holds what the client was late by.",
            "Requests of a leg that was cut short by a kill are in no figure: the leg was run again.",
            "That KV cells are free is what the server's books say; nobody looked into the model's memory.",
        ),
        facts=_facts(state),
    )


def write_report(folder: Path, outcome: Outcome) -> None:
    """Write both files, over earlier ones of the same soak."""
    verdicts = {
        "verdict": str(outcome.judgement),
        "statements": [
            {"text": each.text, "measured": each.measured, "bound": each.bound, "verdict": str(each.judgement),
             "reason": each.reason}
            for each in outcome.statements
        ],
    }  # fmt: skip
    (folder / VERDICTS).write_bytes(msgspec.json.format(msgspec.json.encode(verdicts), indent=2) + b"\n")
    (folder / REPORT).write_text("\n".join(page(outcome)) + "\n", encoding="utf-8")


def page(outcome: Outcome) -> Iterator[str]:
    """The report in Markdown, line by line."""
    yield "# Soak"
    yield ""
    yield f"**{outcome.judgement}**"
    yield ""
    yield from _markdown(
        ("statement", "measured", "bound", "verdict"),
        [(each.text, each.measured, each.bound, _verdict(each)) for each in outcome.statements],
    )
    for table in outcome.tables:
        yield from ("", f"## {table.title}", "", str(table.label), "")
        yield from _markdown(table.heads, table.rows)
        if table.note:
            yield from ("", table.note)
    yield from ("", "## What this does not show", "", *(f"- {limit}" for limit in outcome.limits))
    yield from ("", "## Where it comes from", "")
    yield from (f"- {name.replace('_', ' ')}: {shown(value)}" for name, value in outcome.facts.items())


def _verdict(statement: Statement) -> str:
    return str(statement.judgement) + ("" if statement.reason is None else f" ({statement.reason})")


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[Value]]) -> Iterator[str]:
    yield f"| {' | '.join(map(_cell, heads))} |"
    yield f"|{' --- |' * len(heads)}"
    yield from (f"| {' | '.join(_cell(shown(value)) for value in row)} |" for row in rows)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _label(state: SoakState) -> EvidenceLabel:
    return EvidenceLabel.END_TO_END if state.settings.backend == "llama" else EvidenceLabel.SIMULATED


def _legs(state: SoakState) -> Table:
    return Table(
        title="Legs",
        label=_label(state),
        heads=(
            "leg", "server", "seconds", "requests", "whole", "refused", "left", "surprises", "TTFT p50, ms",
            "ITL p99, ms", "longest gap, ms", "target held", "neighbour, s", "memory, MiB", "retained cells", "files",
            "tasks", "threads", "client blocked, ms",
        ),
        rows=tuple(map(_leg, state.legs)),
        note=(
            f"A leg is {state.settings.leg_s:g} s, in {state.settings.send_share:.0%} of which requests are sent; then "
            "all of it is drained, and the server is read when it is idle."
        ),
    )  # fmt: skip


def _leg(leg: LegRecord) -> tuple[Value, ...]:
    after, gaps = leg.after, leg.quiet + leg.beside
    return (
        leg.number + 1,
        leg.server,
        rounded(leg.seconds),
        leg.num_ended,
        leg.num_finished,
        leg.num_of(End.REJECTED),
        leg.num_of(End.CANCELLED_BY_CLIENT),
        leg.num_surprises,
        _ms(leg.first_p50_ns),
        _ms(leg.gap_p99_ns),
        _ms(gaps.worst_ns) if gaps.count else None,
        rounded(gaps.held_share),
        rounded(leg.visit_s),
        None if after.resident_bytes is None else rounded(after.resident_bytes / _MIB),
        after.retained_cells,
        after.files,
        after.tasks,
        after.threads,
        _ms(leg.longest_block_ns),
    )


def _ends(state: SoakState) -> Table:
    outcomes = [each for each in End if any(leg.num_of(each) for leg in state.legs)]
    kinds = [kind for kind in Kind if any(kind in leg.ends for leg in state.legs)]
    return Table(
        title="How requests ended",
        label=_label(state),
        heads=("kind", "requests", *map(str, outcomes)),
        rows=tuple((str(kind), *_counts(state, kind, outcomes)) for kind in kinds),
        note="Left: by its client, after some tokens or as soon as it was sent.",
    )


def _counts(state: SoakState, kind: Kind, outcomes: Sequence[End]) -> tuple[int, ...]:
    counts = [sum(leg.ends.get(kind, {}).get(each, 0) for leg in state.legs) for each in outcomes]
    return (sum(counts), *counts)


def _gaps(state: SoakState) -> Table:
    quiet, beside = all_gaps(state)
    target = state.settings.itl_target_ms
    return Table(
        title="Gaps between tokens of streams that are read at once",
        label=_label(state),
        heads=("when", "gaps", "mean, ms", "longest, ms", "share of time within the target"),
        rows=(_gap_row("quiet", quiet), _gap_row("beside the neighbour", beside), _gap_row("all", quiet + beside)),
        note=f"Target: {target} ms." if target else "No target was set.",
    )


def _gap_row(name: str, sums: GapSums) -> tuple[Value, ...]:
    mean = sums.total_ns / sums.count if sums.count else None
    return (name, sums.count, _ms(mean), _ms(sums.worst_ns) if sums.count else None, rounded(sums.held_share))


def _servers(state: SoakState) -> Table:
    rows: list[tuple[Value, ...]] = []
    for server in state.servers:
        legs = [leg for leg in state.legs if leg.server == server.number]
        first, last = server.before.resident_bytes, legs[-1].after.resident_bytes if legs else None
        rows.append((
            server.number,
            len(legs),
            "killed with the soak" if server.how is None else f"{server.how}, status {server.status}",
            None if first is None else rounded(first / _MIB),
            None if last is None else rounded(last / _MIB),
            *_growth(memory_slope(state, server.number)),
        ))
    return Table(
        title="Servers",
        label=_label(state),
        heads=("start", "legs", "end", "memory before, MiB", "at the end, MiB", "growth, MiB a minute", "95 %"),
        rows=tuple(rows),
        note="Growth: median over pairs of legs after the first third of a server's life, and its interval.",
    )


def _growth(slope: Slope | None) -> tuple[Value, Value]:
    return (None, None) if slope is None else (rounded(slope.value), f"{slope.low:.2f} ... {slope.high:.2f}")


def _facts(state: SoakState) -> Mapping[str, Any]:
    settings = state.settings
    return {
        "model": portable_command([settings.model])[0] if settings.backend == "llama" else "none",
        "backend": settings.backend,
        "slots": settings.slots,
        "slot_tokens": settings.slot_tokens,
        "backlog": settings.backlog,
        "threads": settings.threads or "every CPU",
        "flags": portable_command(settings.flags),
        "seed": settings.seed,
        "resumed": state.num_resumed,
    }


def _ms(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else rounded(nanoseconds / _MS)
