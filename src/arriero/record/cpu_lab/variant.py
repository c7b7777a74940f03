"""VariantResult: two builds of one library, without and with an edit, schema `arriero-lab-variant-v1`.

It holds no times: what the edit does to speed is the business of `arriero lab ab`.
"""

from typing import Final, Literal

from arriero.core.errors import DataError
from arriero.record.bench_parts import BenchPart, Evidence, RunFacts
from arriero.record.cpu_lab.code_difference import CodeDifference
from arriero.record.cpu_lab.result_file import ResultFile
from arriero.record.strict import Count, Name, Positive, Sha256

SCHEMA: Final = "arriero-lab-variant-v1"


class EditedFile(BenchPart, frozen=True, kw_only=True):
    """One source file.

    Attributes:
        file: below the root of the sources.
        before_sha256, after_sha256: of its bytes.
        places: at which it was changed.
        lines_removed, lines_added: in all.
    """

    file: Name
    before_sha256: Sha256
    after_sha256: Sha256
    places: Positive
    lines_removed: Count
    lines_added: Count


class EditFacts(BenchPart, frozen=True, kw_only=True):
    """The edit.

    Attributes:
        name: as in the edit.
        says: same.
        file_sha256: of the edit file.
        files: that it changed.
    """

    name: Name
    says: Name
    file_sha256: Sha256
    files: tuple[EditedFile, ...]


class SourceFacts(BenchPart, frozen=True, kw_only=True):
    """The sources that both builds are made of.

    Attributes:
        origin: base name of the archive or folder.
        sha256: of the archive, or of the folder's files with their names.
        kind: which of the two.
    """

    origin: Name
    sha256: Sha256
    kind: Literal["archive", "folder"]


class BuildFacts(BenchPart, frozen=True, kw_only=True):
    """How both were built: the same words for both.

    Attributes:
        isa: `avx2` or `native`.
        target: of the build system.
        definitions: given to cmake, in order.
        compiler_flags: beyond those of the sources.
        compiler: of C++, what it says of itself.
        cmake: version.
        generator: of cmake.
    """

    isa: Literal["avx2", "native"]
    target: Name
    definitions: tuple[str, ...]
    compiler_flags: tuple[str, ...]
    compiler: Name
    cmake: Name
    generator: Name


class LibraryPair(BenchPart, frozen=True, kw_only=True):
    """One shared library in both builds; null where a build has none of that name."""

    name: Name
    baseline_bytes: Count | None
    baseline_sha256: Sha256 | None
    variant_bytes: Count | None
    variant_sha256: Sha256 | None

    @property
    def is_equal(self) -> bool:
        """Whether both have it with the same bytes."""
        return self.baseline_sha256 is not None and self.baseline_sha256 == self.variant_sha256


class ObjectDifference(BenchPart, frozen=True, kw_only=True):
    """One object file whose bytes differ.

    Attributes:
        name: below the build folder.
        baseline_sha256, variant_sha256: null where a build has none of that name.
        symbols: whose instructions differ; empty if only something else does.
        reason: why `symbols` is empty; null if it is not.
    """

    name: Name
    baseline_sha256: Sha256 | None
    variant_sha256: Sha256 | None
    symbols: tuple[CodeDifference, ...]
    reason: str | None


class LoadCheck(BenchPart, frozen=True, kw_only=True):
    """Whether the binding can load a build in a process of its own.

    Attributes:
        build: which.
        loads: null if it is no build of llama.cpp, so nothing was tried.
        says: what the library says of itself, or what went wrong.
    """

    build: Literal["baseline", "variant"]
    loads: bool | None
    says: str


class VariantResult(BenchPart, frozen=True, kw_only=True):
    """A whole run of `arriero lab variant build`.

    Attributes:
        schema_version: of the file.
        evidence: sizes and hashes are measured; there are no times.
        run: how it came about.
        edit: see there.
        source: see there.
        build: see there.
        objects: compiled for the target.
        rebuilt: objects that the second build compiled anew.
        differing: of these, the ones whose bytes differ.
        libraries: by name.
        checks: of both builds.
    """

    schema_version: Literal["arriero-lab-variant-v1"] = SCHEMA
    evidence: Evidence = Evidence.MEASURED
    run: RunFacts
    edit: EditFacts
    source: SourceFacts
    build: BuildFacts
    objects: Positive
    rebuilt: Count
    differing: tuple[ObjectDifference, ...]
    libraries: tuple[LibraryPair, ...]
    checks: tuple[LoadCheck, ...]

    @property
    def changes_code(self) -> bool:
        """Whether the edit reached the machine code at all."""
        return any(each.symbols for each in self.differing)


def _check(result: VariantResult, file: str) -> None:
    """Refuse differing objects whose bytes are the same.

    Raises:
        DataError: names the object.
    """
    for index, each in enumerate(result.differing):
        if each.baseline_sha256 == each.variant_sha256:
            place = f"differing[{index}]"
            raise DataError(f"{place}: {each.name} has the same bytes in both; build again", file=file, field=place)


_FILE: Final = ResultFile(kind=VariantResult, schema=SCHEMA, check=_check)
write_variant: Final = _FILE.write
read_variant: Final = _FILE.read
