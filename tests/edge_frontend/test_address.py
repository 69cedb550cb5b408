"""The client's address is what our own proxies say of it, and decides nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_frontend import address
from fakes.edge import Edge, chat, make_key, run

ONE, TWO = "198.51.100.7", "2001:db8::7"


@pytest.mark.parametrize(
    ("forwarded", "hops", "expected"),
    [
        (ONE, 0, None),
        (ONE, 1, ONE),
        (f"{TWO}, {ONE}", 1, ONE),
        (f"{TWO}, {ONE}", 2, TWO),
        (f"spoofed, {TWO},{ONE} ", 2, TWO),
        (ONE, 2, None),
        ("", 1, None),
        ("spoofed", 1, None),
        (f"{ONE}:4711", 1, ONE),
        (f"[{TWO}]:4711", 1, TWO),
        ("2001:0DB8:0:0::7", 1, TWO),
        ("unknown", 1, None),
        ("_hidden", 1, None),
        ("198.51.100.256", 1, None),
        ("[", 1, None),
    ],
)
def test_the_address_is_counted_from_the_right(
    forwarded: str, hops: int, expected: str | None
) -> None:
    assert expected == address.client(forwarded, hops)


@given(st.text(max_size=60), st.integers(1, 3))
def test_whatever_a_client_writes_at_the_left_changes_nothing(forged: str, hops: int) -> None:
    ours = ", ".join([ONE, "10.0.0.2", "10.0.0.3"][:hops])
    assert ONE == address.client(f"{forged}, {ours}", hops)


@given(st.text(max_size=80))
def test_no_text_breaks_it(text: str) -> None:
    found = address.client(text, 1)
    assert found is None or found == address.client(found, 1)


def test_the_hash_needs_the_secret_and_names_one_address() -> None:
    found = address.hashed(ONE, "a")
    assert found is not None
    assert 16 == len(found)
    assert found == address.hashed(ONE, "a") != address.hashed(ONE, "b")
    assert found != address.hashed(TWO, "a")
    assert address.hashed(None, "a") is None


def client_of(hops: int, *lines: str) -> Any:
    """What a log line says of the client."""
    edge = Edge.with_store(trusted_hops=str(hops))
    response = run(edge.ask(chat(), headers=[("x-forwarded-for", line) for line in lines]))
    assert response.log is not None
    assert all(ONE not in text for text in edge.logs)
    return response.log["client"]


def test_the_log_line_has_the_hash_of_what_our_proxies_said() -> None:
    assert client_of(0, ONE) is None
    assert client_of(1) is None
    known = client_of(1, ONE)
    assert known is not None
    assert known == client_of(1, f"forged, {ONE}") == client_of(1, "forged", ONE)
    assert known == client_of(2, f"forged, {ONE}, 10.0.0.2")
    assert known != client_of(1, TWO)


def test_a_forged_address_changes_no_answer_and_reaches_no_model_server() -> None:
    edge = Edge.with_store(gate_secret="g" * 32, trusted_hops="1")
    forged = {"x-forwarded-for": "203.0.113.9", "x-real-ip": "1.2.3.4", "forwarded": "for=1.1.1.1"}
    first = run(edge.ask(chat(), headers=forged))
    again = run(edge.ask(chat(), headers={"x-forwarded-for": "203.0.113.10"}))
    assert ("miss", "hit") == (first.headers["x-cache"], again.headers["x-cache"])
    sent = {name for name, _ in edge.upstream.calls[0].headers}
    assert not sent & set(forged)
    refused = run(edge.ask(chat(), key=make_key(secret="x" * 40), headers=forged))
    assert 401 == refused.status
