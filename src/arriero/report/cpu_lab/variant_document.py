"""Document of two builds: the edit, the objects and symbols that differ, the libraries, and how they were built."""

from typing import Final

from arriero.record.cpu_lab.variant import VariantResult
from arriero.report.bench_facts import run_rows
from arriero.report.cpu_lab.code_table import code_table
from arriero.report.document import Alert, Badge, Column, Document, Facts, Level, Part, Section, Table, Text
from arriero.report.written import UNDEFINED, Unit, written

MADE_BY: Final = "Made by `arriero lab variant build`."
_LOADS: Final = {True: (Level.GOOD, "loads"), False: (Level.BAD, "does not load"), None: (Level.NOTE, "not tried")}


def variant_document(result: VariantResult) -> Document:
    """The whole report; it has no times in it."""
    return Document(
        title=f"Variant: {result.edit.name}",
        badges=(
            Badge(Level.NOTE, result.evidence.value),
            *(Badge(_LOADS[check.loads][0], f"{check.build}: {_LOADS[check.loads][1]}") for check in result.checks),
        ),
        lead=(*_alerts(result), Text(result.edit.says), _files(result)),
        sections=(_objects(result), _libraries(result), _origin(result)),
        made_by=MADE_BY,
    )


def _alerts(result: VariantResult) -> list[Part]:
    found: list[Part] = [
        Alert(Level.NOTE, "Sizes and hashes, no times: what the edit does to speed is told by `arriero lab ab`.")
    ]
    if not result.changes_code:
        found.append(Alert(Level.BAD, "The edit reaches no machine code: both builds compute with the same."))
    found.extend(
        Alert(_LOADS[check.loads][0], f"{check.build} {_LOADS[check.loads][1]}: {check.says}.")
        for check in result.checks
    )
    return found


def _files(result: VariantResult) -> Table:
    columns = (
        Column("file", is_number=False), Column("places"), Column("lines added"), Column("lines removed"),
        Column("sha256 before", is_number=False, is_small=True), Column("sha256 after", is_number=False, is_small=True),
    )  # fmt: skip
    rows = tuple(
        (
            f"`{file.file}`",
            written(file.places, Unit.COUNT),
            written(file.lines_added, Unit.COUNT),
            written(file.lines_removed, Unit.COUNT),
            file.before_sha256,
            file.after_sha256,
        )
        for file in result.edit.files
    )
    return Table(columns, rows, "Edited sources (MEASURED)")


def _objects(result: VariantResult) -> Section:
    counts = (
        f"{result.objects:,} objects, {result.rebuilt:,} compiled again, {len(result.differing):,} with other bytes."
    )
    parts: list[Part] = [Text(counts)]
    for each in result.differing:
        parts.append(Text(f"`{each.name}`: {each.reason or f'{len(each.symbols)} symbols differ'}."))
        if each.symbols:
            parts.append(code_table(each.symbols, "Symbols with other instructions (MEASURED: sizes, not times)"))
    return Section(key="objects", heading="Objects that differ", parts=tuple(parts))


def _libraries(result: VariantResult) -> Section:
    columns = (
        Column("library", is_number=False), Column("baseline (bytes)"), Column("variant (bytes)"),
        Column("bytes", is_number=False), Column("sha256, baseline", is_number=False, is_small=True),
        Column("sha256, variant", is_number=False, is_small=True),
    )  # fmt: skip
    rows = tuple(
        (
            f"`{pair.name}`",
            written(pair.baseline_bytes, Unit.COUNT),
            written(pair.variant_bytes, Unit.COUNT),
            "the same" if pair.is_equal else "differs",
            pair.baseline_sha256 or UNDEFINED,
            pair.variant_sha256 or UNDEFINED,
        )
        for pair in result.libraries
    )
    return Section(key="libraries", heading="Libraries", parts=(Table(columns, rows, "Both builds (MEASURED)"),))


def _origin(result: VariantResult) -> Section:
    build, source = result.build, result.source
    return Section(
        key="origin",
        heading="Where this comes from",
        parts=(
            Facts("Edit", (("name", result.edit.name), ("sha256 of its file", result.edit.file_sha256))),
            Facts("Sources", (("from", source.origin), ("kind", source.kind), ("sha256", source.sha256))),
            Facts(
                "Both builds",
                (
                    ("instruction sets", build.isa),
                    ("target", build.target),
                    ("definitions", " ".join(build.definitions)),
                    ("compiler flags", " ".join(build.compiler_flags) or "none beyond the sources' own"),
                    ("compiler", build.compiler),
                    ("cmake", f"{build.cmake}, {build.generator}"),
                ),
            ),
            Facts("Run", (("format", result.schema_version), *run_rows(result.run))),
        ),
    )
