"""Two builds of one symbol, or of all symbols of two object files, side by side."""

from collections import Counter
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from pathlib import Path
from typing import Final

from arriero.lab.object_code import Code, demangled, symbol_codes
from arriero.record.cpu_lab.code_difference import CodeDifference, CodeSide

LONGEST: Final = 4000
"""Instructions beyond which the text comparison, whose cost grows with the square, is left out."""


def compare_code(symbol: str, before: Code | None, after: Code | None) -> CodeDifference:
    """The difference of one symbol; at least one side is there."""
    counts = Counter(before.mnemonics if before else ()), Counter(after.mnemonics if after else ())
    return CodeDifference(
        symbol=symbol,
        before=_side(before),
        after=_side(after),
        removed=dict(sorted((counts[0] - counts[1]).items())),
        added=dict(sorted((counts[1] - counts[0]).items())),
        changed_lines=_changed_lines(before, after),
    )


def compare_files(before: Path, after: Path) -> tuple[CodeDifference, ...]:
    """The symbols that differ between two object files, by name; those with equal code are left out.

    Raises:
        ConfigError: a file cannot be read.
    """
    return compare_symbols(symbol_codes(before), symbol_codes(after))


def compare_symbols(before: Mapping[str, Code], after: Mapping[str, Code]) -> tuple[CodeDifference, ...]:
    """The symbols that differ, by name."""
    differing = list(_differing(before, after))
    shown = demangled(differing)
    found = (compare_code(shown[name], before.get(name), after.get(name)) for name in differing)
    return tuple(sorted(found, key=lambda each: each.symbol))


def _differing(before: Mapping[str, Code], after: Mapping[str, Code]) -> Iterator[str]:
    for name in dict.fromkeys([*before, *after]):
        one, other = before.get(name), after.get(name)
        if one is None or other is None or one.instructions != other.instructions:
            yield name


def _side(code: Code | None) -> CodeSide | None:
    if code is None:
        return None
    return CodeSide(size_bytes=code.size_bytes, instructions=len(code.instructions), sha256=code.sha256)


def _changed_lines(before: Code | None, after: Code | None) -> int | None:
    one, other = (code.instructions if code else () for code in (before, after))
    if max(len(one), len(other)) > LONGEST:
        return None
    blocks = SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    return sum((i2 - i1) + (j2 - j1) for tag, i1, i2, j1, j2 in blocks if tag != "equal")
