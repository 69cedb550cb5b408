from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_frontend.errors import UpstreamBroke
from edge_frontend.relay import MAX_EVENT_BYTES, Relay
from fakes.edge import DONE, METRICS, USAGE, chunk, stream

ERROR = b'data: {"error":{"message":"made up","type":"x","code":500}}\n\n'
ROLE = chunk({"role": "assistant", "content": ""})


def relayed(
    pieces: Iterable[bytes], *, wants_usage: bool = False, keep: bool = True
) -> tuple[bytes, Relay]:
    """What is forwarded of the pieces up to the end of the stream, as a host reads them."""
    relay, forwarded = Relay(wants_usage=wants_usage, keep=keep), b""
    for piece in pieces:
        forwarded += relay.feed(piece)
        if relay.ended:
            break
    return forwarded, relay


def seen(relay: Relay) -> dict[str, Any]:
    """All that a relay says of the answer."""
    return {
        "done": relay.done,
        "failed": relay.failed,
        "has_content": relay.has_content,
        "head": relay.head,
        "usage": relay.usage,
        "metrics": relay.metrics,
        "body": relay.body(1),
    }


WHOLE = stream("Hel", "lo", ' "you"\n', "\u00e9\U0001f600", metrics=METRICS)


def test_the_events_of_an_answer_go_on_as_they_came_but_for_usage_and_end() -> None:
    forwarded, relay = relayed(WHOLE)
    assert b"".join(WHOLE[:-2]) == forwarded
    assert (True, False) == (relay.done, relay.failed)
    assert USAGE == relay.usage
    assert METRICS == relay.metrics


def test_the_usage_goes_on_when_it_was_asked_for() -> None:
    forwarded, relay = relayed(WHOLE, wants_usage=True)
    assert b"".join(WHOLE[:-1]) == forwarded
    assert USAGE == relay.usage


def test_an_answer_fed_whole_is_an_answer_fed_by_events() -> None:
    by_events, one = relayed(WHOLE)
    at_once, other = relayed([b"".join(WHOLE)])
    assert by_events == at_once
    assert seen(one) == seen(other)


def test_an_answer_split_at_any_byte_is_the_same_answer() -> None:
    data = b"".join(WHOLE)
    expected, relay = relayed([data])
    for at in range(len(data) + 1):
        forwarded, split = relayed([data[:at], data[at:]])
        assert expected == forwarded, at
        assert seen(relay) == seen(split), at


def test_an_answer_byte_by_byte_is_the_same_answer() -> None:
    data = b"".join(WHOLE)
    forwarded, relay = relayed(data[at : at + 1] for at in range(len(data)))
    assert b"".join(WHOLE[:-2]) == forwarded
    assert seen(relayed([data])[1]) == seen(relay)


@pytest.mark.parametrize(
    ("expected", "delta"),
    [
        (False, {"role": "assistant"}),
        (False, {"role": "assistant", "content": ""}),
        (False, {"content": None}),
        (False, {"tool_calls": []}),
        (False, {}),
        (True, {"content": "x"}),
        (True, {"role": "assistant", "content": " "}),
        (True, {"reasoning": "x"}),
        (True, {"reasoning_content": "x"}),
        (True, {"tool_calls": [{"index": 0, "id": "1", "function": {"name": "f"}}]}),
    ],
)
def test_only_content_reasoning_or_a_tool_call_is_content(
    expected: bool, delta: dict[str, Any]
) -> None:
    assert expected is relayed([chunk(delta)])[1].has_content


def test_a_comment_is_not_forwarded_and_is_no_content() -> None:
    forwarded, relay = relayed([b": ping\n\n", ROLE])
    assert ROLE == forwarded
    assert relay.has_content is False


def test_content_is_seen_in_the_piece_that_brought_it() -> None:
    relay = Relay(wants_usage=False, keep=False)
    content = chunk({"content": "x"})
    relay.feed(ROLE + content[:-1])
    assert relay.has_content is False
    relay.feed(content[-1:])
    assert relay.has_content is True


def test_a_usage_beside_choices_goes_on_always() -> None:
    """A server that was asked to tell the usage all the time tells it with the text."""
    event = chunk({"content": "x"}, usage=USAGE)
    forwarded, relay = relayed([event, event])
    assert event * 2 == forwarded
    assert USAGE == relay.usage


@pytest.mark.parametrize("before", [[], [ROLE], stream("a", "b")[:-3]])
@pytest.mark.parametrize("after", [[], [DONE], [chunk({"content": "never"}), DONE]])
def test_an_error_frame_fails_the_answer_whatever_follows(
    before: list[bytes], after: list[bytes]
) -> None:
    forwarded, relay = relayed([b"".join([*before, ERROR, *after])])
    assert b"".join(before) == forwarded
    assert (False, True) == (relay.done, relay.failed)
    assert relay.body(1) is None


