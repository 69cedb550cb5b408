from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edge_frontend import keys
from edge_frontend.keys import MAX_KEY_CHARS, PERMISSIONS, Claims, InvalidKey, mint, verify

SECRET = "one secret of the operator, current"
OLD = "one secret of the operator, before it"
NOW_S = 1_800_000_000.0
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ ,\n\0é"
CLAIMS = Claims("k1", "acme", int(NOW_S) + 60, ("small", "other"), ("chat", "trace"))
KEY = mint(SECRET, CLAIMS)

names = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
claims_of_now = st.builds(
    Claims,
    key_id=names,
    tenant=names,
    expires_at=st.integers(int(NOW_S) + 1, 2**40),
    models=st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=4).map(tuple),
    permissions=st.lists(st.sampled_from(PERMISSIONS), unique=True).map(tuple),
)


def refused(key: str, secrets: tuple[str, ...] = (SECRET,), now_s: float = NOW_S) -> None:
    with pytest.raises(InvalidKey):
        verify(key, secrets, now_s)


@given(claims_of_now, st.text(min_size=32))
def test_what_was_minted_is_what_is_verified(claims: Claims, secret: str) -> None:
    secret = secret.encode("utf-8", "ignore").decode() + "x" * 32
    assert claims == verify(mint(secret, claims), (secret,), NOW_S)


def test_a_key_is_one_word_that_begins_with_its_kind() -> None:
    assert KEY.startswith("nf_")
    assert not set(KEY) - set(ALPHABET[:65])


@given(st.integers(0, len(KEY) - 1), st.sampled_from(ALPHABET))
@example(len(KEY) - 1, "A")  # the last character has bits that base64 ignores
@example(KEY.index(".") - 1, "A")
def test_a_key_with_one_character_changed_is_invalid(at: int, character: str) -> None:
    changed = KEY[:at] + character + KEY[at + 1 :]
    if changed != KEY:
        refused(changed)


def test_every_other_spelling_of_the_last_characters_is_invalid() -> None:
    for at in (len(KEY) - 1, KEY.index(".") - 1):
        for character in ALPHABET:
            if character != KEY[at]:
                refused(KEY[:at] + character + KEY[at + 1 :])


@given(st.integers(0, len(KEY) - 1))
def test_a_key_that_is_cut_or_torn_is_invalid(at: int) -> None:
    refused(KEY[:at])
    refused(KEY[:at] + KEY[at + 1 :])


@pytest.mark.parametrize("more", ["=", "==", ".", " ", "\n", ".x", "A"])
def test_a_key_with_something_behind_it_is_invalid(more: str) -> None:
    refused(KEY + more)


@given(st.text() | st.text(ALPHABET).map(lambda text: "nf_" + text))
def test_any_other_text_is_invalid(text: str) -> None:
    refused(text)


def test_a_very_long_key_is_invalid_before_anything_is_computed() -> None:
    refused("nf_" + "A" * MAX_KEY_CHARS)


def test_a_key_lives_until_its_second_and_no_longer() -> None:
    assert CLAIMS == verify(KEY, (SECRET,), CLAIMS.expires_at - 0.001)
    refused(KEY, now_s=CLAIMS.expires_at)
    refused(KEY, now_s=CLAIMS.expires_at + 1_000)


def test_during_rotation_keys_of_both_secrets_are_valid() -> None:
    old = mint(OLD, CLAIMS)
    assert CLAIMS == verify(old, (SECRET, OLD), NOW_S)
    assert CLAIMS == verify(KEY, (SECRET, OLD), NOW_S)
    refused(old)
    refused(KEY, (OLD,))
    refused(KEY, ())


def signed(document: object) -> str:
    """A key with a true MAC over claims that `mint` would not write."""
    payload = keys._encode(json.dumps(document).encode())
    return f"nf_{payload}.{keys._encode(keys._mac(SECRET, payload))}"


@pytest.mark.parametrize(
    "document",
    [
        None, 5, [], {}, {"k": "k1"},
        {"k": "k1", "t": "acme", "e": "soon", "m": ["*"], "p": []},
        {"k": "k1", "t": "acme", "e": 2**40, "m": [], "p": []},
        {"k": "k1", "t": "acme", "e": 2**40, "m": [1], "p": []},
        {"k": "k1", "t": "acme", "e": 2**40, "m": ["*"], "p": ["root"]},
        {"k": "k1", "t": "a b", "e": 2**40, "m": ["*"], "p": ["chat"]},
        {"k": None, "t": "acme", "e": 2**40, "m": ["*"], "p": ["chat"]},
    ],
)  # fmt: skip
def test_claims_of_another_form_are_invalid_though_they_were_signed(document: object) -> None:
    refused(signed(document))


def test_the_mac_covers_what_the_key_is_for() -> None:
    """The same secret and payload without the context make no key."""
    payload = KEY.removeprefix("nf_").partition(".")[0]
    mac = hmac.digest(SECRET.encode(), payload.encode(), hashlib.sha256)
    refused(f"nf_{payload}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}")


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("key_id", {"key_id": ""}),
        ("key_id", {"key_id": "a/b"}),
        ("key_id", {"key_id": "-a"}),
        ("tenant", {"tenant": "a" * 65}),
        ("tenant", {"tenant": "ä"}),
        ("expires_at", {"expires_at": 0}),
        ("expires_at", {"expires_at": 1.5}),
        ("expires_at", {"expires_at": True}),
        ("expires_at", {"expires_at": float("inf")}),
        ("models", {"models": ()}),
        ("models", {"models": ("",)}),
        ("models", {"models": (1,)}),
        ("permission", {"permissions": ("root",)}),
    ],
)
def test_claims_are_checked_when_they_are_made(part: str, changes: dict[str, Any]) -> None:
    good: dict[str, Any] = {"key_id": "k1", "tenant": "acme", "expires_at": 1}
    with pytest.raises(ValueError, match=part):
        Claims(**(good | changes))


def test_a_short_secret_mints_nothing() -> None:
    with pytest.raises(ValueError, match="32"):
        mint("short", CLAIMS)


def test_a_key_allows_the_models_it_names_or_all() -> None:
    assert [True, True, False] == [CLAIMS.allows_model(n) for n in ("small", "other", "*")]
    assert Claims("k", "t", 1).allows_model("anything")
