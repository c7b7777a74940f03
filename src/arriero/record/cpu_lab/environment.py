"""LabEnvironment: the machine, the compilers, the llama.cpp in use and the revision that stand beside every figure.

Its fingerprint is one word for all that decides how fast the same work runs: results with different ones are not
compared without saying so. What changes from moment to moment (frequency, load) and what only reads (paths) stays out.
"""

import hashlib
import json
from typing import Any

import msgspec

from arriero.record.machine import MachineFacts
from arriero.record.strict import Count, Name, Sha256


class LibraryFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One shared library that is loaded.

    Attributes:
        name: base name.
        bytes: its size.
        sha256: of its content.
    """

    name: Name
    bytes: Count
    sha256: Sha256


class LibraryFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The llama.cpp that this process has loaded.

    Attributes:
        binding: version of the Python binding.
        ggml: version that the library says.
        commit: of llama.cpp, as the library says it; `-dirty` stands for sources that are no clean checkout, which
            those inside the binding's package never are.
        features: what the library says it was compiled for, by llama.cpp's names, sorted.
        compilers: that left their name in the files, sorted.
        files: the libraries of llama.cpp that are mapped, by base name.
        strays: base names of those that lie in another folder than libllama: two builds are mixed.
    """

    binding: Name
    ggml: str | None
    commit: str | None
    features: tuple[str, ...]
    compilers: tuple[str, ...]
    files: tuple[LibraryFile, ...]
    strays: tuple[str, ...] = ()

    @property
    def hashes(self) -> dict[str, str]:
        """Base name -> SHA-256."""
        return {file.name: file.sha256 for file in self.files}


class LabEnvironment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a result was measured.

    Attributes:
        machine: its facts.
        isa: instruction sets of the CPU that matter to matrix kernels, by the kernel's names, sorted.
        compilers: `gcc`, `clang` -> what it says of itself; those that are there.
        library: the llama.cpp in use; null where none can be loaded.
        version: of arriero.
        revision: of its checkout; null for an installed package.
        is_dirty: the checkout differs from its revision, or it cannot be told.
        fingerprint: see `environment_fingerprint`.
        reasons: name of a field that is null -> why.
    """

    machine: MachineFacts
    isa: tuple[str, ...]
    compilers: dict[str, str]
    library: LibraryFacts | None
    version: Name
    revision: str | None
    is_dirty: bool
    fingerprint: Sha256
    reasons: dict[str, str]


def environment_fingerprint(machine: MachineFacts, isa: tuple[str, ...], library: LibraryFacts | None) -> str:
    """SHA-256 of the sorted JSON of what decides speed: CPU, cores, limits, kernel, instruction sets, library hashes.

    Compilers are not in it: what they made is, by its hash.
    """
    facts: dict[str, Any] = {
        "cpu": machine.cpu,
        "cores": machine.cores,
        "cores_online": machine.cores_online,
        "cgroup_cores": machine.cgroup_cores,
        "governor": machine.governor,
        "virtualised": machine.virtualised,
        "memory_bytes": machine.memory_bytes,
        "kernel": machine.kernel,
        "isa": isa,
        "library": None if library is None else library.hashes,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
