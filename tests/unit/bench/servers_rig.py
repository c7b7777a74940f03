"""Little servers in processes of their own, and a witness that sees without asking when one of them is gone."""

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from arriero.bench.servers_commands import ServerCommand, ServerValues

VALUES = ServerValues(model=None, threads=1, slots=2, slot_context=256)

# Answers 200 on every path. The connection to the witness ends when the process does, whatever ends it.
PROGRAM = """
import os, signal, socket, subprocess, sys
port, witness, what = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
if what == "fails":
    sys.exit("no such model")
held = socket.create_connection(("127.0.0.1", witness)) if witness else None
if what == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if what == "parent":
    subprocess.Popen([sys.executable, "-c", CHILD, "0", str(witness), "idle"])
if what in {"idle", "mute"}:
    signal.pause()

listener = socket.create_server(("127.0.0.1", port))
while True:
    connection, _ = listener.accept()
    path = connection.recv(65536).split(b" ")[1]
    if path == b"/die":
        print("out of memory", flush=True)
        os._exit(9)
    status = b"503 Loading" if path == b"/loading" else b"200 OK"
    connection.sendall(b"HTTP/1.1 " + status + b"\\r\\nContent-Length: 0\\r\\n\\r\\n")
    connection.close()
"""
CHILD = PROGRAM.replace("CHILD", "None")
WHOLE = f"CHILD = {CHILD!r}\n{PROGRAM}"


def little_server(what: str = "answers", *, witness: int = 0, health: str = "/health") -> ServerCommand:
    """The command of a server that does what a word says."""
    words = ("{python}", "-I", "-S", "-c", WHOLE, "{port}", str(witness), what)
    return ServerCommand(name=what, words=words, health=health, origin="--a-command")


class Witness:
    """Listens; whoever connects is alive until its connection ends."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.port: int = listener.getsockname()[1]

    def meet(self) -> socket.socket:
        """The next process that comes up."""
        connection, _ = self._listener.accept()
        connection.settimeout(60)
        return connection


@contextmanager
def witnessed() -> Iterator[Witness]:
    """A witness for the length of a block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        yield Witness(listener)


def is_gone(connection: socket.socket) -> bool:
    """Wait until the process at the other end is gone."""
    with connection:
        return connection.recv(1) == b""


OWNER = """
import sys
from pathlib import Path
from arriero.bench.servers import Server
from tests.unit.bench.servers_rig import VALUES, little_server
server = Server.start(little_server(sys.argv[1], witness=int(sys.argv[2])), VALUES, log=Path(sys.argv[3]), grace_s=30)
print(server.pid, flush=True)
sys.stdin.read()
"""


def owner_command(what: str, witness: int, log: Path) -> list[str]:
    """A process that owns a server and waits for its own end."""
    return [sys.executable, "-c", OWNER, what, str(witness), str(log)]
