"""Malformed requests, each made from a seed and its number alone, so that any can be made again."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from .values import broken, mutated

CHAT = "/v1/chat/completions"

Field = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Case:
    """One request as bytes. `whole`: it is one whole HTTP request, which somebody must answer."""

    number: int
    kind: str
    method: bytes
    sent: bytes
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Draft:
    """A request before it is written."""

    method: bytes = b"POST"
    path: bytes = CHAT.encode()
    version: bytes = b"HTTP/1.1"
    fields: tuple[Field, ...] = ()
    body: bytes = b""

    def written(self, *, length: bool = True) -> bytes:
        """The bytes, with the body's own length unless a case gives another."""
        fields = self.fields
        if length:
            fields += ((b"content-length", b"%d" % len(self.body)),)
        lines = [b"%s %s %s" % (self.method, self.path, self.version)]
        lines += [b"%s: %s" % field for field in fields]
        return b"\r\n".join(lines) + b"\r\n\r\n" + self.body

    def with_field(self, name: bytes, value: bytes) -> Draft:
        """One header more."""
        return replace(self, fields=(*self.fields, (name, value)))


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes the cases of one run; `key` is a valid key for every route."""

    key: str
    seed: int = 0

    def case(self, number: int) -> Case:
        """The case of that number."""
        random = Random(f"{self.seed}:{number}")  # noqa: S311 - to be made again, not to be secret
        kind = _TURNS[number % len(_TURNS)]
        draft = Draft(
            fields=((b"host", b"edge"), (b"authorization", f"Bearer {self.key}".encode())),
            body=json.dumps(_document(random)).encode(),
        )
        method, sent, whole = _KINDS[kind](draft, random)
        return Case(number, kind, method, sent, whole)


Made = tuple[bytes, bytes, bool]


def _document(random: Random) -> dict[str, Any]:
    """A right chat request."""
    content: Any = f"question {random.randrange(10**6)}"
    if random.random() < 0.3:
        content = [{"type": "text", "text": content}]
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "be brief"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "1"},
        {"role": "user", "content": content},
    ]
    document: dict[str, Any] = {"model": "mock", "messages": messages[random.randrange(4) :]}
    if random.random() < 0.5:
        document |= {"stream": True, "stream_options": {"include_usage": True}}
    return document | {"temperature": 0, "max_tokens": 5}


def _mutated_json(draft: Draft, random: Random) -> Made:
    body = mutated(json.loads(draft.body), random)
    return draft.method, replace(draft, body=body).written(), True


def _broken_body(draft: Draft, random: Random) -> Made:
    return draft.method, replace(draft, body=broken(draft.body, random)).written(), True


_NAMES = (
    b"authorization", b"cache-control", b"content-type", b"traceparent", b"tracestate", b"accept",
    b"x-nearfar-cache", b"x-nearfar-category", b"x-nearfar-trace", b"x-request-id", b"te", b"via",
    b"x-forwarded-for", b"forwarded", b"cookie", b"connection", b"upgrade", b"accept-encoding",
    b"content-encoding", b"range", b"if-none-match", b"origin", b"x-nearfar-grant", b"priority",
)  # fmt: skip
# A token whose header nests deep: it is read before anybody knows who sent it.
_DEEP = base64.urlsafe_b64encode(b"[" * 3_000)
_VALUES = (
    b"", b" ", b"Bearer", b"Bearer ", b"Bearer nf_", b"Bearer nf_a.b", b"nf_x", b"Basic eDp5",
    b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01", b"ff-" + b"a" * 32 + b"-" + b"b" * 16 + b"-00",
    b"00-" + b"A" * 32 + b"-" + b"b" * 16 + b"-01", b"no-store, no-cache", b"max-age=" + b"9" * 400,
    b"1", b"use", b"gzip", b"text/plain", b"multipart/form-data; boundary=x", b"bytes=0-1",
    b"for=1.2.3.4;by=_x", b"1.2.3.4, 5.6.7.8", b"a" * 8_000, b"\xff\xfe\x80", b"\t\tx\t", b"%00",
    "Bearer нф_".encode(), b"Bearer " + _DEEP + b"." + _DEEP + b".x",
    b"trailers", b"close", b"websocket", b"x" * 300, b"=?utf-8?q?x?=",
)  # fmt: skip


def _header_garbage(draft: Draft, random: Random) -> Made:
    if random.random() < 0.3:
        draft = replace(draft, fields=draft.fields[:1])
    for _ in range(random.randint(1, 6)):
        draft = draft.with_field(random.choice(_NAMES), random.choice(_VALUES))
    return draft.method, draft.written(), True


def _header_shapes(draft: Draft, random: Random) -> Made:
    """Heads that a server may refuse or take; the component must bear those that are taken."""
    odd: tuple[Field, ...] = (
        (b"x" * 9_000, b"1"),
        (b"x-many", b"1\r\nx-many: 2\r\nx-many: 3"),
        (b"x folded", b"1"),
        (b"x-folded", b"1\r\n 2"),
        (b"", b"no name"),
        (b"x-nul", b"a\x00b"),
        (b"x-cr", b"a\rb"),
        (b"content-length", b"5"),
        (b"content-length", b"-1"),
        (b"content-length", b"99999999999999999999999999"),
        (b"content-length", b"0x10"),
        (b"transfer-encoding", b"chunked"),
        (b"transfer-encoding", b"gzip"),
        (b"transfer-encoding", b"identity, chunked"),
        (b"host", b"another"),
        (b"expect", b"100-continue"),
        (b"expect", b"200-ok"),
        (b"x-big", b"y" * 70_000),
    )
    name, value = random.choice(odd)
    return draft.method, draft.with_field(name, value).written(), False


_PATHS = (
    b"/", b"//", b"/v1", b"/v1/", b"/v1/chat/completions/", b"/v1/chat/completions?x=%ff&&=",
    b"/v1//chat/completions", b"/V1/CHAT/COMPLETIONS", b"/v1/models?" + b"a" * 3_000, b"*",
    b"/v1/models#x", b"/v1/%6dodels", b"/admin/keys/", b"/admin/keys/%00", b"/admin/keys/..%2f..",
    b"/admin/keys/" + b"k" * 5_000, b"/admin/keys/k?at=", b"/admin/keys/k?at=-1", b"/../etc/passwd",
    b"/admin/keys/k?at=99999999999999", b"/admin/keys/k?at=1&at=x", b"/readyz?x", b"/healthz/x",
    b"http://elsewhere/v1/models", b"/openapi.json?", b"/%", b"/%zz", b"/\xc3\xa4", b"/a b",
)  # fmt: skip
_METHODS = (
    b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"TRACE", b"PROPFIND",
    b"get", b"X" * 200, b"QUERY",
)  # fmt: skip


def _target(draft: Draft, random: Random) -> Made:
    method, path = random.choice(_METHODS), random.choice((*_PATHS, CHAT.encode(), b"/v1/models"))
    draft = replace(draft, method=method, path=path)
    if random.random() < 0.5:
        draft = replace(draft, body=b"")
    # A path with a blank or a raw byte is no legal target, and two requests may be seen in one.
    legal = path.startswith(b"/") and path.isascii() and b" " not in path
    return method, draft.written(), legal


def _admin(draft: Draft, random: Random) -> Made:
    document = {"tenant": "a", "expires_at": 2**40, "models": ["*"], "permissions": ["chat"]}
    body = mutated({**document, "label": {}}, random)
    if random.random() < 0.3:
        body = broken(body, random)
    key_id = random.choice((b"k1", b"", b"a.b-c_d", b"-", b"%20", b"k" * 65))
    draft = replace(draft, method=b"PUT", path=b"/admin/keys/" + key_id, body=body)
    return draft.method, draft.written(), True


def _coded(draft: Draft, random: Random) -> Made:
    """A chunked body, right or broken; what is broken may end without an answer."""
    body = draft.body
    half = len(body) // 2
    right = b"%x\r\n%s\r\n%x\r\n%s\r\n" % (half, body[:half], len(body) - half, body[half:])
    bodies = (
        (right + b"0\r\n\r\n", True),
        (right + b"0\r\nx-trailer: 1\r\n\r\n", True),
        (b"%x;ext=1\r\n%s\r\n0\r\n\r\n" % (len(body), body), True),
        (b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n", True),
        (b"0\r\n\r\n", True),
        (right, False),
        (b"fffffffffffffffff\r\n" + body, False),
        (b"zz\r\n" + body + b"\r\n0\r\n\r\n", False),
        (b"-1\r\n" + body, False),
        (b"%x\r\n%s" % (len(body) + 10, body), False),
        (b"%x\n%s\n0\n\n" % (len(body), body), False),
    )
    coded, whole = random.choice(bodies)
    draft = replace(draft.with_field(b"transfer-encoding", b"chunked"), body=coded)
    return draft.method, draft.written(length=False), whole


def _cut_off(draft: Draft, random: Random) -> Made:
    """The client goes away in the middle of its request."""
    sent = draft.written()
    return draft.method, sent[: random.randrange(1, len(sent))], False


def _huge(draft: Draft, random: Random) -> Made:
    document = json.loads(draft.body)
    size = random.choice((10_000, 300_000, 1_200_000))
    choice = random.randrange(4)
    if choice == 0:
        document["messages"][-1]["content"] = "x" * size
    elif choice == 1:
        document["messages"] = [{"role": "user", "content": "y"}] * (size // 40)
    elif choice == 2:
        document |= {f"field{i}": i for i in range(size // 20)}
    else:
        document["tools"] = [[[]]] * (size // 10)
    return draft.method, replace(draft, body=json.dumps(document).encode()).written(), True


def _protocol(draft: Draft, random: Random) -> Made:
    """Not HTTP/1.1 at all, or hardly."""
    choice = random.randrange(5)
    if choice == 0:
        version = random.choice((b"HTTP/1.0", b"HTTP/0.9", b"HTTP/9.9", b"HTTQ/1.1", b""))
        return draft.method, replace(draft, version=version).written(), version == b"HTTP/1.0"
    if choice == 1:
        return b"PRI", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + random.randbytes(50), False
    if choice == 2:
        return b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + random.randbytes(60), False
    if choice == 3:
        return b"", random.randbytes(200) + b"\r\n\r\n", False
    return draft.method, draft.written().replace(b"\r\n", b"\n"), False


_KINDS: dict[str, Callable[[Draft, Random], Made]] = {
    "mutated JSON": _mutated_json,
    "broken body": _broken_body,
    "garbage in headers": _header_garbage,
    "odd headers": _header_shapes,
    "odd targets": _target,
    "mutated admin body": _admin,
    "chunked body": _coded,
    "cut off": _cut_off,
    "huge": _huge,
    "hardly HTTP": _protocol,
}
# What the component itself must judge comes twice as often as what its host refuses.
_TURNS = (*_KINDS, "mutated JSON", "broken body", "garbage in headers")
