"""ResultFile: how a result becomes a file and comes back, checked against itself both times.

The text is that of `bench_result_text`: one layout for writing, one strict way of reading. A kind of file brings its
schema and the check of what its fields say together, so that nothing is written that would not be read again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from arriero.record import bench_result_text as layout

S = TypeVar("S", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFile(Generic[S]):
    """One kind of file.

    Attributes:
        kind: of its struct, with a field `schema_version`.
        schema: what that field has to say.
        check: of a result, and the name of its file for complaints; raises a `DataError` that names the field.
    """

    kind: type[S]
    schema: str
    check: Callable[[S, str], None]

    def encode(self, result: S, *, file: str = "result") -> bytes:
        """The bytes of the file; the same result always gives the same.

        Raises:
            DataError: the result would not be accepted when read.
        """
        self.check(result, file)
        return layout.encode(result, file=file)

    def decode(self, text: bytes, *, file: str) -> S:
        """A result from the bytes of a file.

        Raises:
            DataError: cut off, of another schema, with a field too many or too few, or one that contradicts others;
                one line that names the field.
        """
        result = layout.decode(text, self.kind, self.schema, file=file)
        self.check(result, file)
        return result

    def write(self, path: Path, result: S) -> None:
        """Put the file in place in one move, so that nobody ever reads half of it.

        Raises:
            ConfigError: it cannot be written.
            DataError: the result would not be accepted when read.
        """
        layout.put_in_place(path, self.encode(result, file=str(path)))

    def read(self, path: Path) -> S:
        """A result from its file.

        Raises:
            DataError: as for `decode`, or it cannot be read.
        """
        return self.decode(layout.read(path), file=str(path))
