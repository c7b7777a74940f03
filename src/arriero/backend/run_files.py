"""Run files: one saved run a file, so that it survives the process.

    magic | size of head | crc32 of head and tokens | head (JSON) | tokens (int32) | payload
    8       4              4                          RunHead       4 * num_tokens    payload_bytes

All numbers are little-endian. A file is written under a temporary name and renamed, so it is there whole or not at
all; what a crash, a full disk or a stranger left is found by sizes and checksums, and ignored.
A head and its tokens are checked when the folder is looked through, a payload when it is read back: then nothing is
read at start that nobody asks for.
The checksums are against accidents. llama.cpp reads a payload that fits as it is, so a folder deserves as much trust
as a model file.
"""

import hashlib
import mmap
import os
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from arriero.backend.sequence_state import Bytes
from arriero.core.ids import TokenId

MAGIC: Final = b"ARRIERO\x01"
SIZES: Final = struct.Struct("<II")
TOKEN_BYTES: Final = 4
SUFFIX: Final = ".kv"
PARTIAL: Final = ".partial"
PRIVATE: Final = 0o600  # token ids are as private as the texts
NAME_BYTES: Final = 16


class RunHead(msgspec.Struct, frozen=True):
    """What a run file says of itself.

    Attributes:
        fingerprint: the digest of the model and memory that it was made with.
        payload_crc32: of the payload.
    """

    fingerprint: str
    scope: str
    num_tokens: int
    payload_bytes: int
    payload_crc32: int


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run file whose head is sound.

    Attributes:
        payload_at: offset of the payload in the file.
    """

    path: Path
    head: RunHead
    tokens: tuple[TokenId, ...]
    payload_at: int


class RunFileError(Exception):
    """A file is no run file, or no longer one; the text says why."""


def run_name(scope: str, tokens: Sequence[TokenId]) -> str:
    """The file name of a run: the same run has the same name."""
    digest = hashlib.blake2b(scope.encode(), digest_size=NAME_BYTES)
    digest.update(_packed(tokens))
    return digest.hexdigest() + SUFFIX


def write_run(path: Path, fingerprint: str, scope: str, tokens: tuple[TokenId, ...], payload: Bytes) -> FoundRun:
    """Write a file, replacing one of that name; returns what `read_head` would find.

    Raises:
        OSError: the disk does not take it; nothing is left.
    """
    head = RunHead(fingerprint, scope, len(tokens), payload.nbytes, zlib.crc32(payload.data))
    text, packed = msgspec.json.encode(head), _packed(tokens)
    partial = path.with_name(path.name + PARTIAL)
    try:
        partial.touch(mode=PRIVATE)
        with partial.open("wb") as file:
            file.write(MAGIC + SIZES.pack(len(text), zlib.crc32(packed, zlib.crc32(text))))
            file.write(text)
            file.write(packed)
            payload_at = file.tell()
            file.write(payload.data)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    return FoundRun(path, head, tokens, payload_at)


def read_head(path: Path) -> FoundRun:
    """Read and check all but the payload.

    Raises:
        RunFileError: truncated, damaged, or no run file; OSError: it cannot be read.
    """
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise RunFileError("it does not begin like a run file of this version")
        sizes = file.read(SIZES.size)
        if len(sizes) < SIZES.size:
            raise RunFileError("it is truncated")
        text_bytes, crc32 = SIZES.unpack(sizes)
        size = os.fstat(file.fileno()).st_size
        if text_bytes > size:
            raise RunFileError("it is truncated")
        text = file.read(text_bytes)
        try:
            head = msgspec.json.decode(text, type=RunHead)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise RunFileError("its head is damaged") from problem
        payload_at = file.tell() + TOKEN_BYTES * head.num_tokens
        if head.num_tokens < 1 or size != payload_at + head.payload_bytes:
            message = f"it has {size} bytes, not the {payload_at + head.payload_bytes} that its head tells: truncated"
            raise RunFileError(message)
        packed = file.read(TOKEN_BYTES * head.num_tokens)
    if zlib.crc32(packed, zlib.crc32(text)) != crc32:
        raise RunFileError("its head is damaged")
    return FoundRun(path, head, tuple(np.frombuffer(packed, "<i4").tolist()), payload_at)


def read_payload(found: FoundRun) -> Bytes:
    """Map the payload and check it; costs a pass over the bytes.

    Raises:
        RunFileError: truncated or damaged; OSError: it is gone or cannot be read.
    """
    size = found.payload_at + found.head.payload_bytes
    with found.path.open("rb") as file:
        if os.fstat(file.fileno()).st_size != size:
            raise RunFileError("it is truncated")
        mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    payload = np.frombuffer(mapped, np.uint8, offset=found.payload_at)
    if zlib.crc32(payload.data) != found.head.payload_crc32:
        raise RunFileError("its payload is damaged")
    return payload


def _packed(tokens: Sequence[TokenId]) -> bytes:
    return np.array(tokens, "<i4").tobytes()
