"""Which cost profile a server uses: the one that was named, or the one that `arriero calibrate` kept for it.

Profiles are kept in one folder of the user's, under the name of the model and a digest of the whole fingerprint: so
one for another machine, model or context has another name and is never used by mistake.

    --cost-profile FILE    must fit, or the server does not start
    none given             the kept one that fits; if there is only one that does not, a warning says why not
"""

import hashlib
import logging
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from arriero.backend.protocol import BackendLimits
from arriero.cli.calibrate_flags import CALIBRATED
from arriero.cli.sources import PROFILES_VARIABLE
from arriero.core.config import OPTIONS, ServeConfig
from arriero.core.errors import ConfigError, DataError
from arriero.core.option import text
from arriero.core.option_kinds import Threads
from arriero.costmodel.calibrated import CalibratedCost
from arriero.engine.pass_rules import rules_of
from arriero.record.cost_profile import CostProfile, Fingerprint, cost_of, read_cost_profile

logger = logging.getLogger(__name__)

MAKES_ONE: Final = "make one with"
_DIGEST_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class FoundProfile:
    """A profile that fits.

    Attributes:
        path: where it lies.
        fingerprint: the one of the candidates that it fits.
        is_named: whether the configuration names it.
    """

    path: Path
    profile: CostProfile
    fingerprint: Fingerprint
    is_named: bool


@dataclass(frozen=True, slots=True)
class UsedProfile:
    """A profile, and what it says about the context that serves.

    Attributes:
        path: where it lies.
        cost: at the threads that compute, cut as the context cuts.
    """

    path: Path
    profile: CostProfile
    cost: CalibratedCost

    @property
    def words(self) -> str:
        """One line for a person: how old, and how far it errs for steps that were not among those it was fitted to."""
        errors = [each.typical for each in self.profile.residuals if each.held_out]
        error = f", off by {max(errors):.0%} for new shapes" if errors else ""
        return f"{self.path} of {self.profile.measuring.made_at[:10]}{error}"


def kept_folder(environment: Mapping[str, str]) -> Path:
    """Where profiles are kept: the folder that is named, else `arriero/cost` in the user's cache folder."""
    if named := environment.get(PROFILES_VARIABLE):
        return Path(named)
    cache = environment.get("XDG_CACHE_HOME") or ""
    home = Path(cache) if Path(cache).is_absolute() else Path.home() / ".cache"
    return home / "arriero" / "cost"


def kept_path(folder: Path, name: str, fingerprint: Fingerprint) -> Path:
    """Where the profile of a model on this machine in this context is kept."""
    facts = msgspec.json.encode(fingerprint, order="sorted")
    return folder / f"{_file_name(name)}-{hashlib.blake2b(facts, digest_size=_DIGEST_BYTES).hexdigest()}.json"


def find_profile(
    config: ServeConfig, name: str, candidates: Sequence[Fingerprint], folder: Path
) -> FoundProfile | None:
    """The profile that this server uses, if there is one.

    Args:
        config: of the server.
        name: of the model.
        candidates: what it may have to fit, the best first; several where attention is still to be settled.
        folder: where profiles are kept.

    Raises:
        ConfigError: a named one does not fit, or there is none and a setting needs one; with the command that makes it.
        DataError: a named one cannot be read.
    """
    if config.cost_profile is not None:
        return _named(Path(config.cost_profile), candidates)
    if (found := _kept(name, candidates, folder)) is not None:
        return found
    if (setting := _needs_one(config)) is not None:
        raise ConfigError(f"{setting}: no cost profile of this model and machine; {MAKES_ONE}: {command(config)}")
    _warn_of_others(config, name, candidates[0], folder)
    return None


def use_profile(
    found: FoundProfile | None, config: ServeConfig, threads: Threads, limits: BackendLimits
) -> UsedProfile | None:
    """The costs of a profile that was found, for the context that serves; None for none.

    Raises:
        ConfigError: it was not calibrated for these threads, and it was named, or a setting needs it.
    """
    if found is None:
        return None
    try:
        cost = cost_of(found.profile, threads=threads, rules=rules_of(limits))
    except ConfigError as error:
        if found.is_named or _needs_one(config) is not None:
            raise
        logger.warning("the cost profile %s is not used: %s", found.path, error)
        return None
    if found.profile.measuring.busy is not None:
        logger.warning("the cost profile %s is doubtful: %s", found.path, found.profile.measuring.busy)
    return UsedProfile(found.path, found.profile, cost)


def command(config: ServeConfig) -> str:
    """The calibration that fits a server, as it is typed."""
    words = ["arriero", "calibrate"]
    for option in OPTIONS:
        value = getattr(config, option.name)
        if option.name in CALIBRATED and value != option.default:
            words += [option.flag, text(value)]
    if config.threads is not None:
        numbers = sorted({1, config.threads.decode, config.threads.prefill})
        words += ["--threads", ",".join(map(str, numbers))]
    return shlex.join(words)


def _named(path: Path, candidates: Sequence[Fingerprint]) -> FoundProfile:
    profile = read_cost_profile(path)
    for each in candidates:
        if not profile.fingerprint.differences(each):
            return FoundProfile(path, profile, each, is_named=True)
    differences = "; ".join(profile.fingerprint.differences(candidates[0]))
    raise ConfigError(f"--cost-profile {path}: it does not fit ({differences}); calibrate again, or leave it out")


def _kept(name: str, candidates: Sequence[Fingerprint], folder: Path) -> FoundProfile | None:
    """The newest of those that fit; one that cannot be read is told and left."""
    found: list[FoundProfile] = []
    for each in candidates:
        path = kept_path(folder, name, each)
        profile = _read(path)
        if profile is not None and not profile.fingerprint.differences(each):
            found.append(FoundProfile(path, profile, each, is_named=False))
    return max(found, key=lambda one: one.profile.measuring.made_at, default=None)


def _read(path: Path) -> CostProfile | None:
    if not path.is_file():
        return None
    try:
        return read_cost_profile(path)
    except DataError as error:
        logger.warning("the cost profile %s is not used: %s", path, error)
        return None


def _warn_of_others(config: ServeConfig, name: str, here: Fingerprint, folder: Path) -> None:
    """If something was calibrated under this name, say in what it differs."""
    others = [(path, profile) for path in folder.glob(f"{_file_name(name)}-*.json") if (profile := _read(path))]
    if not others:
        return
    path, profile = max(others, key=lambda other: (-len(other[1].fingerprint.differences(here)), other[0].name))
    differences = "; ".join(profile.fingerprint.differences(here))
    why = f"it does not fit ({differences}); {MAKES_ONE}: {command(config)}"
    logger.warning("the cost profile %s is not used: %s", path, why)


def _needs_one(config: ServeConfig) -> str | None:
    """A setting that means nothing without a profile."""
    if config.itl_target is not None:
        return f"--itl-target {config.itl_target}"
    return "--adapt-threads" if config.adapt_threads else None


def _file_name(name: str) -> str:
    """Letters, digits and a few signs; whatever a model is called."""
    return re.sub(r"[^A-Za-z0-9._]+", "_", name) or "model"
