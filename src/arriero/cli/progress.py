"""Progress: says that something long is alive, from its third second on."""

import json
import sys
import threading
import time
from types import TracebackType
from typing import Final, Self, TextIO

PATIENCE_S: Final = 2.0
EVERY_S: Final = 5.0  # between two lines where nobody can overwrite one


class Progress:
    """A context in which something long happens; quiet if it turns out short.

    A terminal shows one line that counts the seconds and is wiped at the end; a file or pipe gets a line now and then.
    """

    def __init__(self, what: str, stream: TextIO | None = None, *, as_json: bool = False) -> None:
        """Name what happens, as in `loading the model`; `as_json` writes JSON lines, as the log beside it does."""
        self._what = what
        self._as_json = as_json
        self._stream = stream or sys.stderr
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, name="arriero-progress", daemon=True)

    def __enter__(self) -> Self:
        """Begin to count."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and wipe the line."""
        self._over.set()
        self._thread.join()

    def _tell(self) -> None:
        began_at = time.monotonic()
        if self._over.wait(PATIENCE_S):
            return
        on_terminal = self._stream.isatty() and not self._as_json
        over = False
        while not over:
            text = f"{self._what} ... {int(time.monotonic() - began_at)} s"
            line = json.dumps({"level": "info", "message": text}) if self._as_json else text
            self._write(f"\r{line}" if on_terminal else f"{line}\n")
            over = self._over.wait(1.0 if on_terminal else EVERY_S)
        if on_terminal:
            self._write("\r\033[K")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
