"""What a workload says about a request, and whether its row repeats it."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from arriero.record.lab_place import Place
from arriero.record.lab_rows import RequestRow


class Envelope(Protocol):
    """What a workload says about one request."""

    @property
    def request_id(self) -> str:
        """Unique."""
        ...

    @property
    def arrival_time_us(self) -> int:
        """When it came."""
        ...

    @property
    def prompt_token_count(self) -> int:
        """Prompt tokens."""
        ...

    @property
    def max_new_tokens(self) -> int:
        """Output tokens."""
        ...

    @property
    def workload_class(self) -> str:
        """Label."""
        ...

    @property
    def prompt_tokens(self) -> Sequence[int] | None:
        """The prompt, if it is known."""
        ...

    @property
    def prefix_group(self) -> str | None:
        """Label."""
        ...

    @property
    def deadline_us(self) -> int | None:
        """A note."""
        ...

    @property
    def metadata(self) -> Mapping[str, Any] | None:
        """Anything."""
        ...


def check_envelope(row: RequestRow, asked: Envelope, place: Place) -> None:
    """Whether a request row says of its request what the workload says.

    Raises:
        DataError: names the field.
    """
    place.require(
        row,
        {
            "request_id": asked.request_id,
            "arrival_time_us": asked.arrival_time_us,
            "prompt_tokens_original": asked.prompt_token_count,
            "max_new_tokens": asked.max_new_tokens,
            "workload_class": str(asked.workload_class),
            "prompt_tokens": None if asked.prompt_tokens is None else list(asked.prompt_tokens),
            "prefix_group": asked.prefix_group,
            "deadline_us": asked.deadline_us,
            "metadata": dict(asked.metadata or {}),
        },
    )
