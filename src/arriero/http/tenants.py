"""Tenants: who may ask, by API key.

A tenant sees only its own requests: it cannot cancel another one's. Without keys everybody is one tenant.
"""

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

from arriero.core.errors import Unauthorized
from arriero.http.scopes import tenant_scope

_SCHEME: Final = b"bearer"


@dataclass(frozen=True, slots=True)
class Tenant:
    """One holder of a key.

    Attributes:
        number: position of its key in the configuration; 0 where no keys are needed.
        scope: names it in cache scopes; None where no keys are needed.
    """

    number: int
    scope: str | None = None


class Tenants:
    """The keys; read-only."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        """No keys: nobody needs one."""
        self._digests = tuple(_digest(key.encode()) for key in keys)
        self._scopes = tuple(map(tenant_scope, keys))

    def identify(self, authorization: bytes | None) -> Tenant:
        """The tenant of an `authorization` header; the scheme's case does not matter.

        Raises:
            Unauthorized: a key is needed and none, or an unknown one, was shown.
        """
        if not self._digests:
            return Tenant(0)
        scheme, _, key = (authorization or b"").strip().partition(b" ")
        if scheme.lower() != _SCHEME or not key.strip():
            raise Unauthorized("an API key is needed; send the header `Authorization: Bearer KEY`")
        # Digests have one length, and every one is compared: the time tells nothing about any key.
        shown = _digest(key.strip())
        matches = [hmac.compare_digest(shown, digest) for digest in self._digests]
        if True not in matches:
            raise Unauthorized("the API key is not known to this server; check the `Authorization` header")
        number = matches.index(True)
        return Tenant(number, self._scopes[number])


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
