"""Sends one request of a soak and says how it ended."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import httpx

from stack.answers import DONE, assembled
from stack.caller import CHAT

from .plan import Wanted

End = Literal["answered", "refused", "failed", "aborted", "lost"]
LEAVE_AFTER_CHUNKS = 3
# Refusals by kind; a limit or a full engine may refuse any request beside.
REFUSED = {
    "unauthorised": (401, "invalid_api_key"),
    "too big": (413, "request_too_large"),
    "too long": (400, "context_length_exceeded"),
}
LIMITS = {"rate_limit_exceeded", "parallel_limit_exceeded", "upstream_busy", "overloaded"}
FAILURES = {"upstream_error", "upstream_unreachable", "upstream_broke", "upstream_timeout"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one request ended. `why` is the error's code, or what is wrong where it is lost."""

    wanted: Wanted
    began_s: float
    ended_s: float
    end: End
    why: str = ""
    cache: str = ""
    crossed: bool = False


async def ask(
    session: httpx.AsyncClient, url: str, wanted: Wanted, foreign: Iterable[str]
) -> Outcome:
    """Ask and judge; `foreign` are the markers of the other tenants."""
    began_s = time.monotonic()
    status, cache, body, broke = 0, "", b"", False
    try:
        async with session.stream(
            "POST", url + CHAT, json=dict(wanted.body), headers=dict(wanted.headers)
        ) as answer:
            status, cache = answer.status_code, answer.headers.get("x-cache", "")
            async for data in answer.aiter_raw():
                body += data
                # The first delta is the role, with a content that is empty.
                if wanted.kind == "aborted" and body.count(b'"content":"') > LEAVE_AFTER_CHUNKS:
                    break
    except httpx.HTTPError as error:
        broke, why = True, type(error).__name__
    end: End
    if broke and not status:
        end = "lost"
    else:
        end, why = judge(wanted, status, body, broke)
    crossed = any(marker.encode() in body for marker in foreign)
    return Outcome(wanted, began_s, time.monotonic(), end, why, cache, crossed)


def judge(wanted: Wanted, status: int, body: bytes, broke: bool) -> tuple[End, str]:
    """From what came to how it ended."""
    if status != 200:
        return _refusal(wanted, status, body)
    if wanted.kind == "aborted":
        return ("aborted", "") if not broke else ("lost", "it broke off")
    if wanted.kind in REFUSED:
        return "lost", "it was answered"
    return _stream(wanted, body, broke) if wanted.streamed else _whole(wanted, body, broke)


def _refusal(wanted: Wanted, status: int, body: bytes) -> tuple[End, str]:
    code = _code(body)
    if wanted.kind in REFUSED:
        right = (status, code) == REFUSED[wanted.kind]
        return ("refused", code) if right else ("lost", f"{status} {code}")
    if status in (429, 503) and code in LIMITS:
        return "refused", code
    if status in (502, 503, 504) and code in FAILURES:
        return "failed", code
    return "lost", f"{status} {code or body[:100]!r}"


def _stream(wanted: Wanted, body: bytes, broke: bool) -> tuple[End, str]:
    try:
        events = [_event(block) for block in body.decode().split("\n\n") if block]
    except ValueError:
        return "lost", f"no events: {body[-100:]!r}"
    last = events[-1] if events else None
    if isinstance(last, dict) and "error" in last:
        code = last["error"]["code"]
        return ("failed", code) if code in FAILURES else ("lost", f"an event {code}")
    if broke or last != DONE:
        return "lost", "a stream without its end"
    return _compared(wanted, assembled(event for event in events if event != DONE))


def _whole(wanted: Wanted, body: bytes, broke: bool) -> tuple[End, str]:
    code = _code(body)
    if code:  # the head had left with 200: an error object, and a transfer that ends abnormally
        right = broke and code in FAILURES
        return ("failed", code) if right else ("lost", f"an error object {code} as an answer")
    if broke:
        return "lost", "the body broke off without a word"
    try:
        return _compared(wanted, json.loads(body))
    except ValueError:
        return "lost", f"no JSON: {body[:100]!r}"


def _compared(wanted: Wanted, answer: dict[str, Any]) -> tuple[End, str]:
    """The text and the usage must be those that the upstream gave."""
    (choice,) = answer["choices"]
    text = choice["message"].get("content")
    if text != wanted.expected or not choice["finish_reason"]:
        return "lost", f"another text: {text!r}, not {wanted.expected!r}"
    usage = answer.get("usage")
    if wanted.kind in ("stream", "whole") and (
        not usage or usage["completion_tokens"] != len(wanted.expected.split())
    ):
        return "lost", f"another usage: {usage}"
    return "answered", ""


def _event(block: str) -> Any:
    text = block.removeprefix("data: ")
    return text if text == DONE else json.loads(text)


def _code(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return ""
