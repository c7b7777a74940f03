"""CodeDifference: how the machine code of one thing differs between two builds."""

from arriero.record.bench_parts import BenchPart
from arriero.record.strict import Count, Name, Sha256


class CodeSide(BenchPart, frozen=True, kw_only=True):
    """One build of it.

    Attributes:
        size_bytes: of the symbol; null if the file does not say.
        instructions: padding left out.
        sha256: of the normalised instructions: no addresses, displacements or offsets of jumps.
    """

    size_bytes: Count | None
    instructions: Count
    sha256: Sha256


class CodeDifference(BenchPart, frozen=True, kw_only=True):
    """One symbol in two builds.

    Attributes:
        symbol: as people write it.
        before: in the baseline; null if it is only in the other.
        after: in the other; null if it is only in the baseline.
        removed: mnemonic -> how many fewer the other build has.
        added: mnemonic -> how many more.
        changed_lines: instructions that a text comparison finds only on one side, counted on both; null if the code is
            too long to be compared so.
    """

    symbol: Name
    before: CodeSide | None
    after: CodeSide | None
    removed: dict[str, Count]
    added: dict[str, Count]
    changed_lines: Count | None

    @property
    def is_equal(self) -> bool:
        """Whether both builds have it with the same instructions."""
        return self.before is not None and self.after is not None and self.before.sha256 == self.after.sha256
