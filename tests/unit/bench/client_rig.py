"""A target and its server without sockets, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from arriero.bench.ask import Ask, Endpoint
from arriero.bench.client import HttpTarget
from arriero.bench.client_options import HttpOptions
from arriero.bench.null_server import NullServer
from arriero.bench.null_server_options import NullOptions
from arriero.metrics.client_life import ClientLife
from arriero.testing.bad_servers import BadServer
from arriero.testing.memory_network import MemoryNetwork
from arriero.testing.virtual_loop import VirtualLoop, run_virtual

T = TypeVar("T")
MS = 1_000_000
S = 1_000_000_000


@dataclass
class Rig:
    """What a test holds in its hands."""

    target: HttpTarget
    network: MemoryNetwork
    loop: VirtualLoop
    texts: dict[str, str] = field(default_factory=dict)

    async def ask(self, name: str = "r", intended_at: int | None = None, **fields: Any) -> ClientLife:  # noqa: ANN401
        return await self.target.ask(ask(name, **fields), intended_at)

    def asking(self, name: str = "r", **fields: Any) -> asyncio.Task[ClientLife]:  # noqa: ANN401 - of the ask
        return asyncio.create_task(self.ask(name, **fields))


def ask(name: str = "r", **fields: Any) -> Ask:  # noqa: ANN401 - fields of the ask
    return Ask(**{"request_id": name, "prompt": (1, 2, 3), "max_tokens": 3, **fields})


def on_rig(
    server: BadServer | NullOptions,
    work: Callable[[Rig], Coroutine[Any, Any, T]],
    options: HttpOptions | None = None,
    *,
    latency_s: float = 0.0,
) -> T:
    """Run a test's work against a server, and close everything."""

    async def main() -> T:
        loop = cast("VirtualLoop", asyncio.get_running_loop())
        found = NullServer(server, loop.time_ns) if isinstance(server, NullOptions) else server
        network = MemoryNetwork(found.connection, latency_s=latency_s)
        texts: dict[str, str] = {}
        target = HttpTarget(
            "http://rig", options or HttpOptions(), clock=loop.time_ns, on_text=texts.__setitem__, network=network
        )
        await target.open()
        try:
            return await work(Rig(target, network, loop, texts))
        finally:
            await target.close()

    return run_virtual(main())


async def turns(num: int = 20) -> None:
    """Let everything happen that can happen now."""
    for _ in range(num):
        await asyncio.sleep(0)


Work = Callable[[Rig], Awaitable[Any]]
CHAT = Endpoint.CHAT
