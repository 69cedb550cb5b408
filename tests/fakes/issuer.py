"""An issuer of tokens with real keys and signatures, and a server of its keys that can go away."""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ecdsa
import rsa

from edge_frontend.errors import UpstreamUnreachable

ISS = "https://login.test"
NOW_S = 1_800_000_000
URL = "https://login.test/keys?v=1"


# Two primes each, since finding them takes seconds.
_PRIMES = {
    "k1": (
        (
            "d895e025333cc23cfb71516bc94af832ae60c93b42ca418b140f044663f163b64d83e4354c694e05c9e93f"
            "8a7c7c1b05045bd1da9ec653e4c5448eb1a8244cbc15210150dccf28b3f4cf374c9323946f951d8bee0fab"
            "aa2f61451ceb49a9e7df0eec843f43432f794e386249c695e8082f2c53ec1d128b881da9443c4dfa6d47"
        ),
        (
            "c9e6138a76dd8ecddb2aac4abdc6057846b80f013949974c54dbaf8e844fb4609cb4713c1749568957b061"
            "3957109560101ed26161b98f6b39d0770dd30e6c5c05463e91d06b95421ad064bdd59de7f90cff7ea5880b"
            "cdfe78394dacc417ea286e70ff617fab75d3007bad5ffc120473787a545466d8b025dc6e748c2771eaf9"
        ),
    ),
    "k2": (
        (
            "ea929518b1c5098852377a0788cb0fe8045d90e6dbbf67324031d3616a857378713ef354e0b8697c887a4b"
            "4d26fe33a175acad8d765da93227e9f03d388ef9cd04122bfcd0a74185941a7e5a66c451d7d7e6add33f2f"
            "1c0d2bf9e71ba9f4473023804bc135b14bb20980f548192435e85aa0e6c86997655fe02ccc0e88c63f7b"
        ),
        (
            "c5c005d77ff4a2ab9a2515c11d1fa4a276a1a5d595d1fc8d846421499b1daebc7eed0fd469bb8beabb2a16"
            "a7b766c00cfb10f2a081cb99b7ff772c4d1cc957aac78b9cf2d4a99ae0a56d4425ebe25f260dc5b5c87c31"
            "07bfa0317aeef19da266d7549e5da620f16d9b915d8f4f99940e9353d5dc36277fba5a860ee0f2ac6645"
        ),
    ),
    "another": (
        (
            "f021a704f11755241200a21e0a6e7a4769ec82ea9c96104445bc2d27cb9daaf8130d341a9ca3529b968662"
            "27a98c05de88789797d622776697a6b18cfa9addd709ef2711bad3319f16037ac9dd4692ee9a6ad6e7c2e8"
            "58bc7c3335734a0584e431b6489cfe4ac21f1d9ec8a60568bd08fd080c535e9dc1e323992b283e263213"
        ),
        (
            "e9f9a3d814021b96d335db01b7be390c070dc18d00a3076002592635111ca172842e1e2b7a1beb2675bfe5"
            "3cd340b1b2d5e84ca24b8cfc8ae54bb8e1ed0684412ac0820c45844f18fa9a651ce66a58f8ceb72b0d04c4"
            "590d3b08ece6526ae6cfc3889e78c090451d4253dc16b15ea01e3f7f1b2dc1cc8126d5c3e01a3983a0b7"
        ),
    ),
}


@functools.cache
def rsa_key(name: str) -> tuple[rsa.PublicKey, rsa.PrivateKey]:
    """The key pair of this name."""
    p, q = (int(prime, 16) for prime in _PRIMES[name])
    d = pow(65537, -1, (p - 1) * (q - 1))
    return rsa.PublicKey(p * q, 65537), rsa.PrivateKey(p * q, 65537, d, p, q)


@functools.cache
def ec_key(name: str) -> ecdsa.SigningKey:
    return ecdsa.SigningKey.generate(ecdsa.NIST256p)


