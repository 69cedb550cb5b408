"""One tenant's connection: it asks for one stream after the other and notes when each part came."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from stack.caller import CHAT, TIMEOUT_S, Caller

from .judge import Timing

_PIECE_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Answer:
    """What came, and when. `headers` are named in lower case."""

    headers: Mapping[str, str]
    body: bytes
    timing: Timing


@dataclass(slots=True)
class Probe:
    """A kept connection, so that none of the times has a handshake in it."""

    url: str
    caller: Caller
    _connection: http.client.HTTPConnection = field(init=False)
    _headers: dict[str, str] = field(init=False)

    def __enter__(self) -> Self:
        self._connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=TIMEOUT_S)
        self._headers = {**self.caller.headers(), "content-type": "application/json"}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._connection.close()

    def ask(self, text: str) -> Answer:
        """Ask for a stream that may be cached, and read it to its end."""
        document: dict[str, Any] = {
            "model": "mock",
            "messages": [{"role": "user", "content": text}],
            "temperature": 0,
            "stream": True,
        }
        self._connection.request("POST", CHAT, json.dumps(document).encode(), self._headers)
        began = time.perf_counter()
        answer = self._connection.getresponse()
        head_ms = (time.perf_counter() - began) * 1000
        body, content_ms, events_ms = bytearray(), None, list[float]()
        while piece := answer.read1(_PIECE_BYTES):
            now_ms = (time.perf_counter() - began) * 1000
            body += piece
            events_ms.append(now_ms)
            if content_ms is None and b'"content":"' in body.replace(b'"content":""', b""):
                content_ms = now_ms
        if answer.status != 200 or content_ms is None:
            raise RuntimeError(f"{answer.status} without content: {bytes(body[:300])!r}")
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(headers, bytes(body), Timing(head_ms, content_ms, tuple(events_ms)))
