"""Whether an answer to a malformed request is a right one."""

from __future__ import annotations

import json
from typing import Any

from edge_frontend import errors

from .cases import Case
from .wire import Heard

FIELDS = {"message", "type", "param", "code"}


def codes() -> frozenset[str]:
    """The codes of every error that the request itself may be at fault for."""
    found, left = set[str](), [errors.EdgeError]
    while left:
        each = left.pop()
        found.add(each.code)
        left += each.__subclasses__()
    return frozenset(found)


CODES = codes()


def judge(case: Case, heard: Heard) -> tuple[str, str]:
    """How it ended, and what is wrong with that; an empty text where nothing is."""
    if heard.late:
        return "no end", "no whole answer came in time"
    if heard.closed:
        return "closed", "" if not case.whole else "the connection ended without an answer"
    if heard.status >= 500:
        return str(heard.status), f"a {heard.status}: {heard.body[:300]!r}"
    if "x-request-id" not in heard.headers:
        return _hosts_own(case, heard)
    if not heard.whole:
        return str(heard.status), "" if not case.whole else "the answer broke off"
    if case.method == b"HEAD":
        return str(heard.status), ""
    check = _error if heard.status >= 400 else _answer
    return str(heard.status), check(heard)


def _hosts_own(case: Case, heard: Heard) -> tuple[str, str]:
    """The host refuses what is not HTTP before the component sees it."""
    wrong = "" if heard.status in (400, 414, 431) and not heard.body else "not the component's own"
    if case.whole and heard.status == 400:
        wrong = "the host refused a legal request"
    return f"host {heard.status}", wrong


def _error(heard: Heard) -> str:
    if heard.headers.get("content-type") != "application/json":
        return f"an error as {heard.headers.get('content-type')}"
    try:
        error = json.loads(heard.body)["error"]
    except (ValueError, KeyError, TypeError):
        return f"no error object: {heard.body[:200]!r}"
    if set(error) != FIELDS or error["code"] not in CODES or not error["message"]:
        return f"not OpenAI's error object: {error}"
    if heard.status == 405 and "allow" not in heard.headers:
        return "405 without allow"
    return ""


def _answer(heard: Heard) -> str:
    """A right answer: a whole stream, or a JSON document of a known kind."""
    if heard.status == 204:
        return "" if "allow" in heard.headers else "204 without allow"
    kind = heard.headers.get("content-type", "")
    if kind.startswith("text/event-stream"):
        return "" if heard.body.endswith(b"data: [DONE]\n\n") else "a stream without its end"
    try:
        document: Any = json.loads(heard.body)
    except ValueError:
        return f"no JSON: {heard.body[:200]!r}"
    known = {"choices", "data", "status", "keys", "openapi"}
    is_known = isinstance(document, dict) and known & document.keys()
    return "" if is_known else f"an unknown document: {heard.body[:200]!r}"
