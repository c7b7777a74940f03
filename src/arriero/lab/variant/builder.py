"""Two builds side by side: the sources as they are, then with an edit.

    FOLDER/baseline/     shared libraries of the sources as they are
    FOLDER/variant/      the same with the edit
    FOLDER/work/         the copy of the sources, the build folder, the baseline's objects, the files as they were

Both are built in one build folder, the second one on top of the first, so that only what the edit reaches is compiled
again. Another edit of the same sources starts from there too: the files are put back first.
"""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from arriero.lab.variant.cmake import Recipe
from arriero.lab.variant.edit import plan_edit, restore, write_edited
from arriero.lab.variant.load_check import check_loads
from arriero.lab.variant.products import (
    differing_objects,
    keep_libraries,
    keep_objects,
    library_pairs,
    rebuilt,
)
from arriero.lab.variant.sources import Source, copy_source
from arriero.record.cpu_lab.edit import Edit
from arriero.record.cpu_lab.variant import EditedFile, EditFacts, LibraryPair, LoadCheck, ObjectDifference

Tell = Callable[[str], None]
BASELINE: Final = "baseline"
VARIANT: Final = "variant"
WORK: Final = "work"
DOWNLOADS: Final = "downloads"


class NamedEdit(NamedTuple):
    """An edit and its file."""

    edit: Edit
    file: str  # for complaints
    sha256: str


class Built(NamedTuple):
    """What came of it."""

    edit: EditFacts
    objects: int
    rebuilt: int
    differing: tuple[ObjectDifference, ...]
    libraries: tuple[LibraryPair, ...]
    checks: tuple[LoadCheck, ...]


class _Work(NamedTuple):
    """Folders below `work`."""

    source: Path
    build: Path
    objects: Path
    originals: Path
    key: Path


def build_variant(named: NamedEdit, source: Source, recipe: Recipe, folder: Path, tell: Tell) -> Built:
    """Build both. Takes minutes for the whole of llama.cpp, and seconds for another edit of the same sources.

    Args:
        named: the edit.
        source: as `find_source` found it.
        recipe: the same for both.
        folder: made if it is missing; what is in the folders named above is replaced.
        tell: is told what begins and how far it is.

    Raises:
        DataError: the edit does not fit the sources; nothing was built then.
        ConfigError: cmake or the compiler refuses.
    """
    work = _prepared(source, recipe, folder / WORK, tell)
    restore(work.originals, work.source)
    edited = plan_edit(named.edit, work.source, file=named.file)
    if not (work.build / "CMakeCache.txt").is_file():
        tell("configuring")
        recipe.configure(work.source, work.build)
    recipe.build(work.build, BASELINE, tell)
    keep_libraries(work.build, folder / BASELINE)
    before = keep_objects(work.build, work.objects)
    write_edited(edited, keep=work.originals, root=work.source)
    recipe.build(work.build, VARIANT, tell)
    keep_libraries(work.build, folder / VARIANT)
    tell("comparing objects and libraries")
    pairs = library_pairs(folder / BASELINE, folder / VARIANT)
    return Built(
        edit=_edit_facts(named, tuple(each.facts for each in edited)),
        objects=len(before),
        rebuilt=len(rebuilt(work.objects, work.build)),
        differing=tuple(differing_objects(work.objects, before, work.build)),
        libraries=pairs,
        checks=_checks(folder, pairs),
    )


def check_edit(named: NamedEdit, source: Source, scratch: Path) -> EditFacts:
    """Whether the edit fits the sources; builds nothing.

    Args:
        named: the edit.
        source: as `find_source` found it.
        scratch: an empty folder that an archive may be unpacked to.

    Raises:
        DataError: it does not fit.
    """
    root = source.path
    if not root.is_dir():
        root = scratch / "source"
        copy_source(source, root)
    return _edit_facts(named, tuple(each.facts for each in plan_edit(named.edit, root, file=named.file)))


def _prepared(source: Source, recipe: Recipe, folder: Path, tell: Tell) -> _Work:
    """The work folder; what is in it is used again if it was made of the same sources in the same way."""
    work = _Work(folder / "source", folder / "build", folder / "objects", folder / "originals", folder / "key")
    key = hashlib.sha256(msgspec.json.encode([source.facts, recipe.facts])).hexdigest()
    if work.key.is_file() and work.key.read_text(encoding="ascii") == key:
        tell("the sources are there already, built in the same way")
    else:
        tell(f"copying the sources from {source.facts.origin}")
        for each in (work.source, work.build, work.objects, work.originals):
            shutil.rmtree(each, ignore_errors=True)
        copy_source(source, work.source)
        work.key.write_text(key, encoding="ascii")  # last: a copy that was cut short is made anew
    work.originals.mkdir(exist_ok=True)
    return work


def _edit_facts(named: NamedEdit, files: tuple[EditedFile, ...]) -> EditFacts:
    return EditFacts(name=named.edit.name, says=named.edit.says, file_sha256=named.sha256, files=files)


def _checks(folder: Path, pairs: tuple[LibraryPair, ...]) -> tuple[LoadCheck, ...]:
    baseline = frozenset(pair.baseline_sha256 for pair in pairs if pair.baseline_sha256 is not None)
    variant = frozenset(pair.variant_sha256 for pair in pairs if pair.variant_sha256 is not None)
    return (
        check_loads(folder / BASELINE, "baseline", baseline),
        check_loads(folder / VARIANT, "variant", variant),
    )
