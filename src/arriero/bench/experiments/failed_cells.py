"""FailedCells: a server that fails takes the cell with it that was being measured, and never the experiment."""

from contextlib import AbstractContextManager
from typing import Any

from arriero.bench.experiments.calls import CallFailed
from arriero.bench.experiments.experiment import Statement
from arriero.bench.servers import ServerFailed
from arriero.record.provenance import portable_command


class FailedCells:
    """Which cells have no result since their server failed, and why."""

    def __init__(self) -> None:
        """None yet."""
        self._reasons: dict[str, str] = {}
        self._num_cells = 0

    def losing(self, cell: str) -> AbstractContextManager[None, bool]:
        """Run one cell in the block; if its server fails, the cell is noted and whatever follows the block goes on."""
        self._num_cells += 1
        return _Losing(cell, self._reasons)

    @property
    def facts(self) -> dict[str, Any]:
        """Each cell with its reason, for the facts of an outcome; nothing where every server served."""
        return {"failed_cells": self._reasons} if self._reasons else {}

    def statement(self, word: str = "") -> Statement:
        """That every cell was measured.

        Args:
            word: which cells, where there are also others.
        """
        seen = f"{len(self._reasons)} of {self._num_cells}"
        if self._reasons:
            cell, reason = next(iter(self._reasons.items()))
            seen += f", such as {cell}: {reason}"
        text = f"{word}: cells whose server failed" if word else "cells whose server failed"
        return Statement.so(text, seen, "none", holds=not self._reasons)


class _Losing(AbstractContextManager[None, bool]):
    """One cell, which may be lost."""

    def __init__(self, cell: str, reasons: dict[str, str]) -> None:
        self._cell = cell
        self._reasons = reasons

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, failure: BaseException | None, traceback: object) -> bool:
        if not isinstance(failure, ServerFailed | CallFailed):
            return False
        self._reasons[self._cell] = _portable(str(failure))
        return True


def _portable(text: str) -> str:
    """The text on one line, without absolute paths; a route of one part stays."""
    return " ".join(portable_command([word])[0] if word.count("/") > 1 else word for word in text.split())
