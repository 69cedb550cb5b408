from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edge_frontend import sse
from edge_frontend.sse import EventTooLarge, Parser, frame

BOM = b"\xef\xbb\xbf"

# Each entry: what it shows, the stream, the payloads, whether something is left open.
STREAMS: list[tuple[str, bytes, list[bytes], bool]] = [
    ("the usual framing", b'data: {"a":1}\n\ndata: [DONE]\n\n', [b'{"a":1}', b"[DONE]"], False),
    ("CRLF", b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"], False),
    ("CR", b"data: a\r\rdata: b\r\r", [b"a", b"b"], False),
    ("line ends mixed", b"data: a\n\rdata: b\r\n\ndata: c\r\r\n", [b"a", b"b", b"c"], False),
    ("a byte order mark", BOM + b"data: a\n\n", [b"a"], False),
    ("a mark that is not at the start", b"data: a\n\n" + BOM + b"data: b\n\n", [b"a"], False),
    ("two marks, of which one counts", BOM + BOM + b"data: a\n\n", [], False),
    ("no space after the colon", b"data:a\n\n", [b"a"], False),
    ("two spaces, of which one counts", b"data:  a\n\n", [b" a"], False),
    ("several data lines", b"data: a\ndata:\ndata:b\n\n", [b"a\n\nb"], False),
    ("comments around and inside", b": ping\n\n:\ndata: a\n: ping\ndata: b\n\n", [b"a\nb"], False),
    ("other fields", b"event: x\nid: 7\nretry: 10\ndata: a\nfoo: b\nbar\n\n", [b"a"], False),
    ("fields that only look like data", b"Data: a\n data: b\ndata : c\ndatas: d\n\n", [], False),
    ("data without a colon", b"data\n\n", [b""], False),
    ("data with an empty value", b"data:\n\ndata: \n\n", [b"", b""], False),
    ("an event without data", b"event: x\n\ndata: a\n\n", [b"a"], False),
    ("blank lines in a row", b"\n\n\ndata: a\n\n\n\n\ndata: b\n\n", [b"a", b"b"], False),
    ("colons in the value", b"data: a: b:c\n\n", [b"a: b:c"], False),
    ("no UTF-8", b"data: \xff\x00\x0b\x1c\x85\n\n", [b"\xff\x00\x0b\x1c\x85"], False),
    ("a character of four bytes", "data: 🜂\n\n".encode(), ["🜂".encode()], False),
    ("an end after a data line", b"data: a\n\ndata: b\n", [b"a"], True),
    ("an end within a line", b"data: a\n\nda", [b"a"], True),
    ("an end before the data", b"event: error\n", [], True),
    ("an end after a comment", b"data: a\n\n: bye\n", [b"a"], False),
    ("nothing", b"", [], False),
]  # fmt: skip

NAMES = [name for name, *_ in STREAMS]


def read(pieces: Iterable[bytes], **limits: int) -> tuple[list[bytes], bool]:
    parser = Parser(**limits)
    payloads = [payload for piece in pieces for payload in parser.feed(piece)]
    return payloads, parser.pending()


def by_the_standard(stream: bytes) -> tuple[list[bytes], bool, int]:
    """Read a whole stream as the standard words it; also give the largest line or data."""
    *lines, unfinished = re.split(rb"\r\n|\n|\r", stream.removeprefix(BOM))
    payloads: list[bytes] = []
    buffer, begun, largest = b"", False, len(unfinished)
    for line in lines:
        largest = max(largest, len(line))
        if not line:
            if buffer:
                payloads.append(buffer[:-1])
            buffer, begun = b"", False
        elif not line.startswith(b":"):
            begun = True
            match = re.fullmatch(rb"([^:]*)(?:: ?(.*))?", line, re.DOTALL)
            assert match is not None
            if match[1] == b"data":
                buffer += (match[2] or b"") + b"\n"
                largest = max(largest, len(buffer) - 1)
    return payloads, begun or unfinished != b"", largest


PARTS = [b"data: ", b"data:", b"data", b"event: e", b":", b" ", b"{}", "é".encode(), BOM]
ENDS = [b"\n", b"\r", b"\r\n", b"\n\n"]
streams = st.lists(st.sampled_from([*PARTS, *ENDS, *ENDS]), max_size=24).map(b"".join)


def cut(stream: bytes, at: list[int]) -> list[bytes]:
    """Cut a stream at these places, of which any may be the same or lie outside."""
    places = [0, *sorted(min(place, len(stream)) for place in at), len(stream)]
    return [stream[start:end] for start, end in pairwise(places)]


cuts = st.lists(st.integers(0, 80), max_size=8)


@pytest.mark.parametrize(("name", "stream", "payloads", "pending"), STREAMS, ids=NAMES)
class TestAStreamIsReadTheSame:
    def test_when_it_comes_whole(
        self, name: str, stream: bytes, payloads: list[bytes], pending: bool
    ) -> None:
        assert (payloads, pending) == read([stream])

    def test_when_it_comes_byte_by_byte(
        self, name: str, stream: bytes, payloads: list[bytes], pending: bool
    ) -> None:
        single = [stream[i : i + 1] for i in range(len(stream))]
        assert (payloads, pending) == read(single)

    def test_when_it_is_split_anywhere(
        self, name: str, stream: bytes, payloads: list[bytes], pending: bool
    ) -> None:
        for at in range(len(stream) + 1):
            assert (payloads, pending) == read([stream[:at], b"", stream[at:]]), at

    def test_when_another_event_begins_behind_it(
        self, name: str, stream: bytes, payloads: list[bytes], pending: bool
    ) -> None:
        ended = stream + b"\n\n"
        whole = by_the_standard(ended)[0]
        assert ([*whole, b"next"], True) == read([ended + b"data: next\n\ndata: la"])


@given(streams, cuts)
@example(b"data: {}\r\n\r\ndata: {}\r\n\r\n", [9, 11])
@example(b"data: {}\n\ndata: {}\n\ndata: {}\n", [12])
def test_any_stream_split_anywhere_is_read_as_the_standard_says(
    stream: bytes, at: list[int]
) -> None:
    payloads, pending, _ = by_the_standard(stream)
    assert (payloads, pending) == read(cut(stream, at))


@given(streams, cuts, st.integers(3, 16))
def test_whether_an_event_is_too_large_does_not_depend_on_how_it_was_split(
    stream: bytes, at: list[int], limit: int
) -> None:
    payloads, pending, largest = by_the_standard(stream)
    if largest > limit:
        with pytest.raises(EventTooLarge, match=f"larger than {limit} bytes"):
            read(cut(stream, at), max_event_bytes=limit)
    else:
        assert (payloads, pending) == read(cut(stream, at), max_event_bytes=limit)


def test_events_are_given_by_the_read_that_completes_them() -> None:
    parser = Parser()
    assert [b"a", b"b"] == parser.feed(b"data: a\n\ndata: b\n\ndata: c")
    assert [] == parser.feed(b"d\n")
    assert [b"cd", b"e"] == parser.feed(b"\ndata: e\n\n")


def test_a_lone_carriage_return_ends_an_event_at_once() -> None:
    """A parser that waits for the line feed would hold back the newest event of a CR stream."""
    parser = Parser()
    assert [b"a"] == parser.feed(b"data: a\r\r")
    assert [b"b"] == parser.feed(b"\ndata: b\r\n\r")
    assert not parser.pending()


@pytest.mark.parametrize(
    "endless", [b"x", b"data: x", b": x", b"data: x\n"], ids=["line", "data", "comment", "lines"]
)
def test_an_event_without_end_is_refused_before_it_fills_the_memory(endless: bytes) -> None:
    with pytest.raises(EventTooLarge):
        read([endless] * 2000, max_event_bytes=1000)


def test_comments_and_events_without_data_may_go_on_for_ever() -> None:
    parser = Parser(max_event_bytes=100)
    for _ in range(1000):
        assert [] == parser.feed(b": keep-alive\n\nevent: ping\nid: 1\n\n")
    assert [b"a"] == parser.feed(b"data: a\n\n")


def test_a_read_larger_than_an_event_may_be_is_no_event_that_is_too_large() -> None:
    assert [b"x" * 90] * 50 == Parser(max_event_bytes=100).feed(frame(b"x" * 90) * 50)


@given(st.binary(), cuts)
def test_what_is_framed_is_read_back_with_its_line_ends_as_newlines(
    payload: bytes, at: list[int]
) -> None:
    expected = payload.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert ([expected, b"[DONE]"], False) == read(cut(frame(payload) + frame(sse.DONE), at))


def test_a_payload_of_one_line_is_framed_as_model_servers_do() -> None:
    assert b'data: {"a":1}\n\n' == frame(b'{"a":1}')
    assert b"data: a\ndata: \ndata: b\n\n" == frame(b"a\n\nb")
