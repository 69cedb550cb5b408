"""Mixed requests while Redis and the upstream fail: nothing is lost, nothing crosses, books agree.

`just soak` sends twenty times as many.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fakes.script import Script
from soak import plan
from soak.asking import judge
from soak.plan import Maker
from soak.report import lines
from soak.run import Book, soak
from stack.answers import DONE

COUNT = 500


def test_every_request_ends_and_the_books_agree(tmp_path: Path) -> None:
    found = soak(COUNT, tmp_path, print)
    text = "\n".join(lines(found))
    counts = found.counts
    assert found.right, text
    assert (COUNT, 0, 0) == (counts["sent"], counts["crossed"], counts["lost"]), text
    # It has seen all of it, or it would prove nothing.
    assert all(counts[end] >= 10 for end in ("answered", "refused", "failed", "aborted")), text
    assert {"near store", "gate's Redis", "upstream"} <= found.trouble.keys(), text
    assert any(outcome.cache == "hit" for outcome in found.outcomes), text
    assert sum(book.usage.estimated for book in found.books if book.usage) > 0, text


WANTED = next(w for n in range(99) if (w := Maker().wanted(n)).kind == "stream")
WHOLE = next(w for n in range(99) if (w := Maker().wanted(n)).kind == "whole")


def stream(text: str, end: str = DONE) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": "stop"}
    usage = {"completion_tokens": len(WANTED.expected.split())}
    parts = [json.dumps({"choices": [choice]}), json.dumps({"choices": [], "usage": usage}), end]
    return "".join(f"data: {part}\n\n" for part in parts if part).encode()


@pytest.mark.parametrize(
    ("status", "body", "broke", "end"),
    [
        (200, stream(WANTED.expected), False, "answered"),
        (200, stream(WANTED.expected), True, "lost"),
        (200, stream(WANTED.expected, end=""), False, "lost"),
        (200, stream(WANTED.expected + "x"), False, "lost"),
        (200, stream("a", end='{"error":{"code":"upstream_broke"}}'), False, "failed"),
        (200, stream("a", end='{"error":{"code":"internal_error"}}'), False, "lost"),
        (502, b'{"error":{"code":"upstream_unreachable"}}', False, "failed"),
        (500, b'{"error":{"code":"internal_error"}}', False, "lost"),
        (429, b'{"error":{"code":"rate_limit_exceeded"}}', False, "refused"),
        (401, b'{"error":{"code":"invalid_api_key"}}', False, "lost"),
        (502, b"<html>", False, "lost"),
    ],
)
def test_an_end_is_judged_by_what_came(status: int, body: bytes, broke: bool, end: str) -> None:
    assert end == judge(WANTED, status, body, broke)[0]


def test_an_error_object_is_no_whole_answer() -> None:
    error = b'{"error":{"code":"upstream_broke"}}'
    assert ("lost", "failed") == tuple(
        judge(WHOLE, 200, error, broke)[0] for broke in (False, True)
    )


def test_books_without_usage_do_not_agree() -> None:
    assert not Book("a", 0, None).agrees
    assert isinstance(plan.USUAL, Script)
