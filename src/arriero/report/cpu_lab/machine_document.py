"""Sections of a machine: warnings first, then ceilings, then the facts."""

from typing import Final

from arriero.core.version import VERSION
from arriero.record.cpu_lab.machine_result import Ceiling, MachineResult
from arriero.report.bench_facts import machine_rows
from arriero.report.document import Alert, Badge, Column, Document, Facts, Level, Part, Section, Table, Text

MADE_BY: Final = f"Made by arriero {VERSION}."
_GIGA: Final = 1e9
_HOW: Final = (
    "A ceiling is what small programs reach that do nothing else: read, copy or add long arrays, or multiply and add "
    "in registers. It bounds what a kernel can do and is never the speed of a program. Bytes are counted as a program "
    "asks for them; a multiply-add is two operations. Spread is (greatest - least) / median over the repetitions."
)


def machine_document(result: MachineResult) -> Document:
    """The whole report."""
    machine = result.environment.machine
    badges = [Badge(Level.NOTE, result.evidence.value)]
    if result.quick:
        badges.append(Badge(Level.WARNING, "quick"))
    lead: list[Part] = [Text(f"Measured at {result.made_at}; fingerprint `{result.environment.fingerprint}`.")]
    if result.busy is not None:
        lead.append(Alert(Level.BAD, f"Doubtful: {result.busy}."))
    return Document(
        title=f"Machine: {machine.cpu or 'unknown CPU'}, {len(result.details.usable_cpus)} CPUs",
        badges=tuple(badges),
        lead=tuple(lead),
        sections=(
            Section(key="warnings", heading="Warnings", parts=(_warnings(result),)),
            Section(key="ceilings", heading="Ceilings", parts=_ceilings(result)),
            Section(key="facts", heading="Facts", parts=(_machine(result), _details(result), _library(result))),
        ),
        made_by=MADE_BY,
    )


def ceiling_table(ceilings: tuple[Ceiling, ...], caption: str) -> Table:
    """One row for each kind, way and number of threads."""
    columns = (
        Column("ceiling", is_number=False), Column("way", is_number=False), Column("threads"), Column("median"),
        Column("best"), Column("unit", is_number=False), Column("spread"), Column("n"),
    )  # fmt: skip
    return Table(columns=columns, rows=tuple(map(_row, ceilings)), caption=caption)


def _row(ceiling: Ceiling) -> tuple[str, ...]:
    return (
        ceiling.kind.value,
        ceiling.variant,
        "" if ceiling.threads is None else str(ceiling.threads),
        f"{ceiling.median / _GIGA:,.1f}",
        f"{ceiling.best / _GIGA:,.1f}",
        ceiling.kind.giga,
        f"{100 * ceiling.spread:.1f} %",
        str(len(ceiling.rates)),
    )


def _warnings(result: MachineResult) -> Part:
    if not result.warnings:
        return Alert(Level.GOOD, "None.")
    columns = (Column("name", is_number=False), Column("found", is_number=False), Column("remedy", is_number=False))
    return Table(columns=columns, rows=tuple((each.name, each.says, each.remedy) for each in result.warnings))


def _ceilings(result: MachineResult) -> tuple[Part, ...]:
    missing = tuple(Text(f"Not measured: {name} ({why}).") for name, why in result.reasons.items())
    if not result.ceilings:
        return missing
    assert result.array_bytes is not None, "a plan stands behind every ceiling"
    how = f"{result.method}; arrays of {result.array_bytes / 2**20:.0f} MiB."
    caption = f"Ceilings ({result.evidence.value})"
    return (Text(how), ceiling_table(result.ceilings, caption), Text(_HOW), *missing)


def _machine(result: MachineResult) -> Facts:
    return Facts("Machine", machine_rows(result.environment.machine))


def _details(result: MachineResult) -> Facts:
    details = result.details
    caches = "; ".join(
        f"{each.instances} x L{each.level} {each.kind.lower()} {each.bytes // 1024} KiB" for each in details.caches
    )
    rows = (
        ("caches", caches or "unknown"),
        ("threads of one core", "; ".join(",".join(map(str, core)) for core in details.siblings) or "unknown"),
        ("NUMA nodes", str(len(details.nodes))),
        ("huge pages", details.hugepages or "unknown"),
        ("hardware events", {True: "yes", False: "no", None: "unknown"}[details.hardware_events]),
        ("instruction sets", " ".join(result.environment.isa)),
        *((f"{name}: unknown", why) for name, why in details.reasons.items()),
    )
    return Facts("Details", rows)


def _library(result: MachineResult) -> Facts:
    library = result.environment.library
    if library is None:
        return Facts("llama.cpp", (("none", result.environment.reasons["library"]),))
    rows = (
        ("binding", library.binding),
        ("ggml", library.ggml or "unknown"),
        ("commit", library.commit or "unknown"),
        ("compiled for", " ".join(library.features)),
        ("compiled by", ", ".join(library.compilers)),
        *((file.name, file.sha256) for file in library.files),
    )
    return Facts("llama.cpp", rows)
