"""Stories: from the id that a client knows to the requests of the engine behind it, for a while after their end too."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from arriero.core.ids import Time
from arriero.http.errors import kind_of
from arriero.http.rows import Story
from arriero.http.tenants import Tenant

KEPT: Final = 1_000
"""Requests that are kept after their last byte."""

_Key: TypeAlias = tuple[Tenant, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One request of a client.

    Attributes:
        request_ids: the engine's numbers, one for each sequence; None where nothing was asked of the engine.
        arrival_at: when it was complete and found sound.
        exit_at: when its last byte was written, or its client gone; None: it is being answered.
        error: the code of the error that it was answered with, or None.
    """

    request_ids: tuple[int | None, ...]
    arrival_at: Time
    exit_at: Time | None = None
    error: str | None = None

    @property
    def num_asked(self) -> int:
        """Sequences that the engine was asked for."""
        return sum(each is not None for each in self.request_ids)


class Stories:
    """Belongs to one application, on its event loop; bounded."""

    def __init__(self, clock: Callable[[], Time], *, kept: int = KEPT) -> None:
        """`clock` is the engine's."""
        self._clock = clock
        self._kept = kept
        self._open: dict[_Key, Story] = {}
        self._ended: dict[_Key, Told] = {}  # in the order of their ends

    def begin(self, tenant: Tenant, story: Story) -> None:
        """A request has an id, and will be answered or refused."""
        self._open[tenant, story.answer_id] = story

    def end(self, tenant: Tenant, story: Story) -> None:
        """Its last byte is written; a later request may have taken its id meanwhile, which then stands for that one."""
        key = tenant, story.answer_id
        if self._open.get(key) is story:
            del self._open[key]
        self._ended.pop(key, None)
        self._ended[key] = _told(story, self._clock())
        if len(self._ended) > self._kept:
            del self._ended[next(iter(self._ended))]

    def find(self, tenant: Tenant, answer_id: str) -> Told | None:
        """What is known of an id; None: this tenant has no such request, or it ended too long ago."""
        story = self._open.get((tenant, answer_id))
        return self._ended.get((tenant, answer_id)) if story is None else _told(story, None)

    def names(self, tenant: Tenant) -> Mapping[int, str]:
        """The ids of this tenant's requests by the engine's numbers; O(requests kept)."""
        every = [*self._ended.items(), *((key, _told(story, None)) for key, story in self._open.items())]
        return {
            request_id: answer_id
            for (owner, answer_id), told in every
            if owner == tenant
            for request_id in told.request_ids
            if request_id is not None
        }


def _told(story: Story, exit_at: Time | None) -> Told:
    kind = None if story.error is None else kind_of(story.error)
    return Told(
        request_ids=tuple(None if each.handle is None else int(each.handle.request_id) for each in story.answerings),
        arrival_at=story.entered_at if story.arrival_at is None else story.arrival_at,
        exit_at=exit_at,
        error=None if kind is None else kind.code or kind.type,
    )
