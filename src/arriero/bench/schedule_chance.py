"""Chance, by what it is for: a generator of its own for each use, so that one more draw here moves nothing there."""

import random
from hashlib import blake2b


def chance(seed: int, use: str, index: int = 0, salt: str = "") -> random.Random:
    """A generator seeded by all of these."""
    digest = blake2b(f"bench/{seed}/{use}/{index}/{salt}".encode(), digest_size=8).digest()
    return random.Random(int.from_bytes(digest, "big"))
