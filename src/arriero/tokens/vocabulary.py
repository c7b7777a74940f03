"""Vocabulary: what the edges ask of a model's tokens; and one that needs no model.

A token is a piece of bytes, not of text: a character may be spread over several. Control tokens have no bytes of their
own unless they are asked for. Text is the pieces joined, nothing added or taken away: vocabularies in which a piece
begins with the space before its word keep that space also at the very start of an answer, because an answer continues
its prompt.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol

from arriero.core.errors import InvalidRequest
from arriero.core.ids import TokenId


class Vocabulary(Protocol):
    """The tokens of one model; read-only, from any thread."""

    @property
    def size(self) -> int:
        """Ids are 0 ... size - 1."""
        ...

    @property
    def end_tokens(self) -> frozenset[TokenId]:
        """Every token that ends a generation."""
        ...

    @property
    def special_texts(self) -> Mapping[str, TokenId]:
        """Texts that `encode` takes for one token with `parse_special`, and for plain text without.

        Tokens that are found either way (the user-defined ones of llama.cpp) are not among them.
        """
        ...

    @property
    def bos_text(self) -> str:
        """Text of the start token; empty if there is none."""
        ...

    @property
    def eos_text(self) -> str:
        """Text of the end token; empty if there is none."""
        ...

    @property
    def adds_start_token(self) -> bool:
        """Whether `encode` with `add_special` puts the start token first."""
        ...

    @property
    def chat_template(self) -> str | None:
        """The model's own template (jinja2), if its file carries one."""
        ...

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[TokenId]:
        """Tokens of a text.

        Args:
            text: valid Unicode: `require_unicode`.
            add_special: add the start token, and whatever else the vocabulary's own rule asks for.
            parse_special: texts of control tokens become those tokens.
        """
        ...

    def piece(self, token: TokenId, *, special: bool = False) -> bytes:
        """Bytes of one token, maybe a part of a character; of a control token none, or with `special` its text.

        Raises:
            InvalidRequest: no such token.
        """
        ...


def require_unicode(text: str, field: str) -> str:
    """Return the text, if it can be written as UTF-8.

    Raises:
        InvalidRequest: it holds half of a surrogate pair, as JSON escapes can make one.
    """
    # Found by encoding, which is many times faster than a search, and nearly every text is sound.
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        message = f"{field} holds a lone surrogate (U+{code:04X}) at character {error.start}: send valid Unicode"
        raise InvalidRequest(message, field=field) from None
    return text


def any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """A pattern with one group that matches any of the texts, the longest that fits; of no text, nothing."""
    longest_first = sorted((text for text in texts if text), key=lambda text: (-len(text), text))
    return re.compile("(" + "|".join(map(re.escape, longest_first)) + ")" if longest_first else "((?!))")


START_TEXT: Final = "<|start|>"
END_TEXT: Final = "<|end|>"
CHAT_TEXTS: Final = ("<|im_start|>", "<|im_end|>")
NUM_BYTES: Final = 256


class ByteVocabulary:
    """One token for each byte, then the control tokens: for demos, load tests and tests, without a model.

    0 ... 255   the byte of that value
    256         <|start|>
    257         <|end|>, ends a generation
    258 ...     further control tokens: those of ChatML (<|im_end|> ends a generation too), or the caller's
    """

    def __init__(
        self,
        control_texts: Sequence[str] = CHAT_TEXTS,
        *,
        adds_start_token: bool = False,
        chat_template: str | None = None,
    ) -> None:
        """Build the tables.

        Args:
            control_texts: distinct, not empty, in the order of their ids.
        """
        texts = (START_TEXT, END_TEXT, *control_texts)
        assert len(set(texts)) == len(texts), "control tokens need distinct texts"
        self._controls = tuple(text.encode() for text in texts)
        self._ids = MappingProxyType({text: NUM_BYTES + i for i, text in enumerate(texts)})
        self._pattern = any_of(texts)
        self._ends = frozenset(self._ids[text] for text in (END_TEXT, "<|im_end|>") if text in self._ids)
        self._adds_start_token = adds_start_token
        self._chat_template = chat_template

    @property
    def size(self) -> int:
        """Bytes and control tokens."""
        return NUM_BYTES + len(self._controls)

    @property
    def end_tokens(self) -> frozenset[TokenId]:
        """`<|end|>`, and `<|im_end|>` if it is there."""
        return self._ends

    @property
    def special_texts(self) -> Mapping[str, TokenId]:
        """Every control token."""
        return self._ids

    @property
    def bos_text(self) -> str:
        """Text of the start token."""
        return START_TEXT

    @property
    def eos_text(self) -> str:
        """Text of the end token."""
        return END_TEXT

    @property
    def adds_start_token(self) -> bool:
        """As it was built."""
        return self._adds_start_token

    @property
    def chat_template(self) -> str | None:
        """As it was built."""
        return self._chat_template

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[TokenId]:
        """The bytes of the text; with `parse_special`, control texts become one token each."""
        tokens = [self._ids[START_TEXT]] if add_special and self._adds_start_token else []
        # A split by a pattern with one group: plain text and control texts in turn.
        for i, part in enumerate(self._pattern.split(text) if parse_special else [text]):
            tokens += [self._ids[part]] if i % 2 else part.encode()
        return tokens

    def piece(self, token: TokenId, *, special: bool = False) -> bytes:
        """The one byte; of a control token none, or with `special` its text."""
        if 0 <= token < NUM_BYTES:
            return bytes((token,))
        if not NUM_BYTES <= token < self.size:
            raise InvalidRequest(f"there is no token {token}: ids are 0 ... {self.size - 1}", field="tokens")
        return self._controls[token - NUM_BYTES] if special else b""
