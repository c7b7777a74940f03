"""BuildPin: a description of a llama.cpp build that a later one is checked against; JSON or TOML.

    schema = "arriero-lab-build-v1"
    binding = "0.3.36"
    ggml = "0.25.3"
    features = ["AVX2", "FMA", ...]

Whatever a pin leaves out is not checked. Hashes belong into a pin of one machine: a build holds the path of the folder
that it was made in, so that the same sources built twice give other bytes.
"""

from pathlib import Path
from typing import Final, Literal

import msgspec

from arriero.core.errors import DataError
from arriero.record.cpu_lab.environment import LibraryFacts
from arriero.record.cpu_lab.pretty_json import pretty_json
from arriero.record.strict import Name, Sha256, convert, read_table

SCHEMA: Final = "arriero-lab-build-v1"
CHECKED: Final = ("binding", "ggml", "commit", "features", "compilers", "files")


class BuildPin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a build has to be; null is not checked.

    Attributes:
        schema: of this file.
        note: for people.
        binding: version of the Python binding.
        ggml: version that the library says.
        commit: of llama.cpp, as the library says it.
        features: what it was compiled for, exactly.
        compilers: that left their name in its files, exactly.
        files: base name -> SHA-256, exactly.
    """

    # no default: `omit_defaults` would leave it out
    schema: Literal["arriero-lab-build-v1"]
    note: str | None = None
    binding: Name | None = None
    ggml: Name | None = None
    commit: Name | None = None
    features: tuple[Name, ...] | None = None
    compilers: tuple[Name, ...] | None = None
    files: dict[Name, Sha256] | None = None


def read_pin(path: Path) -> BuildPin:
    """Read a pin.

    Raises:
        DataError: it cannot be read, is of another form, or checks nothing.
    """
    pin = convert(read_table(path), BuildPin, file=str(path))
    if all(getattr(pin, name) is None for name in CHECKED):
        raise DataError(f"checks nothing; give one of {', '.join(CHECKED)}", file=str(path))
    return pin


def pin_of(facts: LibraryFacts, note: str | None = None) -> BuildPin:
    """A pin of all that is known of a build."""
    return BuildPin(
        schema=SCHEMA,
        note=note,
        binding=facts.binding,
        ggml=facts.ggml,
        commit=facts.commit,
        features=facts.features,
        compilers=facts.compilers,
        files=facts.hashes,
    )


def encode_pin(pin: BuildPin) -> bytes:
    """As JSON that a person can read."""
    return pretty_json(pin)


def pin_differences(pin: BuildPin, facts: LibraryFacts) -> tuple[str, ...]:
    """One line for each thing that is not as pinned: first what is, then what should be."""
    return (
        *_word_differences(pin, facts),
        *_set_differences("features", pin.features, facts.features, "is compiled in", "is not compiled in"),
        *_set_differences("compilers", pin.compilers, facts.compilers, "left its name", "did not leave its name"),
        *_file_differences(pin.files, facts.hashes),
    )


def _word_differences(pin: BuildPin, facts: LibraryFacts) -> list[str]:
    pairs = (
        ("binding", pin.binding, facts.binding),
        ("ggml", pin.ggml, facts.ggml),
        ("commit", pin.commit, facts.commit),
    )
    return [
        f"{name}: {found or 'unknown'} here, {wanted} pinned"
        for name, wanted, found in pairs
        if wanted is not None and wanted != found
    ]


def _set_differences(
    name: str, wanted: tuple[str, ...] | None, found: tuple[str, ...], there: str, missing: str
) -> list[str]:
    if wanted is None:
        return []
    return [f"{name}: {each} {there} here, and not pinned" for each in sorted(set(found) - set(wanted))] + [
        f"{name}: {each} {missing} here, and pinned" for each in sorted(set(wanted) - set(found))
    ]


def _file_differences(wanted: dict[str, str] | None, found: dict[str, str]) -> list[str]:
    if wanted is None:
        return []
    lines: list[str] = []
    for name in sorted(wanted | found):
        ours, theirs = found.get(name), wanted.get(name)
        if ours is None:
            lines.append(f"files: {name} is not loaded here, and pinned")
        elif theirs is None:
            lines.append(f"files: {name} is loaded here, and not pinned")
        elif ours != theirs:
            lines.append(f"files: {name} has SHA-256 {ours[:16]}... here, {theirs[:16]}... pinned")
    return lines
