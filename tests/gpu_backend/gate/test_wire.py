"""The gate's connection to Redis: replies however they are cut, and a Redis that misbehaves."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import redis

from fakes.redis_process import RedisServer
from gpu_backend.gate.line import Line, RedisDown, call
from gpu_backend.gate.scripts import RENEW
from gpu_backend.gate.wire import Refused, Reply, Wire

REPLIES = b"+OK\r\n:-7\r\n$5\r\na\r\nbc\r\n$-1\r\n$0\r\n\r\n-NOSCRIPT none here\r\n:42\r\n"
READ: list[Reply | str] = [b"OK", -7, b"a\r\nbc", None, b"", "NOSCRIPT", 42]


def plain(reply: Reply | Exception) -> Reply | str:
    return reply.kind if isinstance(reply, Refused) else reply  # type: ignore[return-value]


async def fed(*pieces: bytes, asked: int = len(READ)) -> tuple[list[Reply | str], list[Exception]]:
    """What so many commands were answered with, and why the connection was lost."""
    taken: list[Reply | Exception] = []
    lost: list[Exception] = []
    wire = Wire(lambda _, why: lost.append(why))
    for _ in range(asked):
        wire.ask(("PING",), taken.append)
    for piece in pieces:
        wire.data_received(piece)
    return [plain(reply) for reply in taken], lost


async def test_replies_are_read_whole_and_cut_at_every_byte() -> None:
    assert (READ, []) == await fed(REPLIES)
    assert (READ, []) == await fed(*(REPLIES[at : at + 1] for at in range(len(REPLIES))))
    for at in range(len(REPLIES)):
        assert (READ, []) == await fed(REPLIES[:at], REPLIES[at:])


@pytest.mark.parametrize(
    "data",
    [b"*1\r\n:1\r\n", b"$-2\r\n", b"$99999999999\r\n", b":x\r\n", b"$x\r\n", b"HTTP\r\n"],
)
async def test_what_is_no_reply_ends_the_connection(data: bytes) -> None:
    taken, lost = await fed(b"+OK\r\n" + data, asked=3)
    assert b"OK" == taken[0]
    assert all(isinstance(reply, ValueError) for reply in taken[1:])
    assert [ValueError] == [type(why) for why in lost]


async def test_a_reply_that_nobody_asked_for_is_given_to_no_one() -> None:
    taken, lost = await fed(b"+OK\r\n+OK\r\n", asked=1)
    assert [b"OK"] == taken
    assert [ValueError] == [type(why) for why in lost]


@pytest.fixture
async def own(tmp_path: Path) -> AsyncIterator[RedisServer]:
    server = RedisServer(tmp_path)
    await asyncio.to_thread(server.start)
    yield server
    server.stop()


@asynccontextmanager
async def line_to(url: str, timeout_s: float = 0.5) -> AsyncIterator[Line]:
    line = Line(url, timeout_s)
    yield line
    await line.close()


async def test_commands_of_many_at_once_are_each_answered_with_their_own(own: RedisServer) -> None:
    async with line_to(own.url) as line:
        asked = [line.ask(("ECHO", f"{number} \r\n")) for number in range(500)]
        assert [b"%d \r\n" % number for number in range(500)] == await asyncio.gather(*asked)


async def test_scripts_that_were_flushed_are_brought_again(own: RedisServer) -> None:
    async with line_to(own.url) as line:
        await line.ask(("PING",))
        with redis.Redis.from_url(own.url) as client:
            client.script_flush()
        command = call(RENEW, ("a", "b", "c"), ("", "id", 1000, 5))
        assert [1, 1] == list(await asyncio.gather(line.ask(command), line.ask(command)))
        assert line.up


async def test_password_user_and_database_of_the_address_are_used(own: RedisServer) -> None:
    with redis.Redis.from_url(own.url) as client:
        client.execute_command("ACL", "SETUSER", "gate", "on", ">secret", "~*", "+@all")
    address = own.url.replace("redis://", "redis://gate:secret@").replace("/0", "/3")
    async with line_to(address) as line:
        assert b"gate" == await line.ask(("ACL", "WHOAMI"))
        await line.ask(("SET", "here", 1))
    with redis.Redis.from_url(own.url.replace("/0", "/3")) as client:
        assert b"1" == client.get("here")


async def test_a_connection_that_was_closed_meanwhile_is_opened_again(own: RedisServer) -> None:
    async with line_to(own.url) as line:
        first = await line.ask(("CLIENT", "ID"))
        with redis.Redis.from_url(own.url) as client:
            client.client_kill_filter(_id=first)
        await asyncio.sleep(0.05)
        assert first != await line.ask(("CLIENT", "ID"))


async def test_a_redis_that_hangs_in_the_middle_is_given_up_in_time(own: RedisServer) -> None:
    async with line_to(own.url, timeout_s=0.1) as line:
        await line.ask(("PING",))
        with redis.Redis.from_url(own.url) as client:
            client.client_pause(3_000, all=True)
        began = time.monotonic()
        replies = await asyncio.gather(
            *(line.ask(("PING",)) for _ in range(5)), return_exceptions=True
        )
        assert all(isinstance(reply, RedisDown) for reply in replies)
        assert 0.15 < time.monotonic() - began < 1
        assert not line.up
        with pytest.raises(RedisDown, match="TimeoutError"):
            await line.ask(("PING",))


async def test_closing_tells_who_waits(own: RedisServer) -> None:
    line = Line(own.url, 0.5)
    waiting = [line.ask(("PING",))]
    await asyncio.sleep(0)
    await line.close()
    with pytest.raises(RedisDown):
        await waiting[0]


async def test_a_command_whose_asker_has_gone_takes_nobodys_reply(own: RedisServer) -> None:
    async with line_to(own.url) as line:
        await line.ask(("PING",))
        gone, there = line.ask(("ECHO", "gone")), line.ask(("ECHO", "there"))
        gone.cancel()
        assert b"there" == await there


def test_an_address_with_tls_makes_a_context() -> None:
    """As redis-py reads it: `ssl_cert_reqs=none` in an address is the operator's word."""
    line = Line("rediss://:secret@host:7000/2", 1)
    made = line._address.ssl_context.get()
    assert isinstance(made, ssl.SSLContext)
    assert ssl.CERT_REQUIRED == made.verify_mode
    lax = Line("rediss://host?ssl_cert_reqs=none&ssl_check_hostname=false", 1)
    assert ssl.CERT_NONE == lax._address.ssl_context.get().verify_mode
