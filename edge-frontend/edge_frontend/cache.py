"""The answer cache: which requests it may answer, under which key, and the form of an entry.

A key is a hash over everything that can change the answer. An entry holds the answer twice, as one
body and as the frames of a stream, so that a hit is sent without parsing it.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass
from typing import Any

from . import untrusted
from .request import ChatRequest
from .routes import Route

# Fields that change how an answer travels, and nothing in it.
TRANSPORT_FIELDS = frozenset({"stream", "stream_options"})
_HEAD = struct.Struct("<3sIIII")
_MAGIC = b"nf1"


@dataclass(frozen=True, slots=True)
class Policy:
    """What the request and its headers allow: read an answer, keep one."""

    read: bool
    keep: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """A complete answer; `stored_at` in seconds since 1970, token counts as the server gave."""

    stored_at: int
    input_tokens: int | None
    output_tokens: int | None
    body: bytes
    frames: bytes
    usage_frame: bytes


def policy(request: ChatRequest, asked: str, cache_control: str, has_store: bool = True) -> Policy:
    """Decide by RFC 9111's request directives, the request's determinism and our own header."""
    directives = {part.strip().lower() for part in cache_control.split(",")}
    cacheable = has_store and (request.deterministic or asked.strip().lower() == "use")
    keep = cacheable and "no-store" not in directives
    return Policy(read=keep and "no-cache" not in directives, keep=keep)


def key(
    request: ChatRequest,
    route: Route,
    tenant: str,
    template: str,
    cap: int | None,
    rules: str = "",
) -> str:
    """The hash that names an answer: tenant, model, serving configuration, template, every field.

    The order of the fields does not matter. The order inside them does: chat templates write tools
    into the prompt as they come, and a guided answer follows its schema's order.
    """
    fields: dict[str, Any] = {
        name: value
        for name, value in sorted(request.fields.items())
        if name not in TRANSPORT_FIELDS
    }
    context = [
        tenant, route.name, route.upstream.name, route.model, route.revision,
        route.serving_hash, template, rules, cap, fields,
    ]  # fmt: skip
    canonical = json.dumps(context, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def encode(entry: Entry) -> bytes:
    """The entry as one value of the store."""
    facts = json.dumps([entry.stored_at, entry.input_tokens, entry.output_tokens]).encode()
    sections = (facts, entry.body, entry.frames, entry.usage_frame)
    return _HEAD.pack(_MAGIC, *map(len, sections)) + b"".join(sections)


def decode(value: bytes) -> Entry | None:
    """Read an entry back; None for anything that is not one, which is then a miss."""
    try:
        magic, *sizes = _HEAD.unpack_from(value)
        if magic != _MAGIC or _HEAD.size + sum(sizes) != len(value):
            return None
        sections, start = [], _HEAD.size
        for size in sizes:
            sections.append(value[start : start + size])
            start += size
        stored_at, *tokens = untrusted.loads(sections[0])
    except (struct.error, ValueError, TypeError):
        return None
    is_ours = type(stored_at) is int and len(tokens) == 2 and all(map(_is_count, tokens))
    return Entry(stored_at, *tokens, *sections[1:]) if is_ours else None


def _is_count(value: object) -> bool:
    return value is None or type(value) is int
