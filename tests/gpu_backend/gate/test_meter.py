"""What is learnt from an answer's bytes, however they are cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.engine import PROMPT_TOKENS, events
from gpu_backend.gate.meter import Meter
from gpu_backend.gate.outcome import Outcome

STREAM = [(b"Content-Type", b"text/event-stream; charset=utf-8")]
JSON = [(b"content-type", b"application/json")]
WHOLE = b"".join(events(5, "final"))
EXACT = Outcome(generated=5, input_tokens=PROMPT_TOKENS, cached_input=4)


def metered(
    *pieces: bytes,
    headers: list[tuple[bytes, bytes]] = STREAM,
    ended: bool = True,
    status: int = 200,
) -> Outcome:
    meter = Meter()
    meter.head(status, headers)
    for piece in pieces:
        meter.feed(piece)
    return meter.outcome(ended=ended, input_estimate=11, generated_estimate=22)


@pytest.mark.parametrize("at", range(len(WHOLE) + 1))
def test_a_stream_cut_anywhere_tells_the_same(at: int) -> None:
    assert EXACT == metered(WHOLE[:at], WHOLE[at:])


def test_a_stream_byte_by_byte_tells_the_same() -> None:
    assert EXACT == metered(*(bytes([byte]) for byte in WHOLE))


@given(st.lists(st.integers(0, len(WHOLE)), max_size=6))
def test_a_stream_cut_in_several_places_tells_the_same(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(WHOLE)]
    assert EXACT == metered(*(WHOLE[a:b] for a, b in itertools.pairwise(edges)))


def test_of_a_long_stream_the_last_usage_counts() -> None:
    assert 3000 == metered(*events(3000, "continuous")).generated


def test_a_long_stream_is_not_kept() -> None:
    meter = Meter()
    meter.head(200, STREAM)
    for _ in range(1000):
        meter.feed(b"x" * 1000)
    assert meter._tail_bytes < 40_000


def test_a_stream_with_another_framing_tells_the_same() -> None:
    assert EXACT == metered(WHOLE.replace(b"\n", b"\r\n"))


def test_null_usage_on_every_chunk_is_none() -> None:
    pieces = [
        p.replace(b'"choices": [{', b'"usage": null, "choices": [{') for p in events(5, "final")
    ]
    assert EXACT == metered(*pieces)
    assert not metered(*pieces[:4], ended=False).exact


def test_a_client_that_hangs_up_once_it_has_the_end_got_the_whole_answer() -> None:
    for kind in ("final", "continuous"):
        *before, done = events(5, kind)
        assert EXACT == metered(*before, done, ended=False)
        assert not metered(*before, ended=False).exact


def test_a_broken_off_stream_has_its_last_count_as_an_estimate() -> None:
    pieces = events(9, "continuous")
    expected = Outcome(4, PROMPT_TOKENS, 4, exact=False)
    assert expected == metered(*pieces[:5], ended=False)


def test_a_stream_that_ends_without_its_end_is_an_estimate() -> None:
    """The engine broke off, and the server closed the answer in order all the same."""
    assert not metered(*events(9, "continuous")[:5]).exact
    error = b'data: {"error": {"message": "boom"}}\n\n'
    assert not metered(*events(9, "continuous")[:5], error, b"data: [DONE]\n\n").exact


def test_without_usage_events_are_counted() -> None:
    assert Outcome(4, 11, exact=False) == metered(*events(9, "none")[:5], ended=False)


def test_a_text_that_looks_like_usage_is_none() -> None:
    body = b'{"choices":[{"text":"\\"usage\\":{\\"completion_tokens\\":9}"}]}'
    assert Outcome(22, 11, exact=False) == metered(body, headers=JSON)


@pytest.mark.parametrize("between", [b"", b" ", b"\n  "])
def test_a_whole_answer_tells_its_usage(between: bytes) -> None:
    usage = b'{"prompt_tokens":7,"completion_tokens":5,"prompt_tokens_details":null}'
    body = b'{"choices":[],"usage":' + between + usage + b',"metrics":{"a":1}}'
    assert Outcome(5, 7) == metered(body, headers=JSON)
    assert Outcome(5, 7) == metered(body[:30], body[30:], headers=JSON)


def test_a_whole_answer_that_never_came_is_estimated_from_outside() -> None:
    assert Outcome(22, 11, exact=False) == metered(headers=JSON, ended=False)


@pytest.mark.parametrize(("status", "undo"), [(400, False), (500, False), (503, True), (429, True)])
def test_a_refusal_of_the_engine_used_nothing(status: int, undo: bool) -> None:
    assert Outcome(failed=True, undo=undo) == metered(b"{}", headers=JSON, status=status)


@given(st.lists(st.binary(max_size=60), max_size=5), st.booleans())
def test_no_bytes_make_it_fail(pieces: list[bytes], ended: bool) -> None:
    for pad in (
        b"",
        b'data: {"usage":',
        b'"usage":{"completion_tokens":[]}',
        b'"usage":' + b"[" * 9,
    ):
        for headers in (STREAM, JSON):
            metered(*pieces, pad, headers=headers, ended=ended)
