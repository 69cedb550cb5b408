"""Asks a starting server whether it really answers: one token of one chat completion."""

from __future__ import annotations

import http.client
import json
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from gpu_backend import grant
from gpu_backend.errors import ServerRefusedError
from gpu_backend.grant import Grant

HEALTH_TIMEOUT_S = 2.0
RETRY_STATUSES = range(500, 600)


@dataclass(frozen=True, slots=True)
class Target:
    """What is asked, and with which key and grant. No proxy of the environment stands between."""

    host: str
    port: int
    served_name: str
    api_key: str | None = field(default=None, repr=False)
    gate_secret: str | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


def is_listening(target: Target) -> bool:
    """True once `/health` answers 200, which vLLM does before it has computed anything."""
    try:
        status, _ = _ask(target, "GET", "/health", None, HEALTH_TIMEOUT_S)
    except (OSError, http.client.HTTPException):
        return False
    return status == http.HTTPStatus.OK


def answers(target: Target, timeout_s: float) -> bool:
    """True if one token comes back; False if the server is not ready for it yet.

    Raises ServerRefusedError where waiting cannot help: a wrong key, an unknown model, a reply
    that is no chat completion.
    """
    body = {
        "model": target.served_name,
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 1,
        "temperature": 0,
    }
    try:
        status, reply = _ask(target, "POST", "/v1/chat/completions", body, timeout_s)
    except (OSError, http.client.HTTPException):
        return False
    if status in RETRY_STATUSES:
        return False
    if status == http.HTTPStatus.OK and _tokens(reply) == 1:
        return True
    raise ServerRefusedError(
        f"The server at {target.url} answered a first chat request with status {status} "
        "and not with one token.",
        "check the served model name and the key, and that nothing else listens there.",
    )


def _ask(
    target: Target, method: str, path: str, body: dict[str, Any] | None, timeout_s: float
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(target.host, target.port, timeout=timeout_s)
    headers = {"content-type": "application/json"}
    if target.api_key is not None:
        headers["authorization"] = f"Bearer {target.api_key}"
    if target.gate_secret is not None:
        headers[grant.HEADER.decode()] = grant.mint(_own_grant(), target.gate_secret.encode())
    try:
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, body=sent, headers=headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def _own_grant() -> Grant:
    """For the first request of a server behind a gate; usage shows it under these names."""
    return Grant(
        issued_s=time.time(),
        request_id=f"probe-{secrets.token_hex(8)}",
        tenant="nearfar",
        key="probe",
        priority=grant.INTERACTIVE,
        output_tokens=1,
    )


def _tokens(reply: bytes) -> int | None:
    try:
        return int(json.loads(reply)["usage"]["completion_tokens"])
    except (ValueError, KeyError, TypeError):
        return None
