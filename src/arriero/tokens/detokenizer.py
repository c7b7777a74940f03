"""Detokenizer: token ids in, text out; never half a character, never half a stop string.

    ids ──pieces──▶ bytes ──decoder──▶ characters ──stop scans──▶ held back ──▶ delta

Two things are held back. Bytes that may still become a character stay in the decoder. Characters that may still become
a stop string stay here, and are released as soon as they cannot.

Broken bytes have one rule, in deltas and in whole texts alike: the text is what decoding all bytes at once with
replacement gives. A byte that can never become part of a character shows as U+FFFD; an unfinished character at the end
of the answer does so once, in `finish`.

Which stop string counts is a matter of the text alone, wherever token borders lie: the one that starts earliest, and
of those the one that ends first. With the stops `abcd` and `bc`, the text `abc` is not decided yet: if `d` follows, the
cut is before `a`, else before `b`. Usage counts to the token that completed the stop that won.

Each stop is searched by the border table of Knuth, Morris and Pratt, so a text of one letter and a stop of many cost
no more than any other: O(characters x stops), whatever they are.
"""

import codecs
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from arriero.core.errors import InvalidRequest
from arriero.core.ids import TokenId
from arriero.tokens.vocabulary import Vocabulary, require_unicode

MAX_STOP_LENGTH: Final = 1_000
"""Characters of a stop string. Its table is built where requests are read, so it must be small."""


class StopMatch(NamedTuple):
    """The stop string that ended the answer."""

    stop: str
    num_tokens: int  # up to and including the one that completed it


class TextDelta(NamedTuple):
    """What one call made certain."""

    text: str  # empty: nothing to send
    stopped: StopMatch | None  # set: the answer ends with this text


class Detokenizer:
    """Text of one answer; one consumer."""

    def __init__(self, vocabulary: Vocabulary, stops: Sequence[str] = ()) -> None:
        """Start an answer.

        Raises:
            InvalidRequest: a stop string is empty, too long or no valid Unicode.
        """
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._search = _StopSearch(stops) if stops else None
        self._held = _HeldText()
        self._num_consumed = 0
        self._stopped: StopMatch | None = None

    @property
    def num_tokens(self) -> int:
        """Tokens consumed so far; once stopped, up to and including the one that completed the stop string."""
        return self._num_consumed if self._stopped is None else self._stopped.num_tokens

    @property
    def stopped(self) -> StopMatch | None:
        """The stop string that was found and decided."""
        return self._stopped

    def feed(self, tokens: Iterable[TokenId]) -> TextDelta:
        """Take the next tokens; those after the one that decides a stop string are not looked at.

        Raises:
            InvalidRequest: no such token.

        Cost: O(bytes of the tokens x stops).
        """
        parts: list[str] = []
        for token in tokens:
            if self._stopped is not None:
                break
            piece = self._vocabulary.piece(token)
            self._num_consumed += 1
            text = self._decoder.decode(piece)
            if text:
                parts.append(self._take(text))
        return TextDelta("".join(parts), self._stopped)

    def finish(self) -> TextDelta:
        """End the answer: release what is held. Called again, it has nothing more to say."""
        if self._stopped is not None:
            return TextDelta("", self._stopped)
        text = self._take(self._decoder.decode(b"", final=True))
        if self._search is not None:
            self._stopped = self._search.best  # decided now: nothing follows
            text += self._held.release_to(self._search.best_start if self._stopped else None)
        return TextDelta(text, self._stopped)

    def _take(self, text: str) -> str:
        """Search characters; return those that are certain now."""
        if self._search is None:
            return text
        self._held.append(text)
        self._stopped = self._search.scan(text, self._num_consumed)
        return self._held.release_to(self._search.certain)


def text_of(vocabulary: Vocabulary, tokens: Iterable[TokenId]) -> str:
    """Whole text of some tokens: the joined deltas of an answer without stop strings."""
    return b"".join(vocabulary.piece(token) for token in tokens).decode("utf-8", errors="replace")


class _HeldText:
    """Text that is not certain yet; positions count characters from the start of the answer."""

    def __init__(self) -> None:
        self._parts: deque[str] = deque()
        self._start = 0

    def append(self, text: str) -> None:
        self._parts.append(text)

    def release_to(self, end: int | None) -> str:
        """Give away the text before a position, or all; each part is cut at most once for each call."""
        released: list[str] = []
        while self._parts and (end is None or self._start < end):
            part = self._parts.popleft()
            if end is not None and self._start + len(part) > end:
                self._parts.appendleft(part[end - self._start :])
                part = part[: end - self._start]
            released.append(part)
            self._start += len(part)
        return "".join(released)


class _StopSearch:
    """Finds the stop string that counts, one character after the other.

    Attributes:
        best: the best complete stop string so far, maybe not decided yet.
        best_start: where it starts.
        certain: text before this position belongs to no stop string, now or later.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._scans = [_StopScan(_checked(stop)) for stop in stops]
        self._position = 0
        self.best: StopMatch | None = None
        self.best_start = 0
        self.certain = 0

    def scan(self, text: str, num_tokens: int) -> StopMatch | None:
        """Take characters that `num_tokens` tokens in all have completed; the stop string, once it is decided."""
        for character in text:
            self._position += 1
            open_start = self._position
            for scan in self._scans:
                start = self._position - scan.step(character)
                open_start = min(open_start, start)
                # Of two with one start the shorter was complete before, which decided the matter.
                if scan.is_complete and (self.best is None or start < self.best_start):
                    self.best, self.best_start = StopMatch(scan.stop, num_tokens), start
            if self.best is not None and open_start >= self.best_start:
                self.certain = self.best_start
                return self.best
            self.certain = open_start
        return None


class _StopScan:
    """How much of one stop string the text ends with."""

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self._matched = 0
        self._borders = _borders(stop)

    @property
    def is_complete(self) -> bool:
        return self._matched == len(self.stop)

    def step(self, character: str) -> int:
        """Take a character; the length of the longest prefix of the stop string that the text now ends with."""
        stop, matched = self.stop, self._matched
        if matched == len(stop):
            matched = 0  # a later occurrence of the same stop cannot count
        while matched and stop[matched] != character:
            matched = self._borders[matched - 1]
        self._matched = matched + (stop[matched] == character)
        return self._matched


def _borders(text: str) -> list[int]:
    """For each prefix, the length of the longest shorter prefix that it also ends with."""
    borders = [0]
    length = 0
    for character in text[1:]:
        while length and text[length] != character:
            length = borders[length - 1]
        length += text[length] == character
        borders.append(length)
    return borders


def _checked(stop: str) -> str:
    if not stop:
        raise InvalidRequest("a stop string is empty: leave it out, or give it characters", field="stop")
    if len(stop) > MAX_STOP_LENGTH:
        message = f"a stop string has {len(stop)} characters: at most {MAX_STOP_LENGTH} are possible"
        raise InvalidRequest(message, field="stop")
    return require_unicode(stop, "stop")
