"""What the system refuses is found before a model is loaded, and told with the flag and the remedy."""

import socket
from pathlib import Path

import pytest

from arriero.cli.listen import check_files, listen, reserve
from arriero.core.config import ServeConfig
from arriero.core.errors import ConfigError, PortInUse


def test_a_free_port_is_taken_and_opened_later() -> None:
    with reserve("127.0.0.1", 0) as reserved:
        address = reserved.getsockname()
        with pytest.raises(ConnectionRefusedError), socket.create_connection(address, timeout=5):
            pass
        listen(reserved, "127.0.0.1")
        socket.create_connection(address, timeout=5).close()


def test_a_port_with_a_listener_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortInUse) as refused:
            reserve("127.0.0.1", port)
    assert str(refused.value).startswith(f"--port {port}: in use on 127.0.0.1; stop the other server")


def test_a_listener_that_came_in_between_is_refused() -> None:
    with reserve("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with reserve("127.0.0.1", port) as second:
            listen(second, "127.0.0.1")
            with pytest.raises(PortInUse):
                listen(first, "127.0.0.1")


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        reserve("192.0.2.1", 0)
    assert str(refused.value).startswith("--host 192.0.2.1: cannot assign requested address; use an address")


def test_files_that_are_no_certificate_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "certificate.pem"
    file.write_text("nothing")
    with pytest.raises(ConfigError) as refused:
        check_files(ServeConfig(ssl_keyfile=str(file), ssl_certfile=str(file)))
    assert str(refused.value).startswith(f"--ssl-certfile {file}: no certificate that goes with --ssl-keyfile {file}")


def test_diagnostics_may_go_to_a_new_file_or_to_standard_error(tmp_path: Path) -> None:
    check_files(ServeConfig(diagnostics=str(tmp_path / "new.jsonl")))
    check_files(ServeConfig(diagnostics="-"))


def test_the_folder_of_saved_runs_is_made_for_nobody_else(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "runs"
    check_files(ServeConfig(cache_dir=str(folder)))
    assert folder.is_dir()
    assert not folder.stat().st_mode & 0o077
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ConfigError) as refused:
        check_files(ServeConfig(cache_dir=str(file)))
    assert str(refused.value).startswith(f"--cache-dir {file}: file exists; name a folder that can be written")
