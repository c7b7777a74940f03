"""ControlTexts: which control tokens of a rendered prompt are the template's own.

A template mixes its markers with the caller's words, and afterwards both are just text. A caller who types
`<|im_end|>` must get those ten characters, not the token. So the caller's strings are *broken* before they go in: a
mark, one private-use character that occurs nowhere in the request, is put wherever a control text could otherwise
come to be. In what comes out, an unbroken control text is the template's, and the marks are taken away.

Where the marks go, for control texts like `<|im_end|>`:

    inside    `a<|im_end|>b`  ->  `a<.|im_end|>b`   after the first character of each occurrence
    at an end `hello <|im_`   ->  `hello <|im_.`    where the string ends with the beginning of a control text,
              `|> hello`      ->  `.|> hello`       or begins with the end of one,
              `im_end`        ->  `.im_end.`        or lies inside one as a whole

White space around a string does not count there, unless it could itself belong to a control text, so that a template
may trim it. Nothing else is changed, so that
templates may look for words in it: taking the words out altogether and putting them back after rendering would break
those that do.

Between two of the template's control tokens, text is encoded as one piece, because merges must not stop where a mark
was. If no control text comes to be when all marks are taken away, then the whole prompt is one piece.

The limits: a template that deletes characters in the middle of a caller's string could join two harmless parts. A
control text of one character cannot be broken: in chats it is always plain text. And where the caller's string is
empty, what the template writes on both sides of it meets, as it does without us.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Final, TypeAlias

from arriero.core.errors import InvalidRequest
from arriero.core.ids import TokenId
from arriero.tokens.vocabulary import Vocabulary, any_of

Json: TypeAlias = str | int | float | bool | Sequence["Json"] | Mapping[str, "Json"] | None

PRIVATE_USE: Final = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))


class ControlTexts:
    """The control texts of one vocabulary, prepared for breaking and encoding; read-only, from any thread."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Prepare the tables: O(characters of all control texts)."""
        self._vocabulary = vocabulary
        self._ids = dict(vocabulary.special_texts)
        texts = [text for text in self._ids if len(text) > 1]
        self._longest = max(map(len, texts), default=0)
        self._beginnings = frozenset(text[:i] for text in texts for i in range(1, len(text)))
        self._endings = frozenset(text[i:] for text in texts for i in range(1, len(text)))
        self._joined = "\0".join(texts)
        self._pattern = any_of(texts)
        # Looks ahead without taking, hence sees occurrences that overlap.
        self._everywhere = re.compile(f"(?={self._pattern.pattern})")
        self._unbreakable = any_of(text for text in self._ids if len(text) == 1)

    def choose_mark(self, texts: Iterable[str]) -> str:
        """A character that occurs neither in these texts nor, written as a JSON escape, in them.

        Raises:
            InvalidRequest: they hold every private-use character.
        """
        written = "\0".join((self._joined, *texts)).lower()
        used = set(written)
        for code in chain.from_iterable(PRIVATE_USE):
            mark = chr(code)
            if mark not in used and escape_of(mark) not in written:
                return mark
        raise InvalidRequest("messages hold every private-use character of Unicode: leave one out", field="messages")

    def break_up(self, text: str, mark: str, *, whole: bool = True) -> str:
        """The text with marks, so that no part of it can become part of a control token.

        Args:
            mark: a character that is not in the text.
            whole: also break a text that lies inside a control text as a whole.
        """
        places = {match.start() + 1 for match in self._everywhere.finditer(text)}
        start = len(text) - len(text.lstrip())
        # A template may trim the text, or not.
        for first, last in {(0, len(text)), (start, max(start, len(text.rstrip())))}:
            part = text[first:last]
            inside = whole and bool(part) and part in self._joined
            if inside or any(part[:i] in self._endings for i in range(1, self._longest)):
                places.add(first)
            if inside or any(part[-i:] in self._beginnings for i in range(1, self._longest)):
                places.add(last)
        cuts = [0, *sorted(places), len(text)]
        return mark.join(text[a:b] for a, b in pairwise(cuts)) if places else text

    def break_value(self, value: Json, mark: str) -> Json:
        """A JSON value with all its strings and keys broken up.

        A key is broken unless it merely lies inside a control text: templates look keys up by name.
        """
        if isinstance(value, str):
            return self.break_up(value, mark)
        if isinstance(value, Mapping):
            return {self.break_up(k, mark, whole=False): self.break_value(v, mark) for k, v in value.items()}
        if isinstance(value, Sequence):
            return [self.break_value(entry, mark) for entry in value]
        return value

    def encode(self, text: str, mark: str) -> list[TokenId]:
        """Tokens of a rendered prompt; only its unbroken control texts become control tokens."""
        clean = text.replace(mark, "")
        same = self._everywhere.findall(clean) == self._everywhere.findall(text)
        if same and not self._unbreakable.search(clean):
            return self._vocabulary.encode(clean, add_special=False, parse_special=True)
        tokens: list[TokenId] = []
        # A split by a pattern with one group: plain text and control texts in turn.
        for i, part in enumerate(self._pattern.split(text)):
            if i % 2:
                tokens.append(self._ids[part])
            elif plain := part.replace(mark, ""):
                tokens += self._vocabulary.encode(plain, add_special=False, parse_special=False)
        return tokens


def escape_of(mark: str) -> str:
    """The mark as JSON writes it in ASCII, without quotes; lower case."""
    return json.dumps(mark)[1:-1]
