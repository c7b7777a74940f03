"""`arriero lab variant`: a second build of llama.cpp from an edit of its sources, beside a first one without it."""

import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from arriero.cli.lab.flag_values import whole_or
from arriero.cli.lab.interrupts import ended_as_interrupt
from arriero.cli.lab.results import make_folder, tell
from arriero.cli.machine import available_cores
from arriero.cli.simulation.output import ROOT, require_absent, write_text
from arriero.cli.sources import LineParser, make_parser
from arriero.core.errors import ConfigError

if TYPE_CHECKING:
    from arriero.lab.variant.builder import NamedEdit
    from arriero.record.cpu_lab.variant import EditFacts, VariantResult

DEFAULT_OUT: Final = f"{ROOT}/lab/variant"
FILE: Final = "variant.json"
ACTIONS: Final = ("build", "check")


def main(arguments: Sequence[str]) -> int:
    """Build both libraries, or only see whether the edit fits.

    Returns:
        0; 1 if a build cannot be loaded or the edit reaches no code.

    Raises:
        ConfigError: a flag that cannot work, missing tools, a build that fails.
        DataError: the edit file is damaged, or does not fit the sources.
    """
    flags = _parser().parse_args(arguments)
    if flags.edit is None:
        raise ConfigError("--edit: missing; name an edit such as definitions/lab/edits/packed-scale.toml")
    named = _edit(Path(flags.edit))
    _warn_of_version(named, flags.source)
    return _check(named, flags) if flags.action == "check" else _build(named, flags)


def _check(named: "NamedEdit", flags: Namespace) -> int:
    from arriero.lab.scratch import scratch_folder
    from arriero.lab.variant.builder import DOWNLOADS, check_edit
    from arriero.lab.variant.sources import find_source

    source = find_source(flags.source, Path(flags.out) / DOWNLOADS, tell)
    with scratch_folder("edit") as folder:
        facts = check_edit(named, source, folder)
    for line in _edit_lines(facts):
        print(line)
    print(f"{facts.name} fits {source.facts.origin}")
    return 0


def _build(named: "NamedEdit", flags: Namespace) -> int:
    from arriero.lab.variant.builder import DOWNLOADS, build_variant
    from arriero.lab.variant.cmake import Isa, make_recipe
    from arriero.lab.variant.sources import find_source
    from arriero.record.bench_result_run import run_facts
    from arriero.record.cpu_lab.variant import VariantResult, write_variant

    folder = Path(flags.out)
    require_absent([folder / FILE, folder / "README.md"], force=flags.force)
    make_folder(folder)
    began, started_at = time.monotonic(), datetime.now(UTC)
    recipe = make_recipe(Isa(flags.isa), flags.target, whole_or("--jobs", flags.jobs, 1, available_cores()))
    source = find_source(flags.source, folder / DOWNLOADS, tell)
    try:
        with ended_as_interrupt():
            built = build_variant(named, source, recipe, folder, tell)
    except OSError as error:  # both builds take gigabytes: the disk may be full at any of many places
        reason = (error.strerror or "an error of the system").lower()
        raise ConfigError(f"--out {folder}: cannot be written ({reason}); make room, or name another") from None
    result = VariantResult(
        run=run_facts(_command(flags), started_at=started_at, seconds=time.monotonic() - began),
        edit=built.edit,
        source=source.facts,
        build=recipe.facts,
        objects=built.objects,
        rebuilt=built.rebuilt,
        differing=built.differing,
        libraries=built.libraries,
        checks=built.checks,
    )
    write_variant(folder / FILE, result)
    _write_report(result, folder, force=flags.force)
    if flags.json:
        sys.stdout.write((folder / FILE).read_text(encoding="utf-8"))
    else:
        for line in (*summary_lines(result), *_next_lines(folder)):
            print(line)
    return 0 if result.changes_code and all(check.loads is not False for check in result.checks) else 1


