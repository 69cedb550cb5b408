"""Odd JSON values, and JSON documents that are changed in one or more places."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any


class Raw(str):
    """JSON text that is written as it stands, legal or not."""


# What a strict reader refuses stands beside what it must take.
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**64, -(2**63), 10**400, 0.0, -0.5, 1e308,
    "", " ", "0", "null", "\x00", "\ud800", "\U0001f600" * 50, "a" * 20_000, "ſ", "‮", "nf_",
    [], {}, [[]], [{}], [None], {"": {}}, {"role": "user"}, {"type": "text"}, {"text": []},
    Raw("NaN"), Raw("Infinity"), Raw("-Infinity"), Raw("1e999"), Raw("-0"), Raw("01"), Raw("+1"),
    Raw("0x10"), Raw("1."), Raw("undefined"), Raw("'a'"), Raw('"\\x41"'), Raw('"\\ud83d"'),
    Raw('"a\nb"'), Raw(""), Raw("[" * 200 + "]" * 200), Raw('{"a":' * 99 + "1" + "}" * 99),
    Raw("[" * 5_000), Raw("9" * 5_000), Raw("0." + "1" * 5_000), Raw('{"a":1,"a":2}'),
)  # fmt: skip
NAMES = (
    "model", "messages", "stream", "stream_options", "n", "max_tokens", "max_completion_tokens",
    "temperature", "seed", "tools", "tool_choice", "response_format", "logprobs", "top_logprobs",
    "stop", "user", "metadata", "use_beam_search", "prompt_logprobs", "cache_salt", "nearfar",
    "", "\x00", "__proto__", "x" * 3_000,
)  # fmt: skip


def written(value: Any) -> str:
    """The value as JSON text; `Raw` is left as it stands."""
    if isinstance(value, Raw):
        return value
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**100:
        return "1" + "0" * 400
    return json.dumps(value)


def mutated(document: dict[str, Any], random: Random) -> bytes:
    """The document with one to three odd values, as UTF-8 (a lone surrogate as its escape)."""
    for _ in range(random.randint(1, 3)):
        _odd_somewhere(document, random)
    return written(document).encode()


def _odd_somewhere(document: dict[str, Any], random: Random) -> None:
    """Put an odd value at a random place of the tree, or take one away."""
    node: Any = document
    while True:
        places = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not places or (isinstance(node, dict) and random.random() < 0.15):
            break
        place = random.choice(places)
        inner = node[place]
        if isinstance(inner, dict | list) and inner and random.random() < 0.7:
            node = inner
            continue
        if random.random() < 0.15:
            del node[place]
        else:
            node[place] = random.choice(ODD)
        return
    if isinstance(node, dict):
        node[random.choice(NAMES)] = random.choice(ODD)
    else:
        node.append(random.choice(ODD))


def broken(text: bytes, random: Random) -> bytes:
    """The text with its bytes changed, so that it is seldom JSON any more."""
    return random.choice(_BREAKS)(text, random)


def _cut(text: bytes, random: Random) -> bytes:
    return text[: random.randrange(len(text))]


def _flip(text: bytes, random: Random) -> bytes:
    changed = bytearray(text)
    for _ in range(random.randint(1, 8)):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def _insert(text: bytes, random: Random) -> bytes:
    at = random.randrange(len(text) + 1)
    return text[:at] + random.randbytes(random.choice((1, 2, 30, 2_000))) + text[at:]


def _twice(text: bytes, random: Random) -> bytes:
    begin = random.randrange(len(text))
    return text[:begin] + text[begin : begin + random.randint(1, 40)] * 2 + text[begin:]


def _recoded(text: bytes, random: Random) -> bytes:
    coding = random.choice(("utf-16", "utf-32-le", "utf-8-sig", "utf-16-be"))
    return text.decode().encode(coding)


def _noise(text: bytes, random: Random) -> bytes:
    return random.randbytes(random.choice((0, 1, 5, 500, 20_000)))


def _followed(text: bytes, random: Random) -> bytes:
    return text + random.choice((b"\x00", b"{}", b",", b"\r\n\r\n", b"[DONE]", b" " * 5_000))


_BREAKS: tuple[Callable[[bytes, Random], bytes], ...] = (
    _cut,
    _flip,
    _insert,
    _twice,
    _recoded,
    _noise,
    _followed,
)
