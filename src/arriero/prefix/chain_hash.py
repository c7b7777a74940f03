"""The published hash of a block: 64-bit FNV-1a over its parent's hash, its scope and its tokens.

byte 1   parent hash, u64
byte 2   length of the namespace in bytes, u64, then its UTF-8 bytes
byte 3   length of the salt in bytes, u64, then its UTF-8 bytes
byte 4   number of tokens, u64, then each token as u32, two's complement        everything little-endian
"""

from collections.abc import Callable
from struct import pack
from typing import Final, TypeAlias

from arriero.core.ids import TokenId

ROOT: Final = 0xCBF29CE484222325
"""The parent hash of a first block, and the offset basis of FNV-1a."""

_PRIME: Final = 1_099_511_628_211
_MASK: Final = 2**64 - 1

ChainHash: TypeAlias = Callable[[int, str, tuple[TokenId, ...]], int]
"""Parent hash, scope, tokens → hash. Equal hashes of unequal keys cost a comparison each."""


def fnv1a(parent: int, tokens: tuple[TokenId, ...], *, namespace: str, salt: str) -> int:
    """The published hash; O(tokens)."""
    names, salts = namespace.encode(), salt.encode()
    text = b"".join((
        pack("<BQ", 1, parent),
        pack("<BQ", 2, len(names)),
        names,
        pack("<BQ", 3, len(salts)),
        salts,
        pack(f"<BQ{len(tokens)}i", 4, len(tokens), *tokens),
    ))
    value = ROOT
    for byte in text:
        value = (value ^ byte) * _PRIME & _MASK
    return value


def scope_hash(parent: int, scope: str, tokens: tuple[TokenId, ...]) -> int:
    """The published hash where a scope is one word."""
    return fnv1a(parent, tokens, namespace=scope, salt="")
