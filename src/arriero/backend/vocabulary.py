"""LlamaVocabulary: text to token ids and back, by llama.cpp's own tokenizer.

It only reads the model, so any thread may use it, beside a running decode call too.
"""

import ctypes
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from arriero.backend.llama_model import LlamaModel
from arriero.core.errors import InvalidRequest
from arriero.core.ids import TokenId

USUAL_PIECE_BYTES: Final = 64
NO_TOKEN: Final = -1


class LlamaVocabulary:
    """The vocabulary of a `LlamaModel`, which must outlive it."""

    def __init__(self, model: LlamaModel) -> None:
        """Find the special tokens."""
        library = model.library
        self._vocab = model.vocab
        self._size = model.capabilities.vocab_size
        self._end_tokens = find_end_tokens(model)
        self._special_texts = MappingProxyType(find_special_texts(model))
        # A long prompt takes milliseconds, on a worker's thread: the GIL is given away.
        self._tokenize: Any = library.long("llama_tokenize")
        self._to_piece: Any = library.short("llama_token_to_piece")
        self._adds_start_token: bool = library.short("llama_vocab_get_add_bos")(self._vocab)
        get_text = library.short("llama_vocab_get_text")
        self._bos_text, self._eos_text = (
            "" if token == NO_TOKEN else get_text(self._vocab, token).decode(errors="replace")
            for token in (library.short(name)(self._vocab) for name in ("llama_vocab_bos", "llama_vocab_eos"))
        )
        template: bytes | None = library.short("llama_model_chat_template")(model.handle, None)
        self._chat_template = None if template is None else template.decode(errors="replace")

    @property
    def size(self) -> int:
        """Token ids are 0 ... size - 1."""
        return self._size

    @property
    def end_tokens(self) -> frozenset[TokenId]:
        """Every token that ends a generation."""
        return self._end_tokens

    @property
    def special_texts(self) -> Mapping[str, TokenId]:
        """Texts that are one token with `parse_special` and plain text without; user-defined tokens always are one."""
        return self._special_texts

    @property
    def bos_text(self) -> str:
        """The start token as text, or nothing if the model has none."""
        return self._bos_text

    @property
    def eos_text(self) -> str:
        """The end token as text, or nothing if the model has none."""
        return self._eos_text

    @property
    def chat_template(self) -> str | None:
        """The template in the file's metadata, or None."""
        return self._chat_template

    @property
    def adds_start_token(self) -> bool:
        """Whether `encode` with `add_special` begins with the start token."""
        return self._adds_start_token

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[TokenId]:
        """Token ids of a text; a lone surrogate, which no UTF-8 has, is read as `?`.

        Args:
            text: any text.
            add_special: begin, or end, with the tokens that the model wants there.
            parse_special: read the names of control tokens in the text as these tokens; never for text of a user.
        """
        data = text.encode(errors="replace")
        room = len(data) + 2  # a token is at least a byte; start and end token
        while True:
            tokens = (ctypes.c_int32 * room)()
            found: int = self._tokenize(self._vocab, data, len(data), tokens, room, add_special, parse_special)
            if found >= 0:
                return tokens[:found]
            room = -found

    def piece(self, token: TokenId, *, special: bool = False) -> bytes:
        """The bytes of a token, perhaps part of a character; control tokens have none unless `special`.

        Raises:
            InvalidRequest: no such token.
        """
        if not 0 <= token < self._size:
            message = f"token {token} is not in the vocabulary: ids run from 0 to {self._size - 1}"
            raise InvalidRequest(message, field="tokens")
        room = USUAL_PIECE_BYTES
        while True:
            buffer = ctypes.create_string_buffer(room)
            length: int = self._to_piece(self._vocab, token, buffer, room, 0, special)
            if length >= 0:
                return buffer.raw[:length]
            room = -length


def find_end_tokens(model: LlamaModel) -> frozenset[TokenId]:
    """Every token that llama.cpp takes for the end of a generation; looks at the whole vocabulary."""
    is_end = model.library.short("llama_vocab_is_eog")
    return frozenset(token for token in range(model.capabilities.vocab_size) if is_end(model.vocab, token))


def find_special_texts(model: LlamaModel) -> dict[str, TokenId]:
    """The texts of control and unknown tokens, by ascending id; looks at the whole vocabulary."""
    library = model.library
    hidden = library.structs.LLAMA_TOKEN_ATTR_CONTROL | library.structs.LLAMA_TOKEN_ATTR_UNKNOWN
    attributes, text = library.short("llama_vocab_get_attr"), library.short("llama_vocab_get_text")
    found = (token for token in range(model.capabilities.vocab_size) if attributes(model.vocab, token) & hidden)
    return {text(model.vocab, token).decode(errors="replace"): token for token in found}
