"""What only the binding knows about a recommendation's place; apart, so that nothing else needs it."""

from collections.abc import Mapping
from pathlib import Path

from arriero.backend.fingerprint import sample_digest
from arriero.backend.library import load_library
from arriero.backend.models import resolve_model
from arriero.cli.loading_llama import machine_of


class LlamaPlace:
    """This machine, with the llama.cpp in use."""

    def machine(self) -> Mapping[str, str]:
        """CPU, cores, limits, and the build with its instruction sets."""
        return machine_of(load_library())

    def file_of(self, reference: str) -> Path | None:
        """See `Place`; a file of a hub is fetched.

        Raises:
            ConfigError: see `resolve_model`.
        """
        path = resolve_model(reference)
        return path if path.is_file() else None

    def digest_of(self, path: Path) -> str:
        """Of size, beginning, end and samples in between."""
        return sample_digest(path)
