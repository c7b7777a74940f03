"""What a server says of its own version: its program is run once more, only to print that and end."""

import subprocess
from dataclasses import replace
from typing import Final

from arriero.bench.servers_commands import ServerCommand, ServerValues

PATIENCE_S: Final = 30.0
_MOST_LINES: Final = 4
_MOST_LETTERS: Final = 200  # of a line


def version_of(command: ServerCommand, values: ServerValues, *, patience_s: float = PATIENCE_S) -> str | None:
    """The first lines that the program prints of its version, as one.

    Args:
        command: of the server; what asks for its version is in `command.version`.
        values: what its braces stand for.
        patience_s: until it has to end.

    Returns:
        None if nothing is known that would ask it, or it does not say.
    """
    if not command.version:
        return None
    words = replace(command, words=command.version).filled(values)
    try:
        done = subprocess.run(  # noqa: S603 - the program is the user's own
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=patience_s,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    said = [line.strip()[:_MOST_LETTERS] for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
    return "; ".join(said[:_MOST_LINES]) if said and done.returncode == 0 else None
