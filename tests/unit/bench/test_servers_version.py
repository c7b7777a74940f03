"""A server's version is what its program prints when it is asked for it, and nothing else."""

import sys
from importlib.metadata import version

import pytest

from arriero.bench.peers import PEERS, Peer
from arriero.bench.servers_commands import ServerCommand, ServerValues, split_command
from arriero.bench.servers_version import version_of

VALUES = ServerValues(model="m.gguf", threads=3, slots=4, slot_context=256)


def said_by(code: str, *, patience_s: float = 60.0) -> str | None:
    """By a server whose version is what a piece of Python prints."""
    command = ServerCommand(name="x", words=("x", "{port}"), version=("{python}", "-I", "-S", "-c", code))
    return version_of(command, VALUES, patience_s=patience_s)


def test_lines_of_both_streams_are_one() -> None:
    assert said_by("import sys; print('version: 1 (abc)'); print(' built here ', file=sys.stderr)") == (
        "version: 1 (abc); built here"
    )


@pytest.mark.parametrize("code", ["", "raise SystemExit(2)", "print('usage'); raise SystemExit(1)"])
def test_a_program_that_does_not_say_has_none(code: str) -> None:
    assert said_by(code) is None


def test_a_program_that_says_too_much_is_cut() -> None:
    found = said_by("print('x' * 999); [print(n) for n in range(9)]")
    assert found == f"{'x' * 200}; 0; 1; 2"


def test_a_program_that_does_not_end_is_given_up() -> None:
    assert said_by("import signal; signal.pause()", patience_s=0.2) is None


def test_a_program_that_is_not_there_and_a_command_without_a_way_to_ask_have_none() -> None:
    assert version_of(ServerCommand(name="x", words=("x",), version=("/no/such/program", "--version")), VALUES) is None
    assert version_of(ServerCommand(name="x", words=("x",)), VALUES) is None


@pytest.mark.parametrize("peer", [Peer.ARRIERO, Peer.LLAMA_CPP_PYTHON])
def test_ours_is_that_of_the_binding(peer: Peer) -> None:
    pytest.importorskip("llama_cpp")
    assert version_of(PEERS[peer](None), VALUES) == f"llama-cpp-python {version('llama-cpp-python')}"


def test_a_program_is_asked_and_not_the_one_of_this_interpreter() -> None:
    assert PEERS[Peer.ARRIERO]("/opt/arriero").version == ("/opt/arriero", "--version")
    assert PEERS[Peer.LLAMA_SERVER](None).version == ("llama-server", "--version")
    assert PEERS[Peer.LLAMA_SERVER]("/opt/llama-server").version == ("/opt/llama-server", "--version")
    assert PEERS[Peer.LLAMA_CPP_PYTHON]("/opt/python").version[0] == "/opt/python"


def test_llama_server_is_known_in_any_command() -> None:
    text = "env OMP_WAIT_POLICY=passive /opt/llama-server -m {model} --port {port}"
    assert split_command(text, name="x", origin="--a-command").version == ("/opt/llama-server", "--version")
    assert split_command(f"{sys.executable} serve", name="x", origin="--a-command").version == ()
