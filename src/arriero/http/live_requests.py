"""LiveRequests: which requests can be cancelled by the id that their client knows."""

import re
from collections.abc import Callable
from typing import Final

from arriero.core.errors import UnknownRequest
from arriero.http.tenants import Tenant

_USABLE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


class LiveRequests:
    """Cancels by tenant and id; on the event loop only."""

    def __init__(self) -> None:
        """Start empty."""
        self._cancels: dict[tuple[Tenant, str], Callable[[], None]] = {}

    def __len__(self) -> int:
        """Requests that are being answered."""
        return len(self._cancels)

    def may_use(self, tenant: Tenant, wanted: bytes | None) -> str | None:
        """The id that a client wishes for its request, if it is well-formed and not in use."""
        if wanted is None:
            return None
        name = wanted.decode("latin-1")
        return name if _USABLE.fullmatch(name) and (tenant, name) not in self._cancels else None

    def add(self, tenant: Tenant, answer_id: str, cancel: Callable[[], None]) -> None:
        """From now on `cancel` can be asked for."""
        self._cancels[tenant, answer_id] = cancel

    def remove(self, tenant: Tenant, answer_id: str) -> None:
        """The answer is over."""
        self._cancels.pop((tenant, answer_id), None)

    def cancel(self, tenant: Tenant, answer_id: str) -> None:
        """Cancel a request; doing it again changes nothing.

        Raises:
            UnknownRequest: this tenant has no such request, or it is over.
        """
        cancel = self._cancels.get((tenant, answer_id))
        if cancel is None:
            raise UnknownRequest("no request of this id is being answered", field="id")
        cancel()
