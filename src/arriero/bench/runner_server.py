"""Which process listens on a port of this machine, so that its work is not taken for a neighbour's."""

from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from arriero.record.machine import ROOT

_LISTENING: Final = "0A"


def listening_pids(host: str, port: int, root: Path = ROOT) -> tuple[int, ...]:
    """Processes that listen there; empty for another machine, and where they cannot be seen.

    Args:
        host: a name or an address; only names of this machine itself count.
        port: of the server.
        root: where `proc` is.
    """
    if not _is_here(host):
        return ()
    sockets = set(_inodes(port, root))
    return tuple(sorted(_holders(sockets, root))) if sockets else ()


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _inodes(port: int, root: Path) -> Iterator[str]:
    """Sockets that listen on the port, on whatever address."""
    for name in ("tcp", "tcp6"):
        try:
            lines = (root / "proc/net" / name).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _holders(inodes: set[str], root: Path) -> Iterator[int]:
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for folder in (root / "proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if any(str(link.readlink()) in wanted for link in (folder / "fd").iterdir()):
                yield int(folder.name)
        except OSError:  # it has ended, or is somebody else's
            continue
