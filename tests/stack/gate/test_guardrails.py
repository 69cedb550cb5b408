"""What a rule names never reaches the client, wherever the upstream cuts its stream."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fakes.script import Script
from stack.answers import told
from stack.caller import Caller
from stack.calls import Calls
from stack.edges import Edge
from stack.streams import leaver, sessions, take
from stack.whole import Whole

ADDRESS = "dana.q@example.test"
BEFORE, AFTER = "Write to ", " and wait."

pytestmark = pytest.mark.fault(1)


@pytest.fixture(scope="module", params=[None, 1], ids=["warm", "fresh"])
def guarded(whole: Whole, request: pytest.FixtureRequest) -> Iterator[Edge]:
    """Edges that mask personal data in answers."""
    found = whole.edge(reuse_count=request.param, guardrails="standard@1")
    yield found
    whole.end(found)


def cuts(text: str) -> list[tuple[str, ...]]:
    """The text in two pieces at every place, and in pieces of one letter."""
    return [(text[:at], text[at:]) for at in range(1, len(text))] + [tuple(text)]


async def test_a_value_split_over_deltas_is_masked_wherever_it_is_split(
    guarded: Edge, caller: Caller, calls: Calls
) -> None:
    text = BEFORE + ADDRESS + AFTER
    async with sessions() as session:
        for number, pieces in enumerate(cuts(text)):
            marker = f"{caller.marker}-cut{number}-"
            calls.answer(Script(pieces=pieces, gap_ms=1), marker)
            body = caller.body(f"{marker} please", stream=True)
            answer = await take(session, guarded, caller, body)
            assert answer.done
            assert f"{BEFORE}[email]{AFTER}" == answer.text
            # Nothing of it is in the bytes either: two deltas may not hold its halves.
            assert "dana" not in answer.body.decode()
            assert "mple.test" not in answer.body.decode()


def test_one_byte_a_write_changes_nothing(guarded: Edge, caller: Caller, calls: Calls) -> None:
    calls.answer(Script(pieces=("dana.q@exa", "mple.test"), write_bytes=1))
    answer = caller.post(guarded, caller.body(stream=True))
    assert "dana" not in answer.text
    assert answer.text.endswith("data: [DONE]\n\n")


def test_a_kept_answer_and_one_in_one_body_are_masked_too(
    guarded: Edge, caller: Caller, calls: Calls
) -> None:
    calls.answer(Script(pieces=(BEFORE, ADDRESS[:7], ADDRESS[7:], AFTER)))
    answers = [caller.post(guarded, caller.body()) for _ in range(2)]
    assert ["miss", "hit"] == [answer.headers["x-cache"] for answer in answers]
    first, second = (told(answer.json()) for answer in answers)
    assert first == second
    assert ADDRESS not in answers[0].text + answers[1].text
    assert 1 == len(calls.seen)


def test_nothing_leaves_while_it_may_still_begin_a_match(
    guarded: Edge, caller: Caller, calls: Calls
) -> None:
    """The client goes away in the middle: not even the beginning of the value had left."""
    calls.answer(Script(pieces=(BEFORE, "dana.q@exa", "mple.test", AFTER), gap_ms=600))
    with leaver(guarded, caller, caller.body(stream=True)) as client:
        client.read_until(1, b"Write to")
        calls.wait_chunks(2)
        client.leave("fin")
    assert b"dana" not in client.received


def test_a_blocked_request_is_a_400_that_names_the_rule_alone(
    guarded: Edge, caller: Caller, calls: Calls
) -> None:
    secret = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA0\n-----END RSA PRIVATE KEY-----"
    answer = caller.post(guarded, caller.body(secret))
    assert (400, "content_policy_violation") == (
        answer.status_code,
        answer.json()["error"]["code"],
    )
    assert "MIIE" not in answer.text
    assert "private-key" in answer.text
    assert [] == calls.seen
    assert "MIIE" not in guarded.log_text()
