"""The client's address, as far as proxies that are ours say it.

Whoever sends a request may write X-Forwarded-For into it; each proxy on the way adds the address it
was called from at the right. So with N proxies of ours before the edge the Nth entry from the right
is what the outermost of them saw, and everything left of it is anybody's. The address decides
nothing: it stands in the log line alone, as a keyed hash, so that lines of one client can be found.
"""

from __future__ import annotations

import hmac
import ipaddress

_CONTEXT = b"nearfar client v1\0"
_CHARS = 16


def client(forwarded: str, hops: int) -> str | None:
    """The address that the outermost of our proxies saw; None where none of ours said one."""
    entries = forwarded.split(",")
    if not 0 < hops <= len(entries):
        return None
    return _address(entries[-hops].strip())


def hashed(address: str | None, secret: str) -> str | None:
    """A name for an address that only who has the secret can make."""
    if address is None:
        return None
    return hmac.digest(secret.encode(), _CONTEXT + address.encode(), "sha256").hex()[:_CHARS]


def _address(text: str) -> str | None:
    """An address in its one canonical form, without a port."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None
