"""The grant, against vectors that the edge's tests read too."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_backend.grant import Grant, GrantError, Limits, mint, verify

SECRET = b"the current secret of the two halves"
OLD = b"the previous secret of the two halves"
VECTORS = json.loads(
    (Path(__file__).parents[1] / "contract" / "grant_vectors.json").read_text(encoding="utf-8")
)

text = st.text(min_size=1, max_size=40)
count = st.integers(0, 1 << 53)
limit = st.none() | count
grants = st.builds(
    Grant,
    issued_s=st.floats(0, 4e9),
    request_id=text,
    tenant=text,
    key=text,
    priority=st.integers(0, 2),
    limits=st.builds(Limits, rpm=limit, tpm=limit, par=limit, month=limit),
    input_tokens=count,
    output_tokens=count,
    choices=st.integers(1, 100),
    hits=count,
    cached_tokens=count,
    subject=st.none() | text,
    tenant_limits=st.builds(Limits, rpm=limit, tpm=limit, par=limit, month=limit),
)


def signed(payload: bytes, secret: bytes = SECRET) -> bytes:
    """As the contract says it, apart from the code under test."""
    encoded = base64.urlsafe_b64encode(payload).rstrip(b"=")
    mac = hmac.new(secret, b"nearfar grant v1\0" + encoded, hashlib.sha256).digest()
    return encoded + b"." + base64.urlsafe_b64encode(mac)


def document(**changed: Any) -> bytes:
    fields: dict[str, Any] = {
        "v": 1,
        "i": 1000.0,
        "r": "r",
        "t": "t",
        "k": "k",
        "p": 1,
        "l": {"rpm": 1, "tpm": None, "par": None, "month": None},
        "e": [3, 4],
        "h": {"n": 0, "d": {}},
    }
    return json.dumps(fields | changed).encode()


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_vectors_are_read_as_they_say(vector: dict[str, Any]) -> None:
    read = verify(vector["header"].encode(), [vector["secret"].encode()], vector["now_s"])
    told = {"tenant_limits": {}} | vector["grant"]
    limits = {name: Limits(**told[name]) for name in ("limits", "tenant_limits")}
    assert Grant(**(told | limits)) == read


@given(grants)
def test_what_is_minted_is_read(granted: Grant) -> None:
    value = mint(granted, SECRET).encode()
    if len(value) <= 4096:
        assert granted == verify(value, [SECRET], granted.issued_s)


def test_both_secrets_are_good_during_a_rotation() -> None:
    for secret in (SECRET, OLD):
        verify(signed(document(), secret), [SECRET, OLD], 1000.0)


@pytest.mark.parametrize("age_s", [-5, 0, 35])
def test_a_grant_is_good_for_thirty_seconds_and_five_for_the_clocks(age_s: float) -> None:
    verify(signed(document()), [SECRET], 1000.0 + age_s)


@pytest.mark.parametrize("age_s", [-5.1, 35.1])
def test_outside_of_them_it_is_not(age_s: float) -> None:
    with pytest.raises(GrantError, match="clocks"):
        verify(signed(document()), [SECRET], 1000.0 + age_s)


@given(st.data())
def test_no_changed_byte_goes_unnoticed(data: st.DataObject) -> None:
    value = bytearray(signed(document()).rstrip(b"="))
    at = data.draw(st.integers(0, len(value) - 1))
    value[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(GrantError):
        verify(bytes(value), [SECRET], 1000.0)


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail_otherwise(value: bytes) -> None:
    for given_ in (value, signed(value)):
        with pytest.raises(GrantError):
            verify(given_, [SECRET], 1000.0)


@pytest.mark.parametrize(
    "changed",
    [
        {"v": 2},
        {"i": "now"},
        {"i": True},
        {"i": float("nan")},
        {"i": 10**400},
        {"r": ""},
        {"r": 7},
        {"r": "r" * 201},
        {"k": None},
        {"p": 3},
        {"p": True},
        {"l": {"rpm": -1}},
        {"l": {"rpm": 1.5}},
        {"l": []},
        {"tl": None},
        {"tl": {"par": -1}},
        {"e": [1]},
        {"e": [1, -1]},
        {"e": [1, 1 << 54]},
        {"n": 0},
        {"h": {"n": -1}},
        {"h": {"n": 1, "d": {"tokens": "many"}}},
        {"h": [1]},
        {"sub": 5},
    ],
    ids=str,
)
def test_a_signed_grant_of_another_form_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(GrantError):
        verify(signed(document(**changed)), [SECRET], 1000.0)


def test_what_may_be_left_out_is_nothing() -> None:
    read = verify(signed(document(l={}, h=None)), [SECRET], 1000.0)
    assert (Limits(), 1, 0, None) == (read.limits, read.choices, read.hits, read.subject)


def test_a_grant_too_long_to_be_one_is_not_read() -> None:
    value = signed(document(x="x" * 4000))
    with pytest.raises(GrantError, match="no grant"):
        verify(value, [SECRET], 1000.0)


def test_a_message_holds_nothing_of_the_grant() -> None:
    granted = replace(
        verify(signed(document()), [SECRET], 1000.0), tenant="canary", request_id="canary"
    )
    for secrets, now_s in (([OLD], 1000.0), ([SECRET], 5000.0)):
        with pytest.raises(GrantError) as caught:
            verify(mint(granted, SECRET).encode(), secrets, now_s)
        assert "canary" not in str(caught.value)
