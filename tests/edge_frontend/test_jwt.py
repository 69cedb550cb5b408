"""Which tokens open the door, and what they say of who is there."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from edge_frontend import jwt
from edge_frontend.caller import Caller
from edge_frontend.issuers import Issuer, Issuers
from edge_frontend.jwks import KeySet
from edge_frontend.jwt import InvalidToken, Remembered
from edge_frontend.limits import Limits
from edge_frontend.signatures import Key
from fakes.issuer import ISS, NOW_S, claims, encode, jwk, settings, token

ALL = ["RS256", "RS384", "RS512", "ES256", "EdDSA"]


class Inline:
    """The keys of the settings, and how often they were asked for."""

    def __init__(self) -> None:
        self.asked = 0
        self.removed = False

    async def find(self, issuer: Issuer, kid: str) -> Key | None:
        self.asked += 1
        return None if self.removed else KeySet(issuer.keys).pick(kid)


def issuers(*keys: dict[str, Any], **changes: Any) -> Issuers:
    keys = keys or (jwk("k1"),)
    return Issuers.from_json(settings(jwks_url=None, jwks={"keys": keys}, **changes))


def verified(
    given_token: str,
    known: Issuers | None = None,
    now_s: float = NOW_S,
    remembered: Remembered | None = None,
) -> Caller:
    remembered = remembered or Remembered()
    return asyncio.run(jwt.verify(given_token, known or issuers(), Inline(), now_s, remembered))


def test_a_good_token_says_who_is_there() -> None:
    caller = verified(token())
    assert ("login~acme", ("chat",), NOW_S + 300) == (
        caller.tenant, caller.permissions, caller.expires_at,
    )  # fmt: skip
    assert caller.key_id.startswith("login~")
    assert caller.allows_model("any")


@pytest.mark.parametrize("algorithm", ALL)
def test_every_algorithm_checks_its_signatures(algorithm: str) -> None:
    known = issuers(jwk("k1", algorithm), algorithms=[algorithm])
    good = token(algorithm=algorithm)
    assert "login~acme" == verified(good, known).tenant
    head, said, _ = good.split(".")
    with pytest.raises(InvalidToken):
        verified(token(algorithm=algorithm, signed_by="another"), known)
    with pytest.raises(InvalidToken):
        verified(f"{head}.{encode(json.dumps(claims(org={'id': 'evil'})).encode())}.{said}", known)
    for signature in (b"", b"x", b"\0" * 64, b"\xff" * 256, b"\xff" * 257):
        with pytest.raises(InvalidToken):
            verified(f"{head}.{said}.{encode(signature)}", known)


WRONG: dict[str, Callable[[], str]] = {
    "another audience": lambda: token(claims(aud="other")),
    "a list without ours": lambda: token(claims(aud=["other", "more"])),
    "an audience that only begins as ours": lambda: token(claims(aud="nearfar2")),
    "no audience": lambda: token(claims(aud=None)),
    "an empty list": lambda: token(claims(aud=[])),
    "an audience of another kind": lambda: token(claims(aud={"nearfar": 1})),
    "another issuer": lambda: token(claims(iss="https://login.test/")),
    "no issuer": lambda: token(claims(iss=None)),
    "an issuer of another kind": lambda: token(claims(iss=[ISS])),
    "no signature": lambda: token(algorithm="none"),
    "no signature in other letters": lambda: token(algorithm="NonE"),
    "no signature and a real one": lambda: token(alg="none"),
    "no algorithm": lambda: token(alg=None),
    "a secret that is the public key": lambda: token(algorithm="HS256"),
    "the public key's secret under the right name": lambda: token(algorithm="HS256", alg="RS256"),
    "an algorithm that is not the key's": lambda: token(algorithm="RS512"),
    "an algorithm that is not the signature's": lambda: token(algorithm="RS512", alg="RS256"),
    "no expiry": lambda: token(claims(exp=None)),
    "an expiry that is null": lambda: token({**claims(), "exp": None}),
    "an expiry that is text": lambda: token(claims(exp=str(NOW_S + 300))),
    "an expiry that is true": lambda: token(claims(exp=True)),
    "an expiry that is no number": lambda: token(claims(exp=float("nan"))),
    "an expiry that never comes": lambda: token(claims(exp=float("inf"))),
    "expired 5 s ago": lambda: token(claims(exp=NOW_S - 5)),
    "expired now": lambda: token(claims(exp=NOW_S)),
    "valid in 30 s": lambda: token(claims(nbf=NOW_S + 30)),
    "issued in 30 s": lambda: token(claims(iat=NOW_S + 30)),
    "valid from null": lambda: token({**claims(), "nbf": None}),
    "an unknown extension that is critical": lambda: token(crit=["exp"], exp=1),
    "a known extension that is critical": lambda: token(crit=["b64"], b64=True),
    "nothing that is critical": lambda: token(crit=[]),
    "a payload that is not encoded": lambda: token(b64=False),
    "a key that we do not have": lambda: token(kid="k2"),
    "a key id of another kind": lambda: token(kid=["k1"], signed_by="k1"),  # type: ignore[arg-type]
    "a key id that is long": lambda: token(kid="k" * 300, signed_by="k1"),
    "its own key": lambda: token(kid="k2", jwk=jwk("k2")),
    "an address of its own keys": lambda: token(kid="k2", jku="https://evil.test"),
    "no tenant": lambda: token(claims(org=None)),
    "a tenant of another kind": lambda: token(claims(org={"id": 7})),
    "a tenant that is no name": lambda: token(claims(org={"id": "a~b"})),
    "a subject of another kind": lambda: token(claims(sub=7)),
    "permissions of another kind": lambda: token(claims(scope=7)),
    "too much": lambda: token(claims(more="x" * 9_000)),
    "four parts": lambda: token() + ".x",
    "two parts": lambda: token().rpartition(".")[0],
    "no JSON": lambda: f"{encode(b'x')}.{encode(b'x')}.x",
    "no object": lambda: f"{encode(b'[]')}.{encode(b'[]')}.x",
    "nested too deep": lambda: f"{encode(b'[' * 3000)}.{encode(b'{}')}.x",
    "other letters": lambda: "é.é.é",
    "nothing": lambda: "",
    "dots": lambda: "..",
}


@pytest.mark.fault(11)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_token_that_is_wrong_opens_nothing(wrong: str) -> None:
    with pytest.raises(InvalidToken):
        verified(WRONG[wrong]())


@pytest.mark.fault(11)
@pytest.mark.parametrize("audience", ["nearfar", ["nearfar"], ["other", "nearfar"]])
def test_an_audience_or_a_list_that_holds_ours_passes(audience: object) -> None:
    assert "login~acme" == verified(token(claims(aud=audience))).tenant


@pytest.mark.fault(11)
def test_any_of_several_audiences_is_ours() -> None:
    known = issuers(audience=["nearfar", "nearfar-eu"])
    assert "login~acme" == verified(token(claims(aud="nearfar-eu")), known).tenant


@pytest.mark.fault(11)
def test_a_leeway_moves_the_times_and_no_further() -> None:
    known = issuers(leeway_s=30)
    for said in ({"exp": NOW_S - 5}, {"nbf": NOW_S + 30}, {"iat": NOW_S + 30}):
        assert "login~acme" == verified(token(claims(**said)), known).tenant
    for said in ({"exp": NOW_S - 30}, {"nbf": NOW_S + 31}, {"iat": NOW_S + 31}):
        with pytest.raises(InvalidToken):
            verified(token(claims(**said)), known)


def test_a_token_without_a_key_id_is_of_the_only_key() -> None:
    assert "login~acme" == verified(token(kid=None)).tenant
    with pytest.raises(InvalidToken):
        verified(token(kid=None), issuers(jwk("k1"), jwk("k2")))


def test_a_key_without_an_algorithm_has_the_only_one_that_fits() -> None:
    key = jwk("k1")
    del key["alg"]
    assert "login~acme" == verified(token(), issuers(key, algorithms=["RS256", "ES256"])).tenant
    with pytest.raises(ValueError, match="has no key of the issuer's algorithms"):
        issuers(key, algorithms=["RS256", "RS512"])


@pytest.mark.parametrize(
    "change",
    [
        {"use": "enc"},
        {"key_ops": ["sign"]},
        {"kty": "oct", "k": "AAAA"},
        {"alg": "HS256"},
        {"alg": "ES256"},
        {"e": "AQ"},
        {"e": "Ag"},
        {"n": encode(b"\xff" * 128)},
        {"n": "AAAA"},
        {"n": 7},
        {"n": "!"},
        {"kid": 7},
    ],
)
def test_a_key_that_is_not_to_be_trusted_is_left_out(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="has no key of the issuer's algorithms"):
        issuers({**jwk("k1"), **change})
    assert "login~acme" == verified(token(), issuers({**jwk("k2"), **change}, jwk("k1"))).tenant


def test_a_point_off_the_curve_is_no_key() -> None:
    key = {**jwk("k1", "ES256"), "y": encode(b"\1" * 32)}
    with pytest.raises(ValueError, match="has no key"):
        issuers(key, algorithms=["ES256"])


def test_claims_say_what_a_caller_may() -> None:
    known = issuers(
        claims={
            "tenant": "https://login.test/tenant", "permissions": "roles", "models": "models",
            "priority": "tier", "rpm": ["limits", "rpm"], "tpm": ["limits", "tpm"],
        },
        priorities={"gold": "interactive"},
        permissions={"ops": "admin", "user": "chat"},
        defaults={"tpm": 1000, "month": 9, "rpm": 5},
    )  # fmt: skip
    said = claims(
        roles=["user", "ops", "other"], models=["small"], tier="gold", limits={"rpm": 60},
        **{"https://login.test/tenant": "acme"},
    )  # fmt: skip
    caller = verified(token(said), known)
    assert ("admin", "chat") == caller.permissions
    assert Limits(rpm=60, tpm=1000, month=9) == caller.limits
    assert 2 == caller.priority
    assert caller.allows_model("small")
    assert not caller.allows_model("large")


def test_a_word_without_a_map_gives_nothing() -> None:
    """An issuer's `admin` is not ours, and a tier nobody mapped is no priority."""
    known = issuers(claims={"tenant": "t", "permissions": "scope", "priority": "tier"})
    caller = verified(token(claims(t="acme", scope="admin chat", tier="interactive")), known)
    assert ((), 1) == (caller.permissions, caller.priority)


