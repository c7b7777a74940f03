"""Which model files `arriero lab recommend` looks at: the present one, formats made from it, and others by name."""

import shlex
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from arriero.cli.model_quantize import FOLDER, format_of, new_name
from arriero.cli.progress import Progress
from arriero.core.errors import ConfigError

if TYPE_CHECKING:
    from arriero.backend.models import WeightFormat
    from arriero.lab.recommend.bounds import Bound
    from arriero.record.cpu_lab.analysis import Quality
    from arriero.record.cpu_lab.recommendation import CandidateFile

DEFAULT_MODELS: Final = FOLDER
"""Where formats are made: the folder of `model quantize`."""


def candidate_files(flags: Namespace) -> "tuple[CandidateFile, ...]":
    """The files, the present one first; formats that are missing are made, which takes seconds for a small model.

    Raises:
        ConfigError: a format or a bound that does not exist, a file that cannot be read, two files of one name, or
            files of which nothing says how good they are, with the command that finds it out.
        DataError: the quality file cannot be read.
    """
    from arriero.backend.models import resolve_model
    from arriero.lab.recommend.bounds import parse_bounds

    bounds = parse_bounds(flags.quality_bound or ())
    present = resolve_model(flags.model)
    others = [*_made(flags, present), *(resolve_model(name) for name in flags.file or ())]
    paths = list(dict.fromkeys(path.resolve() for path in (present, *others)))
    twice = sorted({path.name for path in paths if sum(each.name == path.name for each in paths) > 1})
    if twice:
        raise ConfigError(
            f"{', '.join(twice)}: several files have this name, so tables could not tell them; rename one"
        )
    if len(paths) > 1 and flags.quality is None and bounds is not None:
        raise ConfigError(
            "nothing says how good the answers of the other files are; find it out with: "
            f"{quality_command(present, paths[1:])}; then give --quality quality.json, or take anything with "
            "--quality-bound none"
        )
    qualities = _qualities(flags)
    return tuple(_candidate(path, qualities, bounds, is_present=path == present.resolve()) for path in paths)


def quality_command(reference: Path, others: Sequence[Path]) -> str:
    """The command that measures the quality of some files, as it is typed."""
    words = ["arriero", "lab", "quality", "--reference", str(reference)]
    return shlex.join([*words, *map(str, others), "--out", "quality.json"])


def bound_words(flags: Namespace) -> tuple[str, ...]:
    """The bounds that hold, for a person."""
    from arriero.lab.recommend.bounds import parse_bounds

    bounds = parse_bounds(flags.quality_bound or ())
    return ("any quality is accepted",) if bounds is None else tuple(bound.words for bound in bounds)


def _made(flags: Namespace, source: Path) -> list[Path]:
    """Files of the formats that were asked for; one that is there already is taken."""
    from arriero.lab.machine.model_file import model_facts

    wanted = [format_of(word.strip()) for word in (flags.formats or "").split(",") if word.strip()]
    facts = model_facts(source)
    folder = Path(flags.models)
    paths: list[Path] = []
    for each in wanted:
        if facts.declared_format == each:
            print(f"note: {facts.file} is {each} itself", file=sys.stderr)
            continue
        path = folder / new_name(facts.file, each)
        if not path.exists():
            _make(source, path, each)
        paths.append(path)
    return paths


def _make(source: Path, path: Path, wanted: "WeightFormat") -> None:
    from arriero.backend.library import process_start, process_stop
    from arriero.backend.models import quantize

    path.parent.mkdir(parents=True, exist_ok=True)
    process_start()
    try:
        with Progress(f"writing {path.name}"):
            quantize(source, path, wanted)
    finally:
        process_stop()


def _qualities(flags: Namespace) -> "Mapping[str, Quality]":
    if flags.quality is None:
        return {}
    from arriero.lab.analysis.qualities import qualities_of
    from arriero.record.cpu_lab.quality import read_quality

    return qualities_of(read_quality(Path(flags.quality)))


def _candidate(
    path: Path,
    qualities: "Mapping[str, Quality]",
    bounds: "Sequence[Bound] | None",
    *,
    is_present: bool,
) -> "CandidateFile":
    from arriero.backend.fingerprint import sample_digest
    from arriero.lab.machine.model_file import model_facts
    from arriero.lab.recommend.bounds import refusal
    from arriero.record.cpu_lab.recommendation import CandidateFile

    facts = model_facts(path)
    quality = qualities.get(facts.sha256)
    return CandidateFile(
        name=facts.file,
        path=str(path),
        num_bytes=facts.bytes,
        sha256=facts.sha256,
        digest=sample_digest(path),
        weights=facts.declared_format or "unknown",
        is_present=is_present,
        quality=quality,
        # whoever uses a file has accepted it
        refused=None if is_present else refusal(quality, bounds),
    )
