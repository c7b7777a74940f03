"""Desk: a service while it serves: its tokenizer workers, its door, and the requests that it is answering."""

import asyncio
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.types import Scope

from arriero.http.doorkeeper import Doorkeeper
from arriero.http.explain_stories import Stories
from arriero.http.live_requests import LiveRequests
from arriero.http.outlook import Outlook
from arriero.http.service import Service
from arriero.http.tenants import Tenant

T = TypeVar("T")


class Desk:
    """Where requests are taken; belongs to one application."""

    def __init__(self, service: Service) -> None:
        """Workers start with the first prompt."""
        self.service = service
        self.live = LiveRequests()
        self.stories = Stories(service.engine.now)
        self.doorkeeper = Doorkeeper(service.engine)
        self.outlook = Outlook(service.engine, service.metrics, service.policy)
        self._workers = ThreadPoolExecutor(service.options.tokenizer_threads, thread_name_prefix="arriero-tokenizer")

    async def on_worker(self, work: Callable[[], T]) -> T:
        """Run work that takes CPU, such as tokenising, beside the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._workers, work)

    def close(self) -> None:
        """Let the workers end, and watch nobody any more."""
        self.doorkeeper.close()
        self._workers.shutdown(wait=False)

    def answer_id(self, tenant: Tenant, prefix: str, wanted: bytes | None) -> str:
        """The opaque id of a request: its client's wish if that can be had, else a fresh one."""
        return self.live.may_use(tenant, wanted) or f"{prefix}-{secrets.token_hex(12)}"


def tenant_of(scope: Scope) -> Tenant:
    """Who asks, as the gate found out."""
    tenant: Tenant = scope["state"]["tenant"]
    return tenant