def test_nothing_after_the_end_goes_on() -> None:
    forwarded, relay = relayed([b"".join([*WHOLE, chunk({"content": "late"}), ERROR])])
    assert b"".join(WHOLE[:-2]) == forwarded
    assert (True, False) == (relay.done, relay.failed)


def test_nothing_goes_on_that_is_read_after_the_end() -> None:
    relay = Relay(wants_usage=False, keep=True)
    relay.feed(b"".join(WHOLE))
    for late in (chunk({"content": "late"}), ERROR, DONE, b": x\n\n"):
        assert b"" == relay.feed(late)
    assert (True, False) == (relay.done, relay.failed)


@pytest.mark.parametrize("events", range(len(WHOLE)))
def test_an_answer_that_ends_without_its_end_broke_off(events: int) -> None:
    _, relay = relayed([*WHOLE[:events], WHOLE[events][:-1]])
    with pytest.raises(UpstreamBroke):
        relay.end()
    assert relay.body(1) is None


def test_an_answer_that_ends_after_its_end_is_whole() -> None:
    _, relay = relayed(WHOLE)
    relay.end()
    body = relay.body(1)
    assert body is not None
    choice = body["choices"][0]
    assert ("Hello \"you\"\n\u00e9\U0001f600", "stop", USAGE) == (
        choice["message"]["content"], choice["finish_reason"], body["usage"],
    )  # fmt: skip


@pytest.mark.parametrize("finish", [None, "error", "abort"])
def test_a_choice_that_did_not_come_to_its_end_is_no_whole_answer(finish: str | None) -> None:
    _, relay = relayed([ROLE, chunk({"content": "x"}), chunk({}, finish), DONE])
    assert relay.done is True
    assert relay.body(1) is None


def test_an_answer_needs_every_choice_that_was_asked_for() -> None:
    assert relayed(WHOLE)[1].body(2) is None
    assert relayed(WHOLE)[1].body(1) is not None


@pytest.mark.parametrize("payload", [b"x", b"{", b"[]", b"7", b"null", b'"x"', b"[" * 100_000])
@pytest.mark.parametrize("before", [[], [ROLE], [ROLE, chunk({"content": "x"})]])
def test_an_event_that_is_no_object_breaks_the_answer(before: list[bytes], payload: bytes) -> None:
    with pytest.raises(UpstreamBroke):
        relayed([*before, b"data: " + payload + b"\n\n"])


