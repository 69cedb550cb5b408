"""docs/http.md says what the code does: routes, headers, values and errors."""

from __future__ import annotations

import ast
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from docs import page
from edge_frontend import admin, back, errors, forward, headers, prompt
from fakes.edge import (
    Edge,
    Scripted,
    chat,
    make_key,
    run,
    stream,
)

CORE = Path(__file__).parents[2] / "edge-frontend/edge_frontend"
MD = "http.md"
ORIGIN = "https://app.test"
SLOW = b"in_flight=1;capacity=24;seats=16;queued=0;drain=4.1;speed=1.5"


def test_the_table_has_every_route_with_its_authentication() -> None:
    assert [[route.method, route.path, route.authentication] for route in headers.ROUTES] == [
        row[:3] for row in page.table(MD, "Routes")
    ]


@pytest.mark.parametrize("route", headers.ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_a_route_lets_in_whom_the_table_says_and_nobody_else(route: headers.Route) -> None:
    path = route.path.replace("{key_id}", "k9")
    description = {"tenant": "a", "expires_at": 2**40, "models": ["*"], "permissions": []}
    body = {"POST": chat(), "PUT": description}.get(route.method)

    def status(key: str | None) -> int:
        edge = Edge.with_store()
        return run(edge.ask(body, method=route.method, path=path, key=key)).status

    if route.authentication == "none":
        assert 200 == status(None)
        return
    assert 401 == status(None)
    for permission in ("chat", "trace", "admin"):
        expected = 200 if permission == route.authentication else 403
        assert expected == status(make_key((permission,))), permission


@pytest.mark.parametrize(
    ("heading", "known"),
    [
        ("Read from the client", headers.READ),
        ("Written to the client", headers.WRITTEN),
        ("Read from the model server", headers.READ_FROM_UPSTREAM),
        ("x-cache", headers.X_CACHE),
    ],
)
def test_a_table_of_headers_is_that_of_the_code(heading: str, known: dict[str, str]) -> None:
    assert known == dict(page.table(MD, heading))


def test_the_headers_sent_upstream_are_those_of_the_code() -> None:
    first = page.section(MD, "Sent to the model server").split("\n\n")[0]
    named = first.partition(": ")[2].replace("`", "").replace("\n", " ").rstrip(". ").split(", ")
    assert list(headers.SENT_UPSTREAM) == named


def read_in_source() -> tuple[set[str], set[str]]:
    """The headers that the sources ask a request and a model server's answer for."""
    asked: tuple[set[str], set[str]] = set(), set()
    for path in sorted(CORE.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            name = node.args[-1] if node.args else None
            if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
                continue
            if node.func.attr == "header":
                asked[0].add(name.value)
            elif ast.unparse(node.func) in ("headers.first", "headers.joined", "headers.all_of"):
                asked["answer" in ast.unparse(node.args[0])].add(name.value)
    return asked


def test_no_other_header_is_read_anywhere() -> None:
    of_client, of_server = read_in_source()
    # The adapter that reads a body compares names itself.
    assert '"content-length"' in (CORE / "adapters/wasi_http.py").read_text()
    assert set(headers.READ) == of_client | {"content-length"}
    # What is passed on is chosen by its name's being in a set.
    assert "if name in headers.PASSED" in (CORE / "forward.py").read_text()
    assert all(name.startswith("x-ratelimit-") for name in headers.PASSED)
    assert set(headers.READ_FROM_UPSTREAM) == of_server | {"x-ratelimit-*"}


def test_no_other_header_is_written_or_sent_and_each_of_them_is() -> None:
    edge = Edge.with_store(gate_secret="g" * 32, deadline_ms="3000", origins=ORIGIN)
    full = Scripted([b""], status=429, headers=(("retry-after", b"5"),))
    left = tuple((name, b"1") for name in sorted(headers.PASSED))
    head = (("content-type", b"text/event-stream"), ("x-nearfar-load", SLOW), *left)
    edge.upstream.enqueue(Scripted(stream("x"), headers=head), full)
    page_asks = {"origin": ORIGIN, "access-control-request-method": "POST"}
    replies = [
        run(edge.ask(chat(stream=True), headers=page_asks)),
        run(edge.ask(chat())),
        run(edge.ask(chat("other"))),
        run(edge.ask(chat(), key=None)),
        run(edge.ask(None, method="GET")),
        run(edge.ask(None, method="OPTIONS", path="/healthz", headers=page_asks)),
        run(edge.get("/readyz", key=None)),
        run(edge.get("/admin/keys", key=make_key(("admin",)))),
    ]
    assert [200, 200, 429, 401, 405, 204, 200, 200] == [reply.status for reply in replies]
    assert set(headers.WRITTEN) == {name for reply in replies for name in reply.headers}
    assert {"hit", "miss"} <= set(headers.X_CACHE)
    sent = {name for call in edge.upstream.calls for name, _ in call.headers}
    assert set(headers.SENT_UPSTREAM) == sent


def test_the_errors_are_those_of_the_code() -> None:
    classes = [item for _, item in inspect.getmembers(errors, inspect.isclass)]
    kinds = {item.code: item for item in classes if issubclass(item, errors.EdgeError)}
    rows = {row[0]: row[1:3] for row in page.table(MD, "Errors")}
    assert set(kinds) == set(rows)
    for code, (status, kind) in rows.items():
        assert kind == kinds[code].type
        if code == errors.UpstreamRejected.code:
            assert set(status.split(", ")) == set(map(str, forward.REQUESTS_OWN_FAULT))
        elif code == errors.UpstreamBusy.code:
            assert "429, 503" == status
        else:
            assert status == str(kinds[code].status), code


def test_the_figures_in_the_text_are_those_of_the_code() -> None:
    after = page.section(MD, "Before and after the head")
    assert f"no longer than {back.HOLD_HEAD_MS} ms" in after.replace("\n", " ")
    assert all(f"`{name}`" in after for name in prompt.NEVER_STREAMED)
    rejected = next(row for row in page.table(MD, "Errors") if row[0] == "upstream_rejected")
    assert f"{forward.MAX_MESSAGE_CHARS} characters" in rejected[3]


def test_the_admin_way_answers_what_the_page_shows() -> None:
    edge, key = Edge.with_store(), make_key(("admin",))
    shown = page.section(MD, "The admin way")
    described: dict[str, Any] = {
        "tenant": "a", "expires_at": 2**40, "models": ["*"], "permissions": ["chat"],
        "limits": {"rpm": 5}, "priority": 2, "created_at": 1, "label": "x",
    }  # fmt: skip
    answer = run(edge.ask(described, method="PUT", path="/admin/keys/k9", key=key)).json()
    assert {"keys", "revoked"} == set(answer)
    fields = ", ".join(json.dumps(name) for name in answer["keys"][0])
    assert f'{{"keys": [{{{fields}}}],' in shown
    for name in described:
        assert f"`{name}`" in shown
    assert admin.KEYS not in shown
