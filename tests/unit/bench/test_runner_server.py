import os
import socket
from pathlib import Path

from arriero.bench.runner_server import listening_pids


def test_who_listens_on_a_port_of_this_machine_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert os.getpid() in listening_pids("127.0.0.1", port)
        assert os.getpid() in listening_pids("localhost", port)
    assert os.getpid() not in listening_pids("127.0.0.1", port)


def test_servers_elsewhere_and_systems_without_the_tables_have_none(tmp_path: Path) -> None:
    assert listening_pids("10.1.2.3", 80) == ()
    assert listening_pids("example.org", 80) == ()
    (tmp_path / "proc").mkdir()
    assert listening_pids("127.0.0.1", 80, tmp_path) == ()
