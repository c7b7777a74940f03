"""Whether the binding can load a build: tried in a process of its own, which ends with what it loaded.

python -m arriero.lab.variant.load_check        LLAMA_CPP_LIB_PATH says which build
"""

import sys
from pathlib import Path
from typing import Final, Literal

import msgspec

from arriero.core.errors import BindingMismatch
from arriero.lab.machine.library_files import library_facts
from arriero.lab.process import run_process
from arriero.record.cpu_lab.environment import LibraryFacts
from arriero.record.cpu_lab.variant import LoadCheck

_VARIABLE: Final = "LLAMA_CPP_LIB_PATH"  # the binding's own
_PATIENCE_S: Final = 120.0
_MAIN: Final = "libllama."


def check_loads(folder: Path, build: Literal["baseline", "variant"], hashes: frozenset[str]) -> LoadCheck:
    """Try one build.

    Args:
        folder: with its libraries.
        build: which one it is.
        hashes: of its libraries: what is loaded has to be among them.
    """
    if not any(path.name.startswith(_MAIN) for path in folder.iterdir()):
        return LoadCheck(build=build, loads=None, says="no libllama among its libraries: not tried")
    environment = {_VARIABLE: str(folder.resolve())}
    done = run_process(
        [sys.executable, "-m", "arriero.lab.variant.load_check"], timeout_s=_PATIENCE_S, environment=environment
    )
    if done.return_code != 0:
        lines = (done.stdout + done.stderr).strip().splitlines() or [f"ended with status {done.return_code}"]
        return LoadCheck(build=build, loads=False, says=lines[-1])
    facts = msgspec.json.decode(done.stdout, type=LibraryFacts)
    strange = sorted({file.name for file in facts.files if file.sha256 not in hashes} | {*facts.strays})
    if strange:
        return LoadCheck(build=build, loads=False, says=f"loads libraries of another build: {', '.join(strange)}")
    features = ", ".join(facts.features)
    return LoadCheck(
        build=build, loads=True, says=f"ggml {facts.ggml or 'of unknown version'}, compiled for {features}"
    )


def main() -> int:
    """Load the binding and write what it loaded."""
    try:
        facts = library_facts()
    except BindingMismatch as problem:
        sys.stdout.write(f"{problem}\n")
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
