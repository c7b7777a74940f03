"""A started server answers before it is used, and is gone afterwards, whatever happens."""

import asyncio
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from arriero.bench.servers import Server, ServerFailed, free_port, last_line, started
from arriero.bench.servers_commands import ServerCommand
from arriero.bench.servers_guard import HowEnded
from arriero.bench.servers_health import status_of
from arriero.core.errors import ConfigError
from tests.unit.bench.servers_rig import VALUES, Witness, is_gone, little_server, owner_command, witnessed


async def test_a_server_answers_inside_the_block_and_is_gone_after_it(tmp_path: Path) -> None:
    with witnessed() as witness:
        async with started(little_server(witness=witness.port), VALUES, log=tmp_path / "logs" / "a.log") as server:
            held = witness.meet()
            assert await status_of(server.url, "/v1/models") == 200
            server.require_alive("inside")
            assert server.url == f"http://127.0.0.1:{server.port}"
        assert is_gone(held)
    assert server.ended == (HowEnded.TERMINATED, -signal.SIGTERM)


async def test_it_is_gone_when_the_block_fails(tmp_path: Path) -> None:
    async def fail(witness: Witness) -> None:
        async with started(little_server(witness=witness.port), VALUES, log=tmp_path / "a.log"):
            raise ZeroDivisionError

    with witnessed() as witness:
        with pytest.raises(ZeroDivisionError):
            await fail(witness)
        assert is_gone(witness.meet())


async def test_it_is_gone_when_the_task_is_cancelled_while_it_starts(tmp_path: Path) -> None:
    command = little_server("mute")  # never listens

    async def hold(witness: Witness) -> None:
        async with started(replace(command, words=_witnessed(command, witness)), VALUES, log=tmp_path / "a.log"):
            pytest.fail("it never answers")

    with witnessed() as witness:
        task = asyncio.create_task(hold(witness))
        held = await asyncio.to_thread(witness.meet)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert is_gone(held)


async def test_a_server_that_does_not_obey_is_killed(tmp_path: Path) -> None:
    async with started(little_server("deaf"), VALUES, log=tmp_path / "a.log", grace_s=0.1) as server:
        pass
    assert server.ended == (HowEnded.KILLED, -signal.SIGKILL)


async def test_what_it_started_itself_ends_with_it(tmp_path: Path) -> None:
    with witnessed() as witness:
        async with started(little_server("parent", witness=witness.port), VALUES, log=tmp_path / "a.log"):
            both = [witness.meet(), witness.meet()]
        assert [is_gone(each) for each in both] == [True, True]


def test_it_is_gone_when_its_owner_is_killed(tmp_path: Path, root: Path) -> None:
    with witnessed() as witness:
        command = owner_command("answers", witness.port, tmp_path / "a.log")
        with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
            held = witness.meet()
            assert owner.stdout is not None
            assert int(owner.stdout.readline()) > 0
            owner.kill()
            assert is_gone(held)


async def test_one_that_ends_before_it_answers_is_told_with_status_and_log(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    with pytest.raises(
        ServerFailed, match=r"fails: ended with status 1 before it answered; .*a\.log says: no such model"
    ):
        async with started(little_server("fails"), VALUES, log=log):
            pytest.fail("it never answers")


async def test_one_that_ends_midway_is_noticed(tmp_path: Path) -> None:
    async with started(little_server(), VALUES, log=tmp_path / "a.log") as server:
        server.require_alive("at once")
        await status_of(server.url, "/die")
        await _until_ended(server)
        with pytest.raises(ServerFailed, match=r"ended with status 9 in round 3; .* says: out of memory"):
            server.require_alive("in round 3")
    assert server.ended == (HowEnded.EXITED, 9)


async def test_one_that_never_gets_ready_is_told(tmp_path: Path) -> None:
    command = little_server(health="/loading")
    with pytest.raises(ServerFailed, match=r"/loading did not answer 200 within 0\.2 s"):
        async with started(command, VALUES, log=tmp_path / "a.log", timeout_s=0.2):
            pytest.fail("it never answers 200")


async def test_a_program_that_does_not_exist_is_told(tmp_path: Path) -> None:
    command = ServerCommand(name="x", words=("./no-such-program", "{port}"))
    with pytest.raises(ConfigError, match=r"\./no-such-program: cannot be started \(no such file or directory\)"):
        Server.start(command, VALUES, log=tmp_path / "a.log")


async def test_stopping_again_says_how_it_ended(tmp_path: Path) -> None:
    server = Server.start(little_server("idle"), VALUES, log=tmp_path / "a.log")
    assert server.stop() == server.stop() == (HowEnded.TERMINATED, -signal.SIGTERM)


async def test_a_guard_that_was_killed_does_not_save_its_server(tmp_path: Path) -> None:
    with witnessed() as witness:
        server = Server.start(little_server("idle", witness=witness.port), VALUES, log=tmp_path / "a.log")
        held = witness.meet()
        server._guard.kill()
        assert server.stop() == (HowEnded.KILLED, None)
        assert is_gone(held)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
async def test_memory_and_time_of_a_server_are_read(tmp_path: Path) -> None:
    async with started(little_server("parent"), VALUES, log=tmp_path / "a.log") as server:
        usage = server.usage()
        assert usage is not None
        assert 1 << 20 < usage.resident_bytes <= usage.peak_bytes
        assert usage.cpu_s >= 0
    assert server.usage() is None


async def test_nobody_answers_at_a_free_port() -> None:
    assert await status_of(f"http://127.0.0.1:{free_port()}", "/health") is None


def test_no_port_can_be_had_at_an_address_of_another_machine() -> None:
    with pytest.raises(ConfigError, match=r"192\.0\.2\.1: no port can be had there"):
        free_port("192.0.2.1")


def test_the_last_line_of_a_log_is_the_last_that_says_something(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    assert last_line(log) == "nothing"
    log.write_bytes(b"first\nlast \xff\n\n  \n")
    assert last_line(log) == "last �"


async def _until_ended(server: Server) -> None:
    async with asyncio.timeout(60):
        while server.ended is None:  # noqa: ASYNC110 - another process decides
            await asyncio.sleep(0)


def _witnessed(command: ServerCommand, witness: Witness) -> tuple[str, ...]:
    *head, _, what = command.words
    return (*head, str(witness.port), what)
