"""JSON that somebody else wrote, read so that no document can end the instance: a client, a model
server, a key server, whoever can write to the store.

The reader of the standard library recurses once a level. In a component that is WebAssembly's own
stack, which ends with a trap and not with a RecursionError: the instance is lost, and every other
request that it serves with it. So the depth is known before anything is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import accumulate
from typing import Any

# Far above what a request needs (a JSON schema of a tool nests about ten deep) or an answer has
# (log-probabilities nest eight deep), and far below what any stack bears, also where it is written
# again.
MAX_DEPTH = 100
# Pairs with nothing in them are taken away so often; each time takes one or two levels.
_PASSES = 20
_STEP = [1 if byte in b"[{" else -1 for byte in range(256)]
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))


class TooDeep(ValueError):
    """The document nests deeper than MAX_DEPTH."""


def loads(
    text: bytes,
    *,
    parse_constant: Callable[[str], Any] | None = None,
    parse_float: Callable[[str], Any] | None = None,
) -> Any:
    """Read a document that is UTF-8 (RFC 8259, 8.1), the only coding a component is sure to have.

    Raises:
        TooDeep: before anything of it is read.
        ValueError: when it is no JSON.
    """
    if nests_too_deep(text):
        raise TooDeep(f"nests deeper than {MAX_DEPTH}")
    return json.loads(text.decode(), parse_constant=parse_constant, parse_float=parse_float)


def nests_too_deep(text: bytes) -> bool:
    """Whether the text opens more than MAX_DEPTH brackets inside one another."""
    # Most texts have fewer than that at all, which is quickly counted.
    if text.count(b"[") + text.count(b"{") <= MAX_DEPTH:
        return False
    brackets = _outside_strings(text).translate(None, _NO_BRACKET)
    left = brackets
    for _ in range(_PASSES):
        left = left.replace(b"[]", b"").replace(b"{}", b"")
    if len(left) + 2 * _PASSES <= MAX_DEPTH:
        return False
    # A bracket that closes another kind is no JSON: the reader stops there and goes no deeper.
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > MAX_DEPTH


def _outside_strings(text: bytes) -> bytes:
    """What stands in no string. A backslash outside of one is where the reader stops anyway."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(text.split(b'"')[::2])