def summary_lines(result: "VariantResult") -> Iterator[str]:
    """What a person wants to know: what was changed, what became of it, and whether both builds load."""
    yield from _edit_lines(result.edit)
    yield f"{result.objects} objects, {result.rebuilt} compiled again, {len(result.differing)} differ"
    for each in result.differing:
        yield f"  {each.name}: {each.reason or f'{len(each.symbols)} symbols differ'}"
        for symbol in each.symbols:
            sizes = (str(side.size_bytes) if side is not None else "none" for side in (symbol.before, symbol.after))
            yield f"    {' to '.join(sizes)} bytes: {symbol.symbol}"
    for pair in result.libraries:
        yield f"{pair.name}: {'the same' if pair.is_equal else 'differs'}"
    for check in result.checks:
        word = {True: "loads", False: "does not load", None: "not tried"}[check.loads]
        yield f"{check.build}: {word}: {check.says}"
    if not result.changes_code:
        yield "the edit reaches no machine code: there is nothing to compare"


def _edit_lines(facts: "EditFacts") -> Iterator[str]:
    for file in facts.files:
        yield f"{facts.name}: {file.file}: {file.places} places, +{file.lines_added} -{file.lines_removed} lines"


def _next_lines(folder: Path) -> Iterator[str]:
    yield f"compare them: arriero lab ab --a-library {folder}/baseline --b-library {folder}/variant"


def _edit(path: Path) -> "NamedEdit":
    from arriero.lab.file_hash import file_sha256
    from arriero.lab.variant.builder import NamedEdit
    from arriero.record.cpu_lab.edit import read_edit

    edit = read_edit(path)
    return NamedEdit(edit, str(path), file_sha256(path))


def _warn_of_version(named: "NamedEdit", source: str) -> None:
    """Say so where an edit was written for other sources than the pinned ones; whether it fits, its anchors decide."""
    from arriero.backend.library import BINDING_VERSION
    from arriero.lab.variant.sources import AUTO

    if source == AUTO and named.edit.version != BINDING_VERSION:
        tell(f"{named.edit.name} was written for {named.edit.package} {named.edit.version}, not {BINDING_VERSION}")


def _write_report(result: "VariantResult", folder: Path, *, force: bool) -> None:
    from arriero.report.cpu_lab.variant_document import variant_document
    from arriero.report.markdown import as_markdown

    write_text(folder / "README.md", as_markdown(variant_document(result)), force=force)


def _command(flags: Namespace) -> list[str]:
    return [
        "arriero", "lab", "variant", "build", "--edit", flags.edit, "--source", flags.source, "--isa", flags.isa,
        "--target", flags.target,
    ]  # fmt: skip


def _parser() -> LineParser:
    parser = make_parser(
        "lab variant",
        "Build llama.cpp twice from the sources of the binding: as they are, and with an edit of ours. "
        "`check` only sees whether the edit fits. What the edit does to speed is measured by `arriero lab ab`.",
    )
    parser.add_argument("action", choices=ACTIONS, help="build both libraries, or check whether the edit fits")
    parser.add_argument("--edit", metavar="FILE", help="the edit, TOML")
    parser.add_argument("--source", metavar="DIR|ARCHIVE|auto", default="auto", help="sources of llama.cpp or of its "
                        "binding (default: auto, the pinned package through pip)")  # fmt: skip
    parser.add_argument("--out", metavar="DIR", default=DEFAULT_OUT, help=f"for both builds (default: {DEFAULT_OUT})")
    parser.add_argument("--isa", choices=("avx2", "native"), default="native", help="instruction sets of both builds "
                        "(default: native)")  # fmt: skip
    parser.add_argument("--target", metavar="NAME", default="llama", help="what is built (default: llama)")
    parser.add_argument("--jobs", metavar="N", help="compilers at once (default: one a core)")
    parser.add_argument("--force", action="store_true", help="replace builds that exist; unchanged objects are kept")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of a summary")
    return parser