@functools.cache
def ed_key(name: str) -> ecdsa.SigningKey:
    return ecdsa.SigningKey.generate(ecdsa.Ed25519)


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int) -> str:
    return encode(value.to_bytes((value.bit_length() + 7) // 8))


def jwk(kid: str, algorithm: str = "RS256", **fields: Any) -> dict[str, Any]:
    """The public half of the key `kid`, as a key server shows it."""
    if algorithm.startswith("RS"):
        public, _ = rsa_key(kid)
        key = {"kty": "RSA", "n": number(public.n), "e": number(public.e)}
    else:
        curve = ec_key(kid) if algorithm == "ES256" else ed_key(kid)
        point = curve.verifying_key.to_string()
        key = {"kty": "OKP", "crv": "Ed25519", "x": encode(point)}
        if algorithm == "ES256":
            key = {"kty": "EC", "crv": "P-256", "x": encode(point[:32]), "y": encode(point[32:])}
    return {"kid": kid, "alg": algorithm, "use": "sig", **key, **fields}


def claims(**changes: Any) -> dict[str, Any]:
    """What a good token says; a change to None takes a claim away."""
    given = {
        "iss": ISS,
        "aud": "nearfar",
        "sub": "dana",
        "exp": NOW_S + 300,
        "org": {"id": "acme"},
        "scope": "llm.chat openid",
    } | changes
    return {name: value for name, value in given.items() if value is not None}


def token(
    said: Mapping[str, Any] | None = None,
    kid: str | None = "k1",
    algorithm: str = "RS256",
    *,
    signed_by: str = "",
    **header: Any,
) -> str:
    """A token; `algorithm` says how it is signed, the header may say something else."""
    names: dict[str, Any] = {"alg": algorithm, "typ": "JWT", "kid": kid} | header
    head = {name: value for name, value in names.items() if value is not None}
    said = claims() if said is None else said
    message = ".".join(encode(json.dumps(part).encode()) for part in (head, said))
    return f"{message}.{encode(_sign(message.encode(), algorithm, signed_by or kid or 'k1'))}"


def _sign(message: bytes, algorithm: str, kid: str) -> bytes:
    if algorithm.startswith("RS"):
        return bytes(rsa.sign(message, rsa_key(kid)[1], f"SHA-{algorithm[2:]}"))
    if algorithm == "ES256":
        return bytes(ec_key(kid).sign(message, hashfunc=hashlib.sha256))
    if algorithm == "EdDSA":
        return bytes(ed_key(kid).sign(message))
    if algorithm == "HS256":  # the old trick: the public key, which everybody has, as the secret
        public, _ = rsa_key(kid)
        return hmac.digest(public.save_pkcs1(), message, hashlib.sha256)
    return b""


@dataclass
class KeyServer:
    """Answers with its keys, counts how often, and fails on request."""

    kids: tuple[str, ...] = ("k1",)
    algorithm: str = "ES256"
    down: bool = False
    fetched: list[str] = field(default_factory=list)
    answer: bytes | None = None

    async def __call__(self, url: str) -> bytes:
        self.fetched.append(url)
        if self.down:
            raise UpstreamUnreachable("Nobody is there.")
        keys = [jwk(kid, self.algorithm) for kid in self.kids]
        return json.dumps({"keys": keys}).encode() if self.answer is None else self.answer


def settings(**changes: Any) -> str:
    """The setting NEARFAR_ISSUERS with one issuer; a change to None takes a field away."""
    given: dict[str, Any] = {
        "issuer": ISS,
        "audience": "nearfar",
        "jwks_url": URL,
        "claims": {"tenant": ["org", "id"], "permissions": "scope"},
        "permissions": {"llm.chat": "chat", "llm.trace": "trace"},
    } | changes
    issuer = {name: value for name, value in given.items() if value is not None}
    return json.dumps({"login": issuer})
