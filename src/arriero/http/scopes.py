"""Cache scopes: which requests may see one another's prefixes. A scope is a name that is only compared.

    mode      name made of                         a request without a session
    session   key + session + salt                 belongs to no scope
    key       key + salt; no keys: as global       the scope of its key
    global    salt                                 the one scope

A salt adds a part to the name and never replaces one, so it narrows the scope and cannot widen it. Each part is a
digest of fixed length behind its own letter: no choice of texts makes two different lists of parts the same name, and
neither keys nor sessions nor salts can be read from it. Equal names mean equal parts, up to a collision of the digest.
"""

import hashlib
from dataclasses import dataclass, replace
from typing import Final

from arriero.core.config import CacheScope
from arriero.core.errors import InvalidRequest

EVERYBODY: Final = "all"

_KEY: Final = "k"
_SESSION: Final = "s"
_SALT: Final = "x"
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Sharing:
    """What a request says about its prefixes.

    Attributes:
        session_id: the conversation that it belongs to; empty is none.
        cache_salt: shares only with requests of the same salt; None is no salt.
    """

    session_id: str | None = None
    cache_salt: str | None = None

    def with_header(self, session: bytes | None) -> "Sharing":
        """The same with the header `X-Session-Id`, for clients that cannot change their bodies.

        Raises:
            InvalidRequest: it is not UTF-8, or the body names another session.
        """
        if not session:
            return self
        try:
            name = session.decode()
        except UnicodeDecodeError:
            raise InvalidRequest("the header X-Session-Id is not UTF-8; send plain text", field="session_id") from None
        if self.session_id and self.session_id != name:
            message = "session_id and the header X-Session-Id differ; send one of them"
            raise InvalidRequest(message, field="session_id")
        return replace(self, session_id=name)


def scope_of(mode: CacheScope, tenant: str | None, sharing: Sharing) -> str | None:
    """The cache scope of a request.

    Args:
        tenant: names the holder of the API key that was shown, by `tenant_scope`; None where no keys are needed.

    Returns:
        None: it belongs to no scope, neither finds prefixes nor leaves any.
    """
    if mode is CacheScope.SESSION and not sharing.session_id:
        return None
    parts = [EVERYBODY if tenant is None or mode is CacheScope.GLOBAL else tenant]
    if mode is CacheScope.SESSION:
        parts.append(_part(_SESSION, sharing.session_id or ""))
    if sharing.cache_salt is not None:
        parts.append(_part(_SALT, sharing.cache_salt))
    return ".".join(parts)


def tenant_scope(key: str) -> str:
    """Names the holder of an API key.

    The name depends on the key and not on its place in the configuration, so that prefixes that outlive a server go to
    the same holder afterwards, and to nobody when the key is taken away.
    """
    return _part(_KEY, key)


def belongs_to(scope: str, mode: CacheScope, tenant: str | None) -> bool:
    """Whether a holder of this key may know what is in a scope: it is made of that key, or of none."""
    base = scope.partition(".")[0]
    return mode is CacheScope.GLOBAL or base == (EVERYBODY if tenant is None else tenant)


def shown(scope: str) -> str:
    """A short name for pages and logs, equal for equal scopes of one server."""
    return hashlib.blake2b(scope.encode(), digest_size=4, person=b"arriero shown").hexdigest()


def _part(letter: str, text: str) -> str:
    digest = hashlib.blake2b(
        text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES, person=f"arriero {letter}".encode()
    )
    return letter + digest.hexdigest()
