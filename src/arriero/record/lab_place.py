"""Where a row of a result file stands, for complaints about it.

Texts name line and field; whoever shows an error puts its `file` before them.
"""

from collections.abc import Mapping
from typing import NamedTuple

from arriero.core.errors import DataError


class Place(NamedTuple):
    """A line of a file."""

    file: str
    line: int

    def broken(self, field: str, what: str) -> DataError:
        """The error that says what is wrong with a field of this line."""
        text = f"line {self.line}: {field}: {what}"
        return DataError(text, file=self.file, line=self.line, field=field)

    def require(self, row: object, expected: Mapping[str, object]) -> None:
        """Compare fields of a row with what follows from everything else.

        Raises:
            DataError: the first that differs.
        """
        for field, value in expected.items():
            found = getattr(row, field)
            if found != value:
                raise self.broken(field, f"is {_shown(found)}, but must be {_shown(value)}; run the simulation again")


def _shown(value: object) -> str:
    text = "null" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
