from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_frontend.traceparent import TraceContext, child, parse

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
VALID = f"00-{TRACE}-{SPAN}-01".encode()

trace_ids = st.binary(min_size=16, max_size=16).filter(any)
span_ids = st.binary(min_size=8, max_size=8).filter(any)


def test_a_valid_header_names_trace_span_and_sampling() -> None:
    assert TraceContext(TRACE, SPAN, sampled=True) == parse([VALID])


@pytest.mark.parametrize(
    ("flags", "sampled"), [("00", False), ("01", True), ("02", False), ("03", True), ("ff", True)]
)
def test_only_the_sampled_flag_is_read_and_sent_on(flags: str, sampled: bool) -> None:
    context = parse([f"00-{TRACE}-{SPAN}-{flags}".encode()])
    assert context is not None
    assert sampled is context.sampled
    assert f"00-{TRACE}-{SPAN}-0{int(sampled)}" == context.header()


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("absent", []),
        ("sent twice", [VALID, VALID]),
        ("two in one value", [VALID + b"," + VALID]),
        ("empty", [b""]),
        ("all zero trace", [VALID.replace(TRACE.encode(), b"0" * 32)]),
        ("all zero span", [VALID.replace(SPAN.encode(), b"0" * 16)]),
        ("capitals", [VALID.upper()]),
        ("one capital", [VALID.replace(b"c", b"C", 1)]),
        ("a letter that is no hex digit", [VALID.replace(b"c", b"g", 1)]),
        ("flags that are no hex digits", [VALID[:-2] + b"0x"]),
        ("version ff", [b"ff" + VALID[2:]]),
        ("version that is no hex digit", [b"0x" + VALID[2:]]),
        ("version 00 with more behind it", [VALID + b"-what"]),
        ("higher version with more behind it without a dash", [b"cc" + VALID[2:] + b".what"]),
        ("higher version, two in one value", [b"cc" + VALID[2:] + b"," + VALID]),
        ("one digit short", [VALID[:-1]]),
        ("underscores", [VALID.replace(b"-", b"_")]),
        ("a space inside", [VALID.replace(b"-", b" ", 1)]),
        ("bytes that are no ASCII", [b"\xff" * 55]),
    ],
)
def test_a_malformed_header_is_ignored(name: str, values: list[bytes]) -> None:
    assert parse(values) is None


@pytest.mark.parametrize("rest", [b"", b"-", b"-what-the-future-will-be-like"])
def test_a_higher_version_is_read_by_what_it_shares_with_version_00(rest: bytes) -> None:
    context = parse([b"cc" + VALID[2:] + rest])
    assert TraceContext(TRACE, SPAN, sampled=True) == context
    assert VALID.decode() == context.header()


def test_white_space_around_the_value_is_no_part_of_it() -> None:
    assert parse([VALID]) == parse([b" \t" + VALID + b"\t "])


def test_no_part_of_a_header_is_a_header() -> None:
    for at in range(len(VALID)):
        assert parse([VALID[:at]]) is None
        assert parse([VALID[:at] + VALID[at + 1 :]]) is None


@given(trace_ids, span_ids, st.booleans(), trace_ids, span_ids)
def test_a_child_keeps_trace_and_sampling_and_gets_a_span_of_its_own(
    trace: bytes, span: bytes, sampled: bool, unused: bytes, own: bytes
) -> None:
    received = parse([TraceContext(trace.hex(), span.hex(), sampled).header().encode()])
    assert TraceContext(trace.hex(), own.hex(), sampled) == child(received, unused, own)


@given(trace_ids, span_ids)
def test_without_a_context_a_new_sampled_trace_begins(trace: bytes, span: bytes) -> None:
    assert f"00-{trace.hex()}-{span.hex()}-01" == child(None, trace, span).header()


@pytest.mark.parametrize(
    ("trace", "span"),
    [(bytes(16), b"s" * 8), (b"t" * 16, bytes(8)), (b"t" * 15, b"s" * 8), (b"t" * 16, b"s" * 9)],
)
def test_ids_that_are_zero_or_of_a_wrong_length_are_refused(trace: bytes, span: bytes) -> None:
    with pytest.raises(ValueError, match="not all zero"):
        child(None, trace, span)


@given(st.binary(max_size=70))
def test_any_bytes_are_parsed_or_ignored(value: bytes) -> None:
    context = parse([value])
    assert context is None or context == parse([context.header().encode()])
