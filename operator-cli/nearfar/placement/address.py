"""Where a server is, read from a web address."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from nearfar.errors import BadInput


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is: from `http(s)://host[:port][/path]`."""

    secure: bool
    host: str
    port: int
    base: str

    @staticmethod
    def of(url: str) -> Address:
        """Read an address, with or without /v1 at its end.

        Raises:
            BadInput: it is none.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadInput(f"{url!r} is not a web address.", "give one like https://edge.example")
        secure = parts.scheme == "https"
        base = parts.path.rstrip("/").removesuffix("/v1")
        return Address(secure, parts.hostname, port or (443 if secure else 80), base)

    @property
    def is_literal(self) -> bool:
        """Whether the host is an address, so that no name is looked up."""
        try:
            ipaddress.ip_address(self.host)
        except ValueError:
            return False
        return True

    @property
    def is_of_this_machine(self) -> bool:
        """Whether only this machine can reach it under this name."""
        if self.host == "localhost":
            return True
        return self.is_literal and ipaddress.ip_address(self.host).is_loopback

    @property
    def shown(self) -> str:
        """The address in a message: no path, and no credentials that stood in it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"
