"""Advice: what a kept recommendation changes about a start; whatever the user sets wins.

--threads given                 it holds; the recommendation is shown and not used
none given                      the recommended counts take the place of all cores
another file would be faster    one line says so; the file that was named is loaded all the same
--model recommended             the recommended file is loaded
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from arriero.cli.recommendations import (
    MAKES_ONE,
    RECOMMENDED,
    FoundRecommendation,
    find_recommendation,
    kept_folder,
    recommended_file,
)
from arriero.cli.sources import RECOMMENDATIONS_VARIABLE
from arriero.core.config import BackendKind, ServeConfig
from arriero.core.errors import ConfigError
from arriero.core.option_kinds import Threads


class Place(Protocol):
    """What only the binding knows."""

    def machine(self) -> Mapping[str, str]:
        """What has to be equal for a recommendation to hold, in words."""
        ...

    def file_of(self, reference: str) -> Path | None:
        """The file of a model reference; None if it is not there."""
        ...

    def digest_of(self, path: Path) -> str:
        """A word for its content."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What holds for one start.

    Attributes:
        config: with the recommended file in place of the word.
        found: the recommendation for the file, or None.
        obstacle: why no thread counts are taken from it, or why none was looked for; None if neither.
    """

    config: ServeConfig
    found: FoundRecommendation | None = None
    obstacle: str | None = None

    @property
    def threads(self) -> Threads | None:
        """The counts to take; None for none."""
        return None if self.found is None or self.obstacle else self.found.recommendation.counts.threads

    def words(self, used: Threads) -> str:
        """One line for a person; `used` are the counts that compute."""
        if self.found is None and self.obstacle:
            return self.obstacle
        if self.found is None:
            return f"none; {MAKES_ONE}: arriero lab recommend --model {shlex.quote(self.config.model)}"
        found = self.found.recommendation
        doubt = "" if found.run.busy is None else " (doubtful: the machine was busy)"
        where = f"{self.found.path} of {found.run.made_at[:10]}{doubt}"
        if self.obstacle:
            return f"{where}, not used: {self.obstacle}"
        if used != found.counts.threads:
            return f"{where}, not used: the cost profile knows nothing of {found.counts.words} threads"
        judged = found.run.choice(found.file).judged
        if judged is None or not judged.is_better:
            return f"{where}: {found.counts.words} threads, nothing was found to be faster"
        return f"{where}: {found.counts.words} threads, {judged.faster}"

    @property
    def faster_file(self) -> str | None:
        """One line on the file that would be faster; None if this one is the recommended one."""
        if self.found is None:
            return None
        found = self.found.recommendation
        judged = found.run.judged
        if found.run.best == found.file or judged is None or not found.candidate.is_present:
            return None
        return f"{found.run.best} is {judged.faster}; serve it with --model {RECOMMENDED}"


def take_advice(config: ServeConfig, environment: Mapping[str, str], place: Place | None = None) -> Advice:
    """Look for a recommendation; no file is loaded, about 2 MiB of the model are read.

    Args:
        config: as it was given.
        environment: names the folder of recommendations, or switches them off.
        place: what the binding knows; None asks it.

    Raises:
        ConfigError: `--model recommended` without a recommendation that fits; the model cannot be resolved.
    """
    folder = kept_folder(environment)
    asks = config.model == RECOMMENDED
    if config.backend is BackendKind.SYNTHETIC:
        if asks:
            raise ConfigError(f"--model {RECOMMENDED}: --backend synthetic loads no file; leave out one of the two")
        return Advice(config=config, obstacle="none for a formula")
    if folder is None and not asks:
        return Advice(config=config, obstacle=f"off ({RECOMMENDATIONS_VARIABLE})")
    if folder is not None and not asks and not any(folder.glob("*.json")):
        return Advice(config=config)
    here = place or cast("Place", import_module("arriero.cli.advice_llama").LlamaPlace())
    machine = here.machine()
    if asks:
        config = replace(config, model=str(recommended_file(folder, machine)))
    path = here.file_of(config.model)
    if path is None or folder is None:
        return Advice(config=config)
    found = find_recommendation(folder, path.name, here.digest_of(path), machine)
    return Advice(config=config, found=found, obstacle=None if found is None else _obstacle(config))


def _obstacle(config: ServeConfig) -> str | None:
    """A setting that says otherwise, or under which nothing was measured."""
    if config.threads is not None:
        return "--threads is given"
    if config.engine_cpus:
        return "--engine-cpus pins the engine"
    return "--n-gpu-layers computes elsewhere" if config.n_gpu_layers else None
