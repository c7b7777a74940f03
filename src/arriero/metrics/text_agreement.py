"""How far two answers to one prompt agree: as they stand, normalised, by their first tokens, and in length.

A description, not a measure of quality: two answers part at the first near tie, and everything after it follows from
another beginning.
"""

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple


class Agreement(NamedTuple):
    """What two answers have in common."""

    exact: bool
    normalised: bool  # equal after `normalise`
    common_tokens: int  # length of the common beginning
    length_difference: int  # characters of the second - of the first


def agree(first: str, second: str, first_tokens: Sequence[int], second_tokens: Sequence[int]) -> Agreement:
    """Compare the second answer with the first one."""
    return Agreement(
        exact=first == second,
        normalised=normalise(first) == normalise(second),
        common_tokens=common_beginning(first_tokens, second_tokens),
        length_difference=len(second) - len(first),
    )


def normalise(text: str) -> str:
    """Compatible forms made one (NFKC), case folded, every stretch of white space one space, none at the ends.

    NFKC comes again after the folding, which can leave a text that is not in that form.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


def common_beginning(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens are equal before the first that is not."""
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count
