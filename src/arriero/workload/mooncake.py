"""The Mooncake synthetic trace: arrivals, lengths, and the ids of each prompt's blocks of 512 tokens.

Published by the Mooncake authors under Apache-2.0 with R. Qin et al., "Mooncake: Trading More Storage for Less
Computation. A KVCache-centric Architecture for Serving LLM Chatbot", FAST 2025.

Equal ids mean an equal prefix up to and including that block. An id becomes tokens by a generator that is seeded by
the trace's name and the id, so equal ids are equal tokens, also in another scale; a prompt takes its blocks in order
and stops at its length.
"""

import random
from array import array
from collections.abc import Iterator
from hashlib import blake2b
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from arriero.core.errors import BadWorkload
from arriero.workload.amounts import Count, Positive
from arriero.workload.records import WorkloadClass
from arriero.workload.settings import Vocabulary
from arriero.workload.strict import complaint
from arriero.workload.tokens import PackedTokens
from arriero.workload.traces import TraceFormat, TraceRow, check_order, scaled

BLOCK_TOKENS: Final = 512
SMALLEST_BLOCK: Final = 4
"""Fewer tokens do not tell tens of thousands of blocks apart."""

_US_PER_MS: Final = 1000


class _Row(msgspec.Struct, forbid_unknown_fields=True):
    timestamp: Annotated[int, Meta(ge=0, le=2**53)]
    input_length: Positive
    output_length: Count
    hash_ids: tuple[Count, ...]


_DECODER: Final = msgspec.json.Decoder(_Row)


def block_length(scale: int) -> int:
    """Tokens of one block when lengths are divided by `scale`.

    Raises:
        BadWorkload: the scale does not divide a block, or leaves too little of it.
    """
    if BLOCK_TOKENS % scale or BLOCK_TOKENS // scale < SMALLEST_BLOCK:
        choices = [str(each) for each in (1, 2, 4, 8, 16, 32, 64, 128)]
        raise BadWorkload(
            f"scale: {scale} cuts blocks of {BLOCK_TOKENS} tokens badly; use one of {', '.join(choices)}",
            field="scale",
        )
    return BLOCK_TOKENS // scale


class BlockTokens:
    """Makes prompts out of block ids; keeps the tokens of the blocks that it has seen."""

    def __init__(self, trace: str, block: int, vocabulary: Vocabulary) -> None:
        """Start empty.

        Args:
            trace: the name that seeds the tokens.
            block: tokens of a whole block, from `block_length`.
            vocabulary: the ids to draw from.
        """
        self._trace = trace
        self._block = block
        self._ids = range(vocabulary.first_token, vocabulary.first_token + vocabulary.size)
        self._known: dict[int, array[int]] = {}

    def prompt(self, blocks: tuple[int, ...], length: int) -> PackedTokens:
        """So many tokens of these blocks."""
        tokens = array("i")
        for block in blocks:
            tokens.extend(self._tokens(block))
        del tokens[length:]
        assert len(tokens) == length, "a row has as many blocks as its length needs"
        return PackedTokens(tokens)

    def _tokens(self, block: int) -> "array[int]":
        if block not in self._known:
            digest = blake2b(f"{self._trace}/{block}".encode(), digest_size=8).digest()
            rng = random.Random(int.from_bytes(digest, "big"))
            self._known[block] = array("i", rng.choices(self._ids, k=self._block))
        return self._known[block]


def _rows(lines: Iterator[bytes]) -> Iterator[TraceRow]:
    first_ms: int | None = None
    last_ms = 0
    places: dict[int, tuple[int, int | None]] = {}
    for number, line in enumerate(lines, start=1):
        try:
            row = _decode(line)
            _check_blocks(row, places)
            if first_ms is None:
                first_ms = row.timestamp
            check_order(last_ms, row.timestamp, "timestamp")
            last_ms = row.timestamp
        except BadWorkload as error:
            raise BadWorkload(str(error), line=number, field=error.field) from None
        arrival_us = (row.timestamp - first_ms) * _US_PER_MS
        yield TraceRow(number, arrival_us, row.input_length, row.output_length, row.hash_ids)


def _decode(line: bytes) -> _Row:
    if not line.strip():
        raise BadWorkload("blank; take the line out")
    try:
        return _DECODER.decode(line)
    except msgspec.DecodeError as error:
        raise complaint(error) from None


def _check_blocks(row: _Row, places: dict[int, tuple[int, int | None]]) -> None:
    expected = scaled(row.input_length, BLOCK_TOKENS)
    if len(row.hash_ids) != expected:
        raise BadWorkload(
            f"hash_ids: has {len(row.hash_ids)} ids, but {row.input_length} tokens are {expected} blocks of "
            f"{BLOCK_TOKENS}; give one for each",
            field="hash_ids",
        )
    before: int | None = None
    for position, block in enumerate(row.hash_ids):
        if places.setdefault(block, (position, before)) != (position, before):
            raise BadWorkload(
                f"hash_ids[{position}]: {block} stood elsewhere before; an id names a block and all before it, "
                "so give another prefix another id",
                field="hash_ids",
            )
        before = block


MOONCAKE: Final = TraceFormat(
    name="mooncake-synthetic",
    sha256="bd070915a98fc0ed264d7cfef2ce746002eb3076a695ec31ba2674c0111ec131",
    num_rows=3_993,
    workload_class=WorkloadClass.MIXED,
    line_word="JSONL",
    block_tokens=BLOCK_TOKENS,
    rows=_rows,
)
