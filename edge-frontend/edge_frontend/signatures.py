"""Public keys of token issuers, and the signatures that they check.

PyJWT's own RS256, ES256 and EdDSA need a native library, which a component cannot have; here they
are done by `rsa` and `ecdsa`, pure Python both, registered with PyJWT under the same names. A key
has one algorithm, which its issuer's settings and its JWK decide (RFC 8725 3.1); a token only names
it. docs/decisions tells what each costs in a component.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ecdsa
import rsa
from ecdsa.errors import MalformedPointError

from .pyjwt import Algorithm, jwt

WrongToken = jwt.PyJWTError
# Tables that the library makes of a curve's base point when it is first used, 30 ms in a component;
# so they are made when it is built.
_TABLES = (ecdsa.NIST256p.generator * 2, ecdsa.Ed25519.generator * 2)
# Bits of a modulus: RFC 7518 3.3 for the least; the most bounds what a check may cost.
RSA_BITS = range(2048, 4097)
_RSA_HASHES = {"RS256": "SHA-256", "RS384": "SHA-384", "RS512": "SHA-512"}
_OTHERS = {"ES256": ("EC", "P-256"), "EdDSA": ("OKP", "Ed25519")}
ALGORITHMS = (*_RSA_HASHES, *_OTHERS)


@dataclass(frozen=True, slots=True)
class Key:
    """One public key. Two with the same print, a digest of all that matters, are the same."""

    kid: str
    algorithm: str
    print: str
    material: Any


def read_keys(document: Any, algorithms: Sequence[str]) -> Mapping[str, Key]:
    """The keys of a JWK set that this issuer may sign with, by kid; what we cannot use is left out.

    Raises:
        ValueError: when it is no key set, or none of its keys is of use.
    """
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ValueError("must be a JWK set: an object with a list `keys`")
    found = dict[str, Key]()
    for jwk in listed:
        key = _read_key(jwk, algorithms) if isinstance(jwk, dict) else None
        if key is not None:
            found.setdefault(key.kid, key)
    if not found:
        raise ValueError("has no key of the issuer's algorithms")
    return found


def decode(token: str, key: Key, audiences: Sequence[str], issuer: str) -> dict[str, Any]:
    """The claims of a token with the right signature, audience and issuer; times are not looked at.

    Raises:
        WrongToken: when one of them is not right.
    """
    return _DECODER.decode(
        token,
        key.material,
        algorithms=[key.algorithm],
        audience=audiences,
        issuer=issuer,
        # PyJWT takes the time from the machine; whoever calls us has a clock of their own.
        options={
            "require": ["exp", "iss", "aud"],
            "verify_exp": False,
            "verify_nbf": False,
            "verify_iat": False,
        },
    )


def _read_key(jwk: Mapping[str, Any], algorithms: Sequence[str]) -> Key | None:
    """A key, None unless it has exactly one of the algorithms and everything that belongs to it."""
    fitting = [name for name in algorithms if _fits(jwk, name)]
    signs = jwk.get("use", "sig") == "sig" and "verify" in jwk.get("key_ops", ["verify"])
    kid = jwk.get("kid", "")
    if len(fitting) != 1 or not signs or not isinstance(kid, str):
        return None
    algorithm = fitting[0]
    try:
        material = _MATERIAL[jwk["kty"]](jwk)
    except (KeyError, TypeError, ValueError, MalformedPointError):
        return None
    told = "\0".join(str(jwk.get(name)) for name in ("kty", "crv", "n", "e", "x", "y"))
    digest = hashlib.sha256(f"{algorithm}\0{told}".encode()).hexdigest()
    return Key(kid, algorithm, digest, material)


def _fits(jwk: Mapping[str, Any], algorithm: str) -> bool:
    if jwk.get("alg", algorithm) != algorithm:
        return False
    if algorithm in _RSA_HASHES:
        return jwk.get("kty") == "RSA"
    return (jwk.get("kty"), jwk.get("crv")) == _OTHERS[algorithm]


def _rsa_key(jwk: Mapping[str, Any]) -> Any:
    n, e = (int.from_bytes(_bytes(jwk[name])) for name in ("n", "e"))
    if n.bit_length() not in RSA_BITS or n % 2 == 0 or not 3 <= e < 2**32 or e % 2 == 0:
        raise ValueError("not a key to be trusted")
    return rsa.PublicKey(n, e)


def _ec_key(jwk: Mapping[str, Any]) -> Any:
    point = _bytes(jwk["x"]) + _bytes(jwk["y"])
    return ecdsa.VerifyingKey.from_string(point, ecdsa.NIST256p, valid_encodings=["raw"])


def _ed_key(jwk: Mapping[str, Any]) -> Any:
    return ecdsa.VerifyingKey.from_string(_bytes(jwk["x"]), ecdsa.Ed25519)


_MATERIAL: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "RSA": _rsa_key,
    "EC": _ec_key,
    "OKP": _ed_key,
}


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError("not base64url") from error


class _Verifier(Algorithm):
    """An algorithm of PyJWT that only checks."""

    def __init__(self, is_right: Callable[[bytes, Any, bytes], bool]) -> None:
        self._is_right = is_right

    def prepare_key(self, key: Any) -> Any:
        return key

    def sign(self, msg: bytes, key: Any) -> bytes:
        raise NotImplementedError("the edge signs no tokens")

    def verify(self, msg: bytes, key: Any, sig: bytes) -> bool:
        return self._is_right(msg, key, sig)

    @staticmethod
    def to_jwk(key_obj: Any, as_dict: bool = False) -> Any:
        raise NotImplementedError

    @staticmethod
    def from_jwk(jwk: Any) -> Any:
        raise NotImplementedError


def _rsa_is_right(hash_name: str) -> Callable[[bytes, Any, bytes], bool]:
    def is_right(message: bytes, key: Any, signature: bytes) -> bool:
        try:
            # The library finds out which hash was signed; only one is the algorithm's.
            return bool(rsa.verify(message, signature, key) == hash_name)
        except (rsa.VerificationError, OverflowError, ValueError):
            return False

    return is_right


def _curve_is_right(message: bytes, key: Any, signature: bytes) -> bool:
    try:
        return bool(key.verify(signature, message, hashfunc=hashlib.sha256))
    except (ecdsa.BadSignatureError, MalformedPointError, ValueError, AssertionError):
        return False


class _Decoder(jwt.PyJWT):
    """PyJWT that knows our algorithms and no others: neither `none` nor a shared secret's."""

    def __init__(self) -> None:
        super().__init__()
        self._jws = jwt.PyJWS(algorithms=[])
        for name, hash_name in _RSA_HASHES.items():
            self._jws.register_algorithm(name, _Verifier(_rsa_is_right(hash_name)))
        for name in _OTHERS:
            self._jws.register_algorithm(name, _Verifier(_curve_is_right))


_DECODER = _Decoder()