@pytest.mark.parametrize("value", ["60", -1, 1.5, True, [60]])
def test_a_limit_of_another_shape_is_no_limit_to_go_by(value: object) -> None:
    known = issuers(claims={"tenant": ["org", "id"], "rpm": "rpm"})
    with pytest.raises(InvalidToken):
        verified(token(claims(rpm=value)), known)


@pytest.mark.fault(9)
def test_no_subject_and_no_tenant_is_that_of_an_api_key() -> None:
    known = issuers(claims={"tenant": "sub"})
    caller = verified(token(claims(sub="k1")), known)
    assert "login~k1" == caller.tenant
    assert "k1" != caller.key_id
    shared = issuers(claims={"tenant": "sub"}, shares_tenants=True)
    assert "k1" == verified(token(claims(sub="k1")), shared).tenant


def test_a_checked_token_is_remembered_until_it_ends_or_its_key_does() -> None:
    known, keys, remembered = issuers(leeway_s=10), Inline(), Remembered()

    def ask(given_token: str, now_s: float) -> Caller:
        return asyncio.run(jwt.verify(given_token, known, keys, now_s, remembered))

    good = token()
    first = ask(good, NOW_S)
    broken = issuers(jwk("k1") | {"n": jwk("k2")["n"]})  # so that a second check would fail
    assert first is asyncio.run(jwt.verify(good, broken, keys, NOW_S + 309, remembered))
    with pytest.raises(InvalidToken):
        ask(good, NOW_S + 310)
    keys.removed = True
    with pytest.raises(InvalidToken):
        ask(good, NOW_S)
    keys.removed = False
    assert first == ask(good, NOW_S)


