"""Asks a deployed edge one question, and says which stage did not answer.

The stages are those of the way there: name, connection, TLS, edge, key, model, answer. Every one
is tried again until the deadline, since names and certificates of a new address take their time.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx

from nearfar import exchange
from nearfar.client import Answer, Question, ask
from nearfar.errors import NearfarError, Refused
from nearfar.exchange import Edge

QUESTION = "Say hello in one word."
PAUSE_S = 3.0
STEP_S = 10.0


class StageFailed(Exception):
    """One stage did not do its part; `last` where trying again cannot help."""

    def __init__(self, stage: str, why: str, next_step: str, *, last: bool = False) -> None:
        super().__init__(f"{stage}: {why}")
        self.stage = stage
        self.why = why
        self.next_step = next_step
        self.last = last


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked where. `ca` is the certificate authority of a test, in PEM."""

    url: str
    api_key: str = field(repr=False)
    model: str
    question: str = QUESTION
    max_tokens: int = 16
    ca: str = ""


def until_answered(asked: Asked, deadline_s: float, pause_s: float = PAUSE_S) -> Answer:
    """Go through the stages until they all answer.

    Raises:
        StageFailed: of the stage that failed last, when the deadline has passed or waiting cannot
            help.
    """
    end = time.monotonic() + deadline_s
    while True:
        try:
            return through(asked)
        except StageFailed as failed:
            if failed.last or time.monotonic() + pause_s > end:
                raise
        time.sleep(pause_s)


def through(asked: Asked) -> Answer:
    """Go through all stages once."""
    parts = urlsplit(asked.url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    trust = ssl.create_default_context(cadata=asked.ca or None)
    _stage("name", lambda: socket.getaddrinfo(host, port), f"check the DNS entry of {host}.")
    _stage("connection", lambda: _connect(host, port), "check the firewall and the load balancer.")
    if parts.scheme == "https":
        _stage("TLS", lambda: _handshake(host, port, trust), "look at the certificate's issuer.")
    with httpx.Client(timeout=exchange.TIMEOUT, trust_env=False, verify=trust) as session:
        edge = Edge(asked.url, asked.api_key)
        _stage("edge", lambda: _serves(session, edge), "look at the edge's log.")
        return _answered(session, edge, asked)


def _answered(session: httpx.Client, edge: Edge, asked: Asked) -> Answer:
    messages = [{"role": "user", "content": asked.question}]
    question = Question(asked.model, messages, temperature=0, max_tokens=asked.max_tokens)
    try:
        answer = ask(edge, question, lambda _: None, session)
    except Refused as refused:
        raise _refusal(refused) from refused
    except NearfarError as error:
        raise StageFailed("answer", error.message, "look at the edge's log.") from error
    if not answer.text.strip():
        raise StageFailed("answer", "the answer was empty.", "look at vLLM's log.")
    return answer


def _refusal(refused: Refused) -> StageFailed:
    """Which stage an error of the edge belongs to, by its status."""
    if refused.status in (401, 403):
        step = "the operator's secret at the edge and in the stack must be the same."
        return StageFailed("key", refused.message, step, last=True)
    if refused.status in (400, 404):
        return StageFailed("model", refused.message, "compare the edge's routes with the model.")
    step = "kubectl -n nearfar-serving get pods, and the log of what is not ready."
    return StageFailed("model server", refused.message, step)


def _serves(session: httpx.Client, edge: Edge) -> None:
    response = session.get(edge.url("/healthz"))
    if response.status_code >= 500:
        raise OSError(f"it answered {response.status_code}")


def _connect(host: str, port: int) -> None:
    socket.create_connection((host, port), STEP_S).close()


def _handshake(host: str, port: int, trust: ssl.SSLContext) -> None:
    with (
        socket.create_connection((host, port), STEP_S) as plain,
        trust.wrap_socket(plain, server_hostname=host),
    ):
        pass


def _stage(name: str, call: Callable[[], object], next_step: str) -> None:
    try:
        call()
    except (OSError, httpx.HTTPError) as error:
        why = str(error) or type(error).__name__
        raise StageFailed(name, f"{why}.", next_step) from error
