"""Kept recommendations: where `arriero lab recommend` puts them, and where a server finds them.

One file for each model file that was looked at, under the file's name and a digest of machine and content, so that one
for another machine or another file has another name. `ARRIERO_RECOMMENDATIONS` names another folder, or is `off`.
"""

import hashlib
import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from arriero.cli.simulation.output import new_file
from arriero.cli.sources import RECOMMENDATIONS_VARIABLE
from arriero.core.errors import ConfigError, DataError
from arriero.record.cpu_lab.recommendation import (
    Recommendation,
    RecommendationRun,
    encode_recommendation,
    read_recommendation,
    recommendations_of,
)

logger = logging.getLogger(__name__)

OFF: Final = "off"
RECOMMENDED: Final = "recommended"
"""As a model reference: the file that the newest recommendation for this machine names."""

MAKES_ONE: Final = "make one with"
_DIGEST_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class FoundRecommendation:
    """A recommendation that fits.

    Attributes:
        path: where it lies.
    """

    path: Path
    recommendation: Recommendation


def kept_folder(environment: Mapping[str, str]) -> Path | None:
    """The folder that is named, else `arriero/recommend` in the user's cache folder; None: recommendations are off."""
    named = environment.get(RECOMMENDATIONS_VARIABLE)
    if named == OFF:
        return None
    return Path(named) if named else cache_folder(environment) / "recommend"


def cache_folder(environment: Mapping[str, str]) -> Path:
    """`arriero` in the user's cache folder."""
    cache = environment.get("XDG_CACHE_HOME") or ""
    return (Path(cache) if Path(cache).is_absolute() else Path.home() / ".cache") / "arriero"


def kept_path(folder: Path, name: str, digest: str, machine: Mapping[str, str]) -> Path:
    """Where the recommendation for a model file on a machine is kept.

    Args:
        folder: of all of them.
        name: base name of the model file.
        digest: of its content.
        machine: what has to be equal, in words.
    """
    facts = json.dumps([digest, sorted(machine.items())], ensure_ascii=True).encode()
    word = re.sub(r"[^A-Za-z0-9._]+", "_", name.removesuffix(".gguf")) or "model"
    return folder / f"{word}-{hashlib.blake2b(facts, digest_size=_DIGEST_BYTES).hexdigest()}.json"


def keep(folder: Path, run: RecommendationRun) -> tuple[Path, ...]:
    """Keep what a run recommends, for each file that it considered; newer ones take the place of older ones.

    Raises:
        ConfigError: a file cannot be written.
    """
    paths: list[Path] = []
    for each in recommendations_of(run):
        path = kept_path(folder, each.file, each.candidate.digest, run.machine)
        with new_file(path, force=True) as file:
            file.write(encode_recommendation(each))
        paths.append(path)
    return tuple(paths)


def find_recommendation(folder: Path, name: str, digest: str, machine: Mapping[str, str]) -> FoundRecommendation | None:
    """The one for this file on this machine; what cannot be read, or does not fit, is told and left."""
    path = kept_path(folder, name, digest, machine)
    found = _read(path)
    if found is not None and found.candidate.digest == digest and not found.differences(machine):
        return FoundRecommendation(path, found)
    for other, kept in _all(folder):
        if kept.candidate.digest == digest and (differences := kept.differences(machine)):
            logger.warning("the recommendation %s is not used: it does not fit (%s)", other, "; ".join(differences))
            return None
    return None


def recommended_file(folder: Path | None, machine: Mapping[str, str]) -> Path:
    """The file that the newest recommendation for this machine names.

    Raises:
        ConfigError: there is none, or the file is no longer there.
    """
    remedy = f"{MAKES_ONE}: arriero lab recommend"
    if folder is None:
        raise ConfigError(f"--model {RECOMMENDED}: recommendations are off ({RECOMMENDATIONS_VARIABLE}); name a file")
    fitting = [kept for _, kept in _all(folder) if not kept.differences(machine)]
    if not fitting:
        raise ConfigError(f"--model {RECOMMENDED}: no recommendation for this machine in {folder}; {remedy}")
    newest = max(fitting, key=lambda kept: kept.run.made_at)
    path = Path(newest.best.path)
    if not path.is_file():
        raise ConfigError(f"--model {RECOMMENDED}: {path} is gone; {remedy}, or name a file")
    return path


def _all(folder: Path) -> Iterator[tuple[Path, Recommendation]]:
    for path in sorted(folder.glob("*.json")):
        if (kept := _read(path)) is not None:
            yield path, kept


def _read(path: Path) -> Recommendation | None:
    if not path.is_file():
        return None
    try:
        return read_recommendation(path)
    except DataError as error:
        logger.warning("the recommendation %s is not used: %s", path, error)
        return None
