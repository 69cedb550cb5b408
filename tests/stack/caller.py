"""Who asks in a test: a key and a tenant of its own, and a marker word in every prompt."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import openai

from edge_frontend import keys
from edge_frontend.limits import NO_LIMITS, NORMAL, Limits
from stack.edges import SECRET, Edge

ALL = ("chat", "trace", "admin")
TIMEOUT_S = 20.0
CHAT = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Caller:
    """One holder of a key. Its tenant and its marker belong to no other test."""

    tenant: str = field(default_factory=lambda: f"tenant-{secrets.token_hex(5)}")
    marker: str = field(default_factory=lambda: f"marker-{secrets.token_hex(6)}")
    key_id: str = field(default_factory=lambda: f"key-{secrets.token_hex(5)}")
    permissions: tuple[str, ...] = ALL
    secret: str = SECRET
    valid_s: int = 3600
    limits: Limits = NO_LIMITS
    priority: int = NORMAL

    @property
    def key(self) -> str:
        """The API key; the same claims give the same key within a second."""
        claims = keys.Claims(
            key_id=self.key_id,
            tenant=self.tenant,
            expires_at=int(time.time()) + self.valid_s,
            permissions=self.permissions,
            limits=self.limits,
            priority=self.priority,
        )
        return keys.mint(self.secret, claims)

    def other(self, **changes: Any) -> Caller:
        """The same prompts under another key."""
        return replace(self, **({"key_id": f"key-{secrets.token_hex(5)}"} | changes))

    def body(self, text: str = "one two three", **fields: Any) -> dict[str, Any]:
        """A deterministic chat request whose only user turn holds the marker."""
        messages = [{"role": "user", "content": f"{self.marker} {text}"}]
        return {"model": "mock", "messages": messages, "temperature": 0, **fields}

    def headers(self, **more: str) -> dict[str, str]:
        """The key, and headers named with underscores."""
        named = {name.replace("_", "-"): value for name, value in more.items()}
        return {"authorization": f"Bearer {self.key}", **named}

    def post(self, edge: Edge, body: Mapping[str, Any] | bytes, **headers: str) -> httpx.Response:
        """Ask once and read the whole answer."""
        with httpx.Client(trust_env=False, timeout=TIMEOUT_S) as session:
            sent = {"content": body} if isinstance(body, bytes) else {"json": body}
            return session.post(edge.url + CHAT, headers=self.headers(**headers), **sent)

    def get(self, edge: Edge, path: str, **headers: str) -> httpx.Response:
        """Get one path with the key."""
        with httpx.Client(trust_env=False, timeout=TIMEOUT_S) as session:
            return session.get(edge.url + path, headers=self.headers(**headers))

    def openai(self, edge: Edge, **options: Any) -> openai.OpenAI:
        """The unmodified client; it does not retry, so that every failure is seen."""
        return openai.OpenAI(
            base_url=f"{edge.url}/v1", api_key=self.key, max_retries=0, timeout=TIMEOUT_S, **options
        )