def test_an_event_without_an_end_breaks_the_answer_at_its_limit() -> None:
    piece = b"x" * 1_000_000
    with pytest.raises(UpstreamBroke):
        relayed([b"data: ", *[piece] * (MAX_EVENT_BYTES // len(piece) + 1)])


def test_what_was_refused_is_not_in_the_error() -> None:
    with pytest.raises(UpstreamBroke) as caught:
        relayed([b"data: canary\n\n"])
    assert "canary" not in caught.value.message


@pytest.mark.parametrize("text", [b"\\q", b"a\tb", b"\xff", b"\\", b"\\ud8"])
def test_a_text_that_is_no_json_breaks_the_answer_or_is_no_whole_one(text: bytes) -> None:
    """It may pass unparsed, but it must not end in a crash or in the cache."""
    odd = chunk({"content": "@"}).replace(b"@", text)
    try:
        _, relay = relayed([ROLE, chunk({"content": "x"}), odd, chunk({}, "stop"), DONE])
        body = relay.body(1)
    except UpstreamBroke:
        return
    assert body is None


plain = st.sampled_from(["a", "word", " and", ","])
texts = (
    plain
    | st.text(max_size=6)
    | st.sampled_from(['"', "\\", "\n", "data: ", '"usage"', "}\n\n", "é"])
)
deltas = st.one_of(
    plain.map(lambda text: {"content": text}),
    texts.map(lambda text: {"content": text}),
    texts.map(lambda text: {"reasoning": text}),
    texts.map(lambda text: {"content": text, "role": "assistant"}),
    texts.map(lambda text: {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}),
    st.just({}),
    st.just({"content": None}),
)
documents = st.one_of(
    st.builds(lambda delta: json.loads(chunk(delta)[6:]), deltas),
    st.builds(lambda delta: json.loads(chunk(delta)[6:]), deltas),
    st.builds(lambda delta: json.loads(chunk(delta, "stop")[6:]), deltas),
    st.builds(lambda delta: json.loads(chunk(delta, usage=None, x_new=[1])[6:]), deltas),
    st.builds(lambda delta: json.loads(chunk(delta, usage=USAGE)[6:]), deltas),
    st.just(json.loads(chunk(None, usage=USAGE, metrics=METRICS)[6:])),
    st.just({"choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": None}]}),
    st.just({"error": {"message": "made up"}}),
)


@pytest.mark.parametrize(
    "event",
    [
        chunk({"content": "x", "role": "assistant"}),
        chunk({"content": "x", "refusal": "y"}),
        chunk({"content": 'a"b'}),
        chunk({"content": "a\\"}),
        chunk({"content": "x"}, "stop"),
        chunk({"content": "x"}, usage=USAGE),
        chunk({"content": "x"}, id="chatcmpl-2"),
        chunk({"content": "a"}) + chunk({"content": "b", "x": "c"}) + chunk({"content": "d"}),
        chunk({"content": "a"}) + ERROR + chunk({"content": "d"}),
        chunk({"content": "a"}) + DONE + chunk({"content": "d"}),
    ],
)
def test_what_looks_almost_like_a_text_is_read_as_what_it_is(event: bytes) -> None:
    data = b"".join([ROLE, chunk({"content": "x"}), event, chunk({"content": "y"}), DONE])
    pieces = [ROLE, chunk({"content": "x"}), event, chunk({"content": "y"}), DONE]
    slow, slow_relay = relayed(data[at : at + 1] for at in range(len(data)))
    fast, fast_relay = relayed(pieces)
    assert slow == fast
    assert seen(slow_relay) == seen(fast_relay)


def test_a_text_that_goes_on_where_another_line_began_is_no_text() -> None:
    text = chunk({"content": "x"})
    forwarded, relay = relayed([ROLE, text, b": a comment that ", text, b"\n", text, DONE])
    assert ROLE + text * 2 == forwarded
    assert relay.done is True


@st.composite
def answers(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """A stream in some legal framing, and its pieces as some network cut them."""
    end = draw(st.sampled_from(["\n", "\n", "\n", "\r\n", "\r"]))
    space = draw(st.sampled_from([" ", " ", ""]))
    data = draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf"]))
    ascii_only = draw(st.booleans())
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    cuts = [0]
    for document in draw(st.lists(documents, max_size=8)):
        text = json.dumps(document, ensure_ascii=ascii_only, separators=separators)
        if draw(st.integers(0, 9)) == 0:
            data += f": comment{end}{end}".encode()
        data += f"data:{space}{text}{end}{end}".encode("utf-8", "replace")
        if draw(st.integers(0, 3)):
            cuts.append(len(data))
    if draw(st.integers(0, 4)):
        data += f"data:{space}[DONE]{end}{end}".encode()
    cuts += draw(st.lists(st.integers(0, len(data)), max_size=2))
    edges = sorted({*cuts, len(data)})
    return data, [data[start:stop] for start, stop in pairwise(edges)]


@given(answers(), st.booleans(), st.booleans())
def test_how_an_answer_was_cut_changes_nothing(
    answer: tuple[bytes, list[bytes]], wants_usage: bool, keep: bool
) -> None:
    """Cut at events much passes unparsed; byte by byte nothing can."""
    data, pieces = answer
    singly = [data[at : at + 1] for at in range(len(data))]
    slow, slow_relay = relayed(singly, wants_usage=wants_usage, keep=keep)
    fast, fast_relay = relayed(pieces, wants_usage=wants_usage, keep=keep)
    whole, whole_relay = relayed([data], wants_usage=wants_usage, keep=keep)
    assert slow == fast == whole
    assert seen(slow_relay) == seen(fast_relay) == seen(whole_relay)


@given(st.lists(st.text(max_size=8), min_size=3, max_size=12), st.booleans())
def test_many_texts_in_one_read_are_put_together_in_order(parts: list[str], one_read: bool) -> None:
    events = stream("first", *parts)
    middle = events[2:-3]
    pieces = [*events[:2], *([b"".join(middle)] if one_read else middle), *events[-3:]]
    forwarded, relay = relayed(pieces)
    body = relay.body(1)
    assert b"".join(events[:-2]) == forwarded
    assert body is not None
    joined = json.loads(json.dumps("first" + "".join(parts)))
    assert joined == json.loads(json.dumps(body["choices"][0]["message"]["content"]))


def test_plain_texts_pass_without_being_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes a chunk cheap; without it every other test here would pass as well."""
    events = stream(*"abcdefgh")
    relay = Relay(wants_usage=False, keep=False)
    for event in events[:2]:
        relay.feed(event)
    monkeypatch.setattr("edge_frontend.relay._chunk", lambda payload: pytest.fail("was parsed"))
    assert b"".join(events[2:9]) == relay.feed(b"".join(events[2:5])) + b"".join(
        relay.feed(event) for event in events[5:9]
    )


def test_a_text_whose_end_is_an_escaped_quote_is_left_to_the_parser() -> None:
    """Joined to the next text its backslash would escape something else."""
    first = chunk({"content": "a"})
    relay = Relay(wants_usage=False, keep=True)
    relay.feed(first)
    with pytest.raises(UpstreamBroke):
        relay.feed(first.replace(b'"content":"a"', b'"content":"a\\"'))
