"""Urgency: how soon a request wants its answer, from its body or from headers."""

import re
from dataclasses import dataclass, replace
from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from arriero.core.errors import InvalidRequest
from arriero.core.request import LEAST_URGENT, MOST_URGENT

MAX_MS: Final = 2**31 - 1

PriorityLevel: TypeAlias = Annotated[int, Meta(ge=MOST_URGENT, le=LEAST_URGENT)]
Milliseconds: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_MS)]

_NUMBER: Final = re.compile(rb"[+-]?[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class Urgency:
    """How soon.

    Attributes:
        priority: smaller goes first where the policy looks at it; None: 0.
        deadline_ms: after its arrival the answer is of no use; None: whenever it comes.
    """

    priority: int | None = None
    deadline_ms: int | None = None

    def with_headers(self, priority: bytes | None, deadline: bytes | None) -> "Urgency":
        """The same with `X-Priority` and `X-Deadline-Ms`, for clients that cannot change their bodies.

        Raises:
            InvalidRequest: one is no number of its range, or the body says another one.
        """
        return replace(
            self,
            priority=_agreed("priority", "X-Priority", self.priority, priority, (MOST_URGENT, LEAST_URGENT)),
            deadline_ms=_agreed("deadline_ms", "X-Deadline-Ms", self.deadline_ms, deadline, (1, MAX_MS)),
        )


NO_URGENCY: Final = Urgency()


def _agreed(field: str, header: str, told: int | None, value: bytes | None, bounds: tuple[int, int]) -> int | None:
    if value is None:
        return told
    least, most = bounds
    number = int(value) if _NUMBER.fullmatch(value.strip()) else None
    if number is None or not least <= number <= most:
        shown = value[:40].decode("latin-1")
        message = f"the header {header} must be a whole number from {least} to {most}, not {shown!r}"
        raise InvalidRequest(message, field=field)
    if told is not None and told != number:
        raise InvalidRequest(f"{field} and the header {header} differ; send one of them", field=field)
    return number