def test_no_more_tokens_are_remembered_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jwt, "MAX_REMEMBERED", 2)
    remembered = Remembered()
    for subject in "abc":
        verified(token(claims(sub=subject)), remembered=remembered)
    assert 2 == len(remembered._known)


@given(st.text(alphabet="abcdefghijklmnop-_.=", max_size=60))
def test_no_text_does_more_than_be_wrong(text: str) -> None:
    with pytest.raises(InvalidToken):
        verified(text)


@examples(deadline=None)  # a signature takes as long as the machine lets it
@given(st.integers(0, 10_000), st.integers(1, 255))
def test_no_byte_of_a_token_can_be_another(place: int, change: int) -> None:
    good = token().encode()
    at = place % len(good)
    altered = (good[:at] + bytes([good[at] ^ change]) + good[at + 1 :]).decode("latin-1")
    with pytest.raises(InvalidToken):
        verified(altered)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"issuer": None}, "login: issuer must be a text"),
        ({"audience": None}, "login: audience must be a text or a list"),
        ({"audience": []}, "login: audience must be a text or a list"),
        ({"algorithms": ["HS256"]}, "login: algorithms must be of RS256"),
        ({"algorithms": ["none"]}, "login: algorithms must be of RS256"),
        ({"jwks_url": None}, "login: either jwks_url or jwks"),
        ({"jwks": {"keys": []}}, "login: either jwks_url or jwks"),
        ({"jwks_url": "ftp://x"}, "login: jwks_url must be an http or https address"),
        ({"jwks_url": "https://u:p@x"}, "login: jwks_url must be an http or https address"),
        ({"jwks_url": None, "jwks": []}, "login: jwks must be a JWK set"),
        ({"leeway_s": 301}, "login: leeway_s must be a whole number from 0 to 300"),
        ({"leeway_s": True}, "login: leeway_s must be a whole number from 0 to 300"),
        ({"claims": {"x": "y"}}, "login: claims must be of tenant"),
        ({"claims": {"tenant": 7}}, "login: claims must be a text or a list"),
        ({"claims": {}}, "login: claims or defaults must say the tenant"),
        ({"permissions": {"a": "root"}}, "login: permissions must map to chat"),
        ({"priorities": {"a": "high"}}, "login: priorities must map to batch"),
        ({"defaults": {"rpm": "60"}}, "login: defaults rpm must be a whole number"),
        ({"defaults": {"tenant": "a b"}}, "login: defaults must have a tenant"),
        ({"defaults": {"permissions": ["root"]}}, "login: defaults must map to chat"),
        ({"shares_tenants": 1}, "login: shares_tenants must be true or false"),
        ({"secret": "x"}, "login: 'secret' is not known"),
    ],
)
def test_a_setting_that_is_wrong_says_where(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Issuers.from_json(settings(**changes))


@pytest.mark.parametrize("text", ["", "[]", "7", '{"a b": {}}', '{"a": 7}', "[" * 5000])
def test_a_setting_that_is_no_table_of_issuers_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        Issuers.from_json(text)


def test_no_two_issuers_have_the_same_name_in_tokens() -> None:
    one = json.loads(settings())["login"]
    with pytest.raises(ValueError, match="two issuers have the same `issuer`"):
        Issuers.from_json(json.dumps({"a": one, "b": one}))


def test_all_of_it_can_be_imported_where_there_is_no_ssl() -> None:
    """As in a component, where PyJWT's own client for key servers has no place either."""
    code = (
        "import sys; sys.modules['ssl'] = sys.modules['cryptography'] = None\n"
        "import edge_frontend.jwt, jwt\n"
        "assert 'urllib.request' not in sys.modules\n"
    )
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, check=False
    )
    assert (0, b"") == (done.returncode, done.stderr)
