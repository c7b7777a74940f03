"""EventDecoder: the bytes of an event stream, cut anywhere, to events with the moment at which each was complete.

An event's moment is that of the piece that held the end of its last `data:` line: from then on its reader has all of
it, whether the blank line after it came together or later. Bytes in, bytes out: text is decoded by whoever reads the
JSON, so a character that is cut in two by the network is whole again here.
"""

from typing import Final, NamedTuple

_DATA: Final = b"data"
_EVENT: Final = b"event"


class Event(NamedTuple):
    """One event.

    Attributes:
        at: when its data was complete.
        data: its `data:` lines, joined by line feeds.
        name: its `event:` field, empty as a rule.
    """

    at: int
    data: bytes
    name: bytes


class EventDecoder:
    """Decodes one stream; lines end in LF, CR LF or CR, as the standard says."""

    __slots__ = ("_at", "_data", "_name", "_rest")

    def __init__(self) -> None:
        """Nothing has come yet."""
        self._rest = b""
        self._data: list[bytes] = []
        self._name = b""
        self._at = 0

    def feed(self, at: int, piece: bytes) -> list[Event]:
        """The events that a piece completes."""
        if not (self._rest or self._data or self._name) and _is_one_event(piece):
            return [Event(at, piece[6:-2], b"")]
        text = self._rest + piece
        # a CR at the end may be half of a CR LF
        held = len(text) - 1 if text.endswith(b"\r") else len(text)
        lines = text[:held].splitlines(keepends=True)
        self._rest = text[held:]
        if lines and not lines[-1].endswith((b"\n", b"\r")):
            self._rest = lines.pop() + self._rest
        events: list[Event] = []
        for line in lines:
            self._take(at, line.rstrip(b"\r\n"), events)
        return events

    def finish(self, at: int) -> list[Event]:
        """The event that the end of the stream cut off: its data is given, although its blank line never came."""
        events = self.feed(at, b"\n\n") if self._rest else []
        if self._data:
            self._take(at, b"", events)
        return events

    def _take(self, at: int, line: bytes, events: list[Event]) -> None:
        if not line:
            if self._data:
                events.append(Event(self._at, b"\n".join(self._data), self._name))
                self._data = []
            self._name = b""
            return
        field, _, value = line.partition(b":")
        if field == _DATA:
            self._data.append(value.removeprefix(b" "))
            self._at = at
        elif field == _EVENT:
            self._name = value.removeprefix(b" ")
        # comments, ids and retry times tell nothing about an answer


def _is_one_event(piece: bytes) -> bool:
    """Whether a piece is exactly one `data:` line and its blank line: what servers write nearly always."""
    return piece.startswith(b"data: ") and piece.endswith(b"\n\n") and piece.count(b"\n") == 2 and b"\r" not in piece
