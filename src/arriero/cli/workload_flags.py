"""Flags that several verbs of `arriero workload` have in common, and the two files that they write."""

import argparse
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO, Final

from arriero.core.errors import ConfigError

_SUFFIX: Final = ".jsonl"
_DECIMAL: Final = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)


def add_output(parser: argparse.ArgumentParser) -> None:
    """Give the parser the flags that name the files to write."""
    parser.add_argument("--out", metavar="FILE", required=True, help="the workload to write")
    parser.add_argument("--manifest", metavar="FILE", help="its manifest (default: beside it, as NAME.manifest.json)")
    parser.add_argument("--force", action="store_true", help="replace files that exist")


def manifest_path(flags: argparse.Namespace) -> Path:
    """Where the manifest goes: beside the workload unless it was given a place."""
    if flags.manifest:
        return Path(flags.manifest)
    out = Path(flags.out)
    return out.with_name(f"{out.name.removesuffix(_SUFFIX)}.manifest.json")


@contextmanager
def outputs(flags: argparse.Namespace) -> Generator[tuple[BinaryIO, BinaryIO]]:
    """Both files to write to; they appear at the end, when both are whole.

    Raises:
        ConfigError: one exists and may not be replaced, or cannot be written.
    """
    from arriero.workload.staging import staged

    out = Path(flags.out)
    if not out.name or os.path.realpath(out) == os.path.realpath(manifest_path(flags)):
        raise ConfigError(f"--out {flags.out}: names no file of its own; give workload and manifest a name each")
    replace: bool = flags.force
    with staged(out, replace=replace) as out_file, staged(manifest_path(flags), replace=replace) as manifest_file:
        yield out_file, manifest_file


def count(text: str) -> int:
    """A whole number, 0 included."""
    return _whole(text, 0)


def positive(text: str) -> int:
    """A whole number from 1 on."""
    return _whole(text, 1)


def _whole(text: str, least: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) >= least):
        raise argparse.ArgumentTypeError(f"{text} is no whole number from {least} on")
    return int(text)


def factor(text: str) -> Fraction:
    """A factor, exactly as it was written."""
    value = Fraction(text) if _DECIMAL.fullmatch(text) else Fraction(0)
    if not Fraction(1, 10**6) <= value <= 10**6:
        raise argparse.ArgumentTypeError(f"{text} is no factor; use a number such as 0.5 or 4")
    return value
