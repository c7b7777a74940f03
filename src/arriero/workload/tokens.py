"""PackedTokens: the token ids of one prompt, four bytes each.

A tuple of Python integers costs about forty bytes a token; a workload of a million prompts would not fit.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, final, overload

from arriero.core.errors import BadWorkload

TOKEN_MIN: Final = -(2**31)
TOKEN_MAX: Final = 2**31 - 1
_INT32: Final = "i"


@final
class PackedTokens(Sequence[int]):
    """An immutable sequence of int32; equal and hashed by its content.

    Raises:
        BadWorkload: an id is no int32.
    """

    __slots__ = ("_ids",)

    def __init__(self, ids: Iterable[int] = ()) -> None:
        try:
            self._ids = array(_INT32, ids)
        except (OverflowError, TypeError):
            raise BadWorkload(
                "prompt_tokens: a token id is no int32; use integers from -2^31 to 2^31 - 1", field="prompt_tokens"
            ) from None

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> "PackedTokens": ...
    def __getitem__(self, index: int | slice) -> "int | PackedTokens":
        """One id, or a copy of a stretch."""
        return self._ids[index] if isinstance(index, int) else PackedTokens(self._ids[index])

    def __len__(self) -> int:
        """How many."""
        return len(self._ids)

    def __iter__(self) -> Iterator[int]:
        """In order."""
        return iter(self._ids)

    def __eq__(self, other: object) -> bool:
        """Whether the other holds the same ids; a list or tuple never does."""
        return isinstance(other, PackedTokens) and self._ids == other._ids

    def __hash__(self) -> int:
        """By content, for use in sets within one process."""
        return hash(self._ids.tobytes())

    def __repr__(self) -> str:
        """The ids in full up to eight, else the first ones and the count."""
        shown = ", ".join(map(str, self._ids[:8]))
        return f"PackedTokens([{shown}{', ...' if len(self) > 8 else ''}], {len(self)} tokens)"

    def to_list(self) -> list[int]:
        """A list of Python integers."""
        return self._ids.tolist()

    def to_bytes(self) -> bytes:
        """The ids in the machine's own byte order, for comparing."""
        return self._ids.tobytes()
