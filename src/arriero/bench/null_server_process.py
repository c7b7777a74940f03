"""A null server in a process of its own, for as long as it is needed."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from arriero.bench.null_server_options import NullOptions
from arriero.core.errors import ConfigError

START_S = 30.0
STOP_S = 10.0


@asynccontextmanager
async def null_server(options: NullOptions) -> AsyncGenerator[str]:
    """Start one on a free port, give its URL, and end it.

    It ends by itself when this process is gone, because it watches its standard input.

    Raises:
        ConfigError: it did not start.
    """
    words = ["-m", "arriero.bench.null_server", "--port", "0", "--until-stdin-closes", *options.words()]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, *words, stdin=pipe, stdout=pipe)
    assert process.stdout is not None, "a pipe"
    assert process.stdin is not None, "a pipe"
    try:
        try:
            line = await asyncio.wait_for(process.stdout.readline(), START_S)
        except TimeoutError:
            line = b""
        if not line.strip().isdigit():
            raise ConfigError("the null server for the calibration did not start; see the lines above")
        yield f"http://127.0.0.1:{int(line)}"
    finally:
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), STOP_S)
        except TimeoutError:
            process.kill()
            await process.wait()
