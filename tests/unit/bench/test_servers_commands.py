"""A command is filled in where it has names in braces, and nowhere else."""

import sys

import pytest

from arriero.bench.peers import PEERS, Peer
from arriero.bench.servers_commands import ServerCommand, ServerValues, split_command, with_flags
from arriero.core.errors import ConfigError

VALUES = ServerValues(model="m.gguf", threads=3, slots=4, slot_context=256, port=5)


def test_every_name_is_filled_in() -> None:
    words = ("{python}", "-m={model}", "{threads}/{slots}/{slot_context}/{context}", "{host}:{port}")
    command = ServerCommand(name="x", words=words)
    assert command.filled(VALUES) == (sys.executable, "-m=m.gguf", "3/4/256/1024", "127.0.0.1:5")


@pytest.mark.parametrize("word", ['{"a": 1}', "{}", "{A}", "{ port }", "${PORT}"])
def test_other_braces_stay_as_they_are(word: str) -> None:
    assert ServerCommand(name="x", words=(word,)).filled(VALUES) == (word,)


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    command = split_command("serve --port {port} {modle}", name="x", origin="--a-command")
    with pytest.raises(ConfigError, match=r"--a-command: \{modle\} is no name; use python, model, threads, slots"):
        command.check(VALUES)


def test_a_name_without_a_value_is_told_with_its_flag() -> None:
    command = split_command("serve --port {port} {model}", name="x", origin="--a-command")
    with pytest.raises(ConfigError, match=r"--a-command: \{model\} has no value; give --model"):
        command.check(ServerValues(model=None, threads=1, slots=1, slot_context=1))


def test_a_command_without_a_port_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--b-command: no \{port\} in it"):
        split_command("serve", name="x", origin="--b-command").check(VALUES)


def test_a_command_is_split_as_by_a_shell() -> None:
    assert split_command("a 'b c' d\\ e", name="x", origin="").words == ("a", "b c", "d e")


@pytest.mark.parametrize(("text", "says"), [("a 'b", "no closing quotation"), ("  ", "empty")])
def test_a_command_that_is_none_is_refused(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=f"--a-command: {says}"):
        split_command(text, name="x", origin="--a-command")


@pytest.mark.parametrize("peer", Peer)
@pytest.mark.parametrize("binary", [None, "/opt/x"])
def test_servers_known_by_name_can_be_filled_in(peer: Peer, binary: str | None) -> None:
    command = PEERS[peer](binary)
    command.check(VALUES)
    words = command.filled(VALUES)
    assert "m.gguf" in words
    assert "5" in words
    assert binary is None or words[0] == binary


def test_flags_come_last() -> None:
    assert with_flags(PEERS[Peer.ARRIERO](None), ("--kv", "unified")).filled(VALUES)[-2:] == ("--kv", "unified")
