"""What a result says of the cost profile that its simulations rest on."""

from pathlib import Path

from arriero.core.option_kinds import Threads
from arriero.record.bench_parts import BenchPart
from arriero.record.cost_profile import CostProfile
from arriero.record.strict import Name, Sha256


class ProfileFacts(BenchPart, frozen=True, kw_only=True):
    """The costs of steps.

    Attributes:
        file: its name, without its folder.
        model: that was calibrated.
        threads: that compute, as `--threads` takes them.
        busy: why its figures are doubtful, or null.
    """

    file: Name
    sha256: Sha256
    model: Name
    threads: Name
    busy: str | None


def profile_facts(path: Path, sha256: str, profile: CostProfile, threads: Threads | None) -> ProfileFacts:
    """The facts of a profile in this file; `threads` are those that compute, None those of the profile."""
    used = threads or Threads(profile.threads.decode, profile.threads.prefill)
    return ProfileFacts(
        file=path.name, sha256=sha256, model=profile.name, threads=str(used), busy=profile.measuring.busy
    )
