"""The request's way as a client sees it, over fakes of every port."""

from __future__ import annotations

import asyncio
import json
from email.utils import formatdate
from typing import Any

import pytest

from edge_frontend import flow
from edge_frontend.errors import (
    EdgeError,
    UpstreamBroke,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from edge_frontend.exchange import STORE_PAUSE_MS
from edge_frontend.ports import Get, Put
from fakes.edge import (
    DONE,
    METRICS,
    SECRET,
    USAGE,
    WALL_S,
    Edge,
    FakeInbound,
    RecordingSink,
    Response,
    Scripted,
    Wait,
    chat,
    chunk,
    make_key,
    make_settings,
    run,
    stream,
)

ADMIN = make_key(("admin",), key_id="root")
TRACER = make_key(("chat", "trace"), key_id="tracer")
TRACE = {"x-nearfar-trace": "1"}
WHOLE = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "served-small",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello"},
                "finish_reason": "stop",
            }
        ],
        "usage": USAGE,
    }
).encode()


class Unreadable(FakeInbound):
    """A request whose body fails as soon as it is read."""

    async def body(self, limit_bytes: int) -> bytes:
        raise EdgeError("Something of the host.")


def failed(response: Response, status: int, code: str) -> dict[str, Any]:
    """The OpenAI error object of a failed response."""
    assert (status, code) == (response.status, response.error["code"])
    assert {"message", "type", "param", "code"} == set(response.error)
    assert response.error["message"]
    assert "application/json" == response.headers["content-type"]
    assert str(len(response.body)) == response.headers["content-length"]
    assert response.headers["x-request-id"].startswith("req_")
    assert "no-store" == response.headers["cache-control"]
    return response.error


def refused_with(answer: Scripted | UpstreamError, **fields: Any) -> Response:
    """The response when the model server answers this."""
    edge = Edge.with_store()
    edge.upstream.enqueue(answer)
    return run(edge.ask(chat(**fields)))


# A whole answer.


def test_a_streamed_answer_comes_back_as_it_was_sent_and_ends_with_done() -> None:
    edge = Edge.with_store()
    response = run(edge.ask(chat(stream=True)))
    assert (200, "miss") == (response.status, response.headers["x-cache"])
    assert "text/event-stream; charset=utf-8" == response.headers["content-type"]
    assert b"".join(stream("Hello", " there", usage=None)) == response.body


def test_the_usage_chunk_comes_only_when_it_was_asked_for() -> None:
    edge = Edge.with_store()
    options: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
    assert b"".join(stream("Hello", " there")) == run(edge.ask(chat(**options))).body
    assert USAGE == run(edge.ask(chat(**options))).chunks()[-1]["usage"]
    assert b"usage" not in run(edge.ask(chat(stream=True))).body


def test_one_body_is_put_together_of_the_stream() -> None:
    response = run(Edge.with_store().ask(chat()))
    assert (200, "application/json") == (response.status, response.headers["content-type"])
    assert str(len(response.body)) == response.headers["content-length"]
    body = response.json()
    assert ("chat.completion", USAGE) == (body["object"], body["usage"])
    message = {"role": "assistant", "content": "Hello there"}
    assert [{"index": 0, "message": message, "finish_reason": "stop"}] == body["choices"]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_server_that_does_not_stream_is_passed_on_too(streamed: bool) -> None:
    edge = Edge.with_store()
    head = (("content-type", b"application/json"),)
    edge.upstream.enqueue(Scripted([WHOLE], headers=head))
    response = run(edge.ask(chat(stream=streamed)))
    assert 200 == response.status
    if streamed:
        assert "Hello" == response.text()
        assert response.body.endswith(DONE)
    else:
        assert "Hello" == response.json()["choices"][0]["message"]["content"]
    assert "hit" == run(edge.ask(chat())).headers["x-cache"]


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b"7", b"{}", b'{"choices":null}', b'{"error":{"message":"x"}}',
        b'{"choices":"x"}', b'{"choices":[1]}', b'{"choices":[{}]}',
        b'{"choices":[{"message":null,"finish_reason":"stop"}]}', b"[" * 100_000,
    ],
)  # fmt: skip
def test_a_whole_body_that_is_no_answer_is_a_failure_of_the_server(body: bytes) -> None:
    head = (("content-type", b"application/json"),)
    failed(refused_with(Scripted([body], headers=head)), 502, "upstream_broke")


# Every reply.


@pytest.mark.parametrize(
    ("method", "path", "key"),
    [
        ("POST", "/v1/chat/completions", ""),
        ("POST", "/v1/chat/completions", None),
        ("GET", "/v1/models", ""),
        ("GET", "/healthz", None),
        ("GET", "/readyz", None),
        ("GET", "/admin/keys", ADMIN),
        ("OPTIONS", "/v1/models", None),
        ("GET", "/nothing", None),
        ("PUT", "/v1/models", None),
    ],
)
def test_every_reply_names_its_request_and_is_kept_by_nobody(
    method: str, path: str, key: str | None
) -> None:
    edge = Edge.with_store()
    body = chat() if method == "POST" else None
    one, two = (run(edge.ask(body, method=method, path=path, key=key)) for _ in range(2))
    assert one.headers["x-request-id"].startswith("req_")
    assert one.headers["x-request-id"] != two.headers["x-request-id"]
    assert "no-store" == one.headers["cache-control"]
    if one.log is not None:
        assert one.headers["x-request-id"] == one.log["request_id"]


def test_the_client_does_not_choose_the_name_of_its_request() -> None:
    response = run(Edge.with_store().ask(chat(), headers={"x-request-id": "mine"}))
    assert "mine" not in response.headers["x-request-id"]


def test_head_says_what_is_known_when_it_leaves() -> None:
    response = run(Edge.with_store().ask(chat(stream=True)))
    stages = [part.partition(";")[0] for part in response.headers["server-timing"].split(", ")]
    assert [
        "authenticate", "receive", "guard", "look_up", "admit", "assemble", "cache",
    ] == stages  # fmt: skip


# Routes and methods.


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/chat", "/v1/models/x", "/admin", "/metrics", "*"]
)
def test_an_unknown_path_is_not_found(path: str) -> None:
    failed(run(Edge.with_store().get(path)), 404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/v1/chat/completions", "POST, OPTIONS"),
        ("HEAD", "/v1/chat/completions", "POST, OPTIONS"),
        ("POST", "/v1/models", "GET, OPTIONS"),
        ("HEAD", "/healthz", "GET, OPTIONS"),
        ("DELETE", "/readyz?x=1", "GET, OPTIONS"),
        ("POST", "/admin/keys", "GET, OPTIONS"),
        ("GET", "/admin/keys/k1", "PUT, DELETE, OPTIONS"),
        ("OTHER", "/v1/models", "GET, OPTIONS"),
    ],
)
def test_a_method_a_route_does_not_have_is_told_with_those_it_has(
    method: str, path: str, allow: str
) -> None:
    response = run(Edge.with_store().ask(None, method=method, path=path))
    failed(response, 405, "method_not_allowed")
    assert allow == response.headers["allow"]


def test_options_tells_the_methods_of_a_route() -> None:
    response = run(Edge.with_store().ask(None, method="OPTIONS", path="/v1/models", key=None))
    assert (204, b"", "GET, OPTIONS") == (response.status, response.body, response.headers["allow"])
    failed(run(Edge().ask(None, method="OPTIONS", path="/x", key=None)), 404, "not_found")


# Authentication.


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models", "/admin/keys"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"authorization": "Bearer nf_canary.canary"},
        {"authorization": f"Bearer {make_key(secret=SECRET + 'x')}"},
        {"authorization": f"Bearer {make_key(expires_at=int(WALL_S))}"},
        {"authorization": f"Basic {make_key()}"},
        {"authorization": make_key()},
        {"x-api-key": make_key()},
        {"authorization": "Bearer nf_\xff.\xff"},
    ],
)
def test_without_a_valid_key_nobody_gets_in(path: str, headers: dict[str, str]) -> None:
    edge = Edge.with_store()
    method = "POST" if "chat" in path else "GET"
    response = run(edge.ask(chat(), method=method, path=path, key=None, headers=headers))
    error = failed(response, 401, "invalid_api_key")
    assert 'Bearer realm="nearfar"' == response.headers["www-authenticate"]
    assert "canary" not in error["message"]
    assert not edge.upstream.calls
    assert edge.store is not None
    assert not edge.store.batches


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR"])
def test_the_scheme_has_no_case(scheme: str) -> None:
    headers = {"authorization": f"{scheme}  {make_key()} "}
    assert 200 == run(Edge.with_store().ask(chat(), key=None, headers=headers)).status


def test_a_key_of_the_previous_secret_works_during_rotation() -> None:
    edge = Edge(settings=make_settings(key_secret="n" * 32, key_secret_previous=SECRET))
    assert 200 == run(edge.ask(chat())).status


def test_a_key_is_refused_before_its_body_is_read() -> None:
    exchange = Edge.with_store().exchange(chat(), key="nf_a.b")
    exchange.inbound = Unreadable(headers=exchange.inbound.headers)
    assert 401 == run(flow.handle(exchange)).status


@pytest.mark.parametrize("permissions", [(), ("trace",), ("admin",), ("admin", "trace")])
def test_a_key_without_the_permission_chat_neither_chats_nor_lists(
    permissions: tuple[str, ...],
) -> None:
    edge, key = Edge.with_store(), make_key(permissions)
    failed(run(edge.ask(chat(), key=key)), 403, "permission_denied")
    failed(run(edge.get("/v1/models", key=key)), 403, "permission_denied")
    assert not edge.upstream.calls


def test_a_record_comes_only_with_permission() -> None:
    edge = Edge.with_store()
    failed(run(edge.ask(chat(), headers=TRACE)), 403, "permission_denied")
    assert b"nearfar" not in run(edge.ask(chat(), key=TRACER)).body
    assert "nearfar" in run(edge.ask(chat(), key=TRACER, headers=TRACE)).json()
    other = {"x-nearfar-trace": "0"}
    assert b"nearfar" not in run(edge.ask(chat(), headers=other)).body


@pytest.mark.parametrize("headers", [{}, {"cache-control": "no-store"}])
def test_a_revoked_key_is_turned_away_at_once_on_a_new_instance(headers: dict[str, str]) -> None:
    edge = Edge.with_store()
    assert edge.store is not None
    edge.store.put("nf:1:revoked", json.dumps({"k1": WALL_S - 1}).encode())
    failed(run(edge.ask(chat(), headers=headers)), 401, "invalid_api_key")
    failed(run(edge.beside().get("/v1/models")), 401, "invalid_api_key")
    assert 200 == run(edge.ask(chat(), key=make_key(key_id="k2"))).status


def test_a_key_that_is_revoked_later_works_until_then() -> None:
    edge = Edge.with_store()
    assert edge.store is not None
    edge.store.put("nf:1:revoked", json.dumps({"k1": WALL_S + 10}).encode())
    assert 200 == run(edge.ask(chat())).status
    edge.clock.advance(10_000)
    failed(run(edge.ask(chat())), 401, "invalid_api_key")


def test_a_revocation_is_known_within_a_minute_on_an_instance_that_goes_on() -> None:
    edge = Edge.with_store()
    assert edge.store is not None
    assert 200 == run(edge.ask(chat())).status
    edge.store.put("nf:1:revoked", json.dumps({"k1": WALL_S}).encode())
    edge.clock.advance(60_000)
    failed(run(edge.ask(chat())), 401, "invalid_api_key")


@pytest.mark.parametrize("value", [b"", b"canary", b"[]", b'{"k1":"x"}', b"\xff", b"[" * 100_000])
def test_a_list_of_revocations_that_is_none_turns_nobody_away(value: bytes) -> None:
    edge = Edge.with_store()
    assert edge.store is not None
    edge.store.put("nf:1:revoked", value)
    assert 200 == run(edge.ask(chat())).status


# The request.


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"model":"small","messages":[]}'])
def test_a_wrong_body_is_a_bad_request(body: bytes) -> None:
    failed(run(Edge.with_store().ask(body)), 400, "invalid_request")


def test_a_body_that_is_too_large_is_refused() -> None:
    edge = Edge(settings=make_settings(max_body_bytes="1000"))
    failed(run(edge.ask(chat("x" * 1_000))), 413, "request_too_large")


@pytest.mark.parametrize(
    ("model", "key"), [("nothing", make_key()), ("small", make_key(models=("other",)))]
)
def test_a_model_that_is_not_there_looks_like_one_that_is_not_allowed(model: str, key: str) -> None:
    error = failed(run(Edge.with_store().ask(chat(model=model), key=key)), 404, "model_not_found")
    assert "model" == error["param"]
    assert "There is no such model for this key; GET /v1/models lists them." == error["message"]


def test_the_models_are_those_of_the_key() -> None:
    edge = Edge.with_store()
    listed = run(edge.get("/v1/models")).json()
    assert ("list", ["small", "other"]) == (listed["object"], [m["id"] for m in listed["data"]])
    one = run(edge.get("/v1/models", key=make_key(models=("other", "gone")))).json()
    assert ["other"] == [model["id"] for model in one["data"]]


def test_what_cannot_fit_is_refused_here() -> None:
    edge = Edge.with_store()
    failed(run(edge.ask(chat("x" * 20_000))), 400, "context_length_exceeded")
    assert not edge.upstream.calls


# What goes to the model server.


def test_only_what_is_allowed_goes_upstream() -> None:
    edge = Edge.with_store()
    hostile = [
        ("connection", "x-custom"), ("x-custom", "canary"), ("te", "trailers"),
        ("cookie", "canary"),
        ("proxy-authorization", "canary"), ("x-api-key", "canary"), ("x-request-id", "canary"),
        ("host", "canary"), ("x-forwarded-for", "canary"), ("accept-encoding", "gzip"),
    ]  # fmt: skip
    run(edge.ask(chat(), headers=hostile))
    (call,) = edge.upstream.calls
    sent = dict(call.headers)
    assert len(sent) == len(call.headers)
    assert b"canary" not in b"".join(sent.values())
    assert b"Bearer upstream-key" == sent["authorization"]
    assert make_key().encode() not in b"".join(sent.values())
    assert str(len(call.body)).encode() == sent["content-length"]
    assert ("http", "gpu.test:8000", "/v1/chat/completions") == (
        call.scheme, call.authority, call.path,
    )  # fmt: skip


def test_an_upstream_without_a_key_gets_none() -> None:
    edge = Edge(settings=make_settings(upstream_keys="{}"))
    run(edge.ask(chat()))
    assert "authorization" not in dict(edge.upstream.calls[0].headers)


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ([PARENT], True),
        ([PARENT.replace("-00", "-01")], True),
        ([PARENT, PARENT], False),
        ([PARENT.upper()], False),
        (["00-" + "0" * 32 + "-b7ad6b7169203331-01"], False),
        ([], False),
    ],
)
def test_a_trace_goes_on_with_the_edge_as_the_parent(values: list[str], kept: bool) -> None:
    edge = Edge.with_store()
    response = run(edge.ask(chat(), headers=[("traceparent", value) for value in values]))
    sent = dict(edge.upstream.calls[0].headers)["traceparent"].decode()
    assert kept is (sent[3:35] == PARENT[3:35])
    assert sent[36:52] != PARENT[36:52]
    assert (sent[-2:] == values[0][-2:]) if kept else sent.endswith("-01")
    assert response.log is not None
    assert sent[3:35] == response.log["trace_id"]


def test_the_request_is_assembled_with_the_servers_name_and_the_operators_cap() -> None:
    edge = Edge.with_store(template="brief@1", max_tokens="77")
    run(edge.ask(chat("q", x_new={"a": [1]}, n53=2**53 + 1)))
    sent = edge.upstream.sent()
    assert ("served-small", 77, True) == (sent["model"], sent["max_tokens"], sent["stream"])
    assert {"include_usage": True} == sent["stream_options"]
    assert ({"a": [1]}, 2**53 + 1) == (sent["x_new"], sent["n53"])
    assert ["system", "user"] == [message["role"] for message in sent["messages"]]


# The cache.


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_a_hit_equals_the_miss_whichever_way_each_was_asked(first: bool, second: bool) -> None:
    edge = Edge.with_store()
    options: dict[str, Any] = {"stream_options": {"include_usage": True}}
    run(edge.ask(chat(stream=first)))
    edge.clock.advance(5_000)
    hit = run(edge.ask(chat(stream=second, **(options if second else {}))))
    assert ("hit", "5") == (hit.headers["x-cache"], hit.headers["age"])
    assert 1 == len(edge.upstream.calls)
    if second:
        assert "Hello there" == hit.text()
        assert "stop" in [c["choices"][0]["finish_reason"] for c in hit.chunks()[:-1]]
        assert USAGE == hit.chunks()[-1]["usage"]
        assert hit.body.endswith(DONE)
    else:
        assert "Hello there" == hit.json()["choices"][0]["message"]["content"]
        assert USAGE == hit.json()["usage"]


def test_a_hit_asks_the_near_store_once_and_nothing_far() -> None:
    edge = Edge.with_store()
    run(edge.ask(chat()))
    hit = run(edge.ask(chat())).log
    assert hit is not None
    assert {"near": 1, "far": 0, "upkeep": 0} == hit["trips"]


def test_a_miss_asks_the_near_store_once_before_its_one_far_call() -> None:
    edge = Edge.with_store()
    assert edge.store is not None
    miss = run(edge.ask(chat())).log
    assert miss is not None
    assert {"near": 1, "far": 1, "upkeep": 1} == miss["trips"]
    assert [True, False] == [isinstance(batch[0], Get) for batch in edge.store.batches]


def test_a_streamed_hit_tells_its_usage_only_when_asked() -> None:
    edge = Edge.with_store()
    run(edge.ask(chat()))
    hit = run(edge.ask(chat(stream=True)))
    assert b"usage" not in hit.body
    assert "hit" == hit.headers["x-cache"]


@pytest.mark.parametrize(
    ("state", "fields", "headers"),
    [
        ("bypass", {"temperature": 1}, {}),
        ("miss", {"temperature": 1}, {"x-nearfar-cache": "use"}),
        ("bypass", {}, {"cache-control": "no-store"}),
        ("bypass", {}, {"cache-control": "no-cache"}),
        ("miss", {"seed": 5, "temperature": 1}, {}),
    ],
)
def test_x_cache_says_whether_the_cache_was_asked(
    state: str, fields: dict[str, Any], headers: dict[str, str]
) -> None:
    response = run(Edge.with_store().ask(chat(**fields), headers=headers))
    assert state == response.headers["x-cache"]


def test_no_store_keeps_nothing_and_no_cache_keeps_anew() -> None:
    edge = Edge.with_store()
    run(edge.ask(chat(), headers={"cache-control": "no-store"}))
    assert edge.store is not None
    assert not [key for key in edge.store.names() if "answer" in key]
    run(edge.ask(chat()))
    edge.upstream.enqueue(Scripted(stream("New")))
    assert "New" == run(edge.ask(chat(stream=True), headers={"cache-control": "no-cache"})).text()
    assert "New" == run(edge.ask(chat(stream=True))).text()


def test_a_cache_control_in_two_lines_is_obeyed() -> None:
    lines = [("cache-control", "max-age=0"), ("cache-control", "no-store")]
    assert "bypass" == run(Edge.with_store().ask(chat(), headers=lines)).headers["x-cache"]


def test_another_tenant_is_answered_apart() -> None:
    edge = Edge.with_store()
    run(edge.ask(chat()))
    other = run(edge.ask(chat(), key=make_key(tenant="other", key_id="k2")))
    assert ("miss", 2) == (other.headers["x-cache"], len(edge.upstream.calls))
    assert "hit" == run(edge.ask(chat(), key=make_key(key_id="k3"))).headers["x-cache"]


INCOMPLETE: dict[str, list[Any]] = {
    "an error frame and then the end": [
        *stream("x")[:2], b'data: {"error":{"message":"m","code":500}}\n\n', DONE
    ],
    "an unfinished choice": [chunk({"content": "x"}), DONE],
    "a choice that was given up": [chunk({"content": "x"}), chunk({}, "abort"), DONE],
    "no end": stream("x")[:-1],
    "a break after the end": [*stream("x"), UpstreamBroke("made up")],
    "nothing": [],
}  # fmt: skip


@pytest.mark.parametrize("what", INCOMPLETE)
@pytest.mark.parametrize("streamed", [False, True])
def test_only_a_complete_answer_is_kept(what: str, streamed: bool) -> None:
    edge = Edge.with_store()
    edge.upstream.enqueue(Scripted(INCOMPLETE[what]))
    run(edge.ask(chat(stream=streamed)))
    assert edge.store is not None
    assert [] == [key for key in edge.store.names() if "answer" in key or "lease" in key]
    assert "miss" == run(edge.ask(chat())).headers["x-cache"]


def test_an_answer_that_is_too_large_is_given_and_not_kept() -> None:
    edge = Edge.with_store(cache_max_bytes="2000")
    edge.upstream.usual = Scripted(stream("x" * 2_000))
    assert "x" * 2_000 == run(edge.ask(chat(stream=True))).text()
    assert "miss" == run(edge.ask(chat())).headers["x-cache"]


def test_an_answer_expires() -> None:
    edge = Edge.with_store(cache_ttl_s="60")
    run(edge.ask(chat()))
    edge.clock.advance(59_000)
    assert "hit" == run(edge.ask(chat())).headers["x-cache"]
    edge.clock.advance(2_000)
    assert "miss" == run(edge.ask(chat())).headers["x-cache"]


@pytest.mark.parametrize("value", [b"", b"garbage", b"nf1", b"nf1" + b"\xff" * 40])
def test_a_malformed_entry_is_a_miss_and_is_replaced(value: bytes) -> None:
    edge = Edge.with_store()
    assert edge.store is not None
    run(edge.ask(chat()))
    (name,) = [key for key in edge.store.names() if "answer" in key]
    edge.store.put(name, value)
    assert (200, "miss") == (
        (response := run(edge.ask(chat()))).status, response.headers["x-cache"],
    )  # fmt: skip
    assert "hit" == run(edge.ask(chat())).headers["x-cache"]


# The store fails.


def test_a_store_that_is_down_is_a_miss() -> None:
    edge = Edge.with_store()
    assert edge.store is not None
    edge.store.down = True
    for streamed in (False, True):
        response = run(edge.ask(chat(stream=streamed)))
        assert (200, "miss") == (response.status, response.headers["x-cache"])
    assert 2 == len(edge.upstream.calls)


def test_an_edge_without_a_store_answers() -> None:
    response = run(Edge().ask(chat(stream=True)))
    assert (200, "bypass", "Hello there") == (
        response.status, response.headers["x-cache"], response.text(),
    )  # fmt: skip


def test_a_slow_store_delays_one_request_by_its_time_out_and_the_next_not_at_all() -> None:
    edge = Edge.with_store()
    assert edge.store is not None
    edge.store.delay_ms, edge.store.timeout_ms = 10_000.0, 50.0
    first, second = run(edge.ask(chat())).log, run(edge.ask(chat("other"))).log
    assert first is not None
    assert second is not None
    assert 50.0 == first["stages"]["look_up"]
    assert 0.0 == second["stages"]["look_up"]
    assert 1 == len(edge.store.batches)


def test_a_store_that_comes_back_is_used_again() -> None:
    edge = Edge.with_store()
    assert edge.store is not None
    edge.store.down = True
    run(edge.ask(chat()))
    edge.store.down = False
    edge.clock.advance(STORE_PAUSE_MS + 1)
    run(edge.ask(chat()))
    assert "hit" == run(edge.ask(chat())).headers["x-cache"]


@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_that_cannot_be_kept_is_given_all_the_same(streamed: bool) -> None:
    edge = Edge.with_store()
    assert edge.store is not None
    edge.store.refused = (Put,)
    response = run(edge.ask(chat(stream=streamed)))
    assert 200 == response.status
    assert b"Hello" in response.body


# The model server fails before its head has come.


@pytest.mark.parametrize(
    ("status", "code", "answer"),
    [
        (502, "upstream_unreachable", UpstreamUnreachable("away")),
        (504, "upstream_timeout", UpstreamTimeout("late")),
        (502, "upstream_error", Scripted([b'{"error":{"message":"canary"}}'], status=401)),
        (502, "upstream_error", Scripted([b'{"error":{"message":"canary"}}'], status=403)),
        (502, "upstream_error", Scripted([b"canary"], status=404)),
        (502, "upstream_error", Scripted([b"canary"], status=500)),
        (502, "upstream_error", Scripted([b"canary"], status=502)),
        (502, "upstream_error", Scripted([b"canary"], status=301)),
        (502, "upstream_error", Scripted([b"canary"], status=201)),
        (504, "upstream_timeout", Scripted([b"canary"], status=504)),
        (504, "upstream_timeout", Scripted([b"canary"], status=408)),
        (503, "upstream_busy", Scripted([b"canary"], status=503)),
        (429, "upstream_busy", Scripted([b"canary"], status=429)),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_failure_of_the_server_is_told_in_our_words(
    status: int, code: str, answer: Scripted | UpstreamError, streamed: bool
) -> None:
    edge = Edge.with_store()
    edge.upstream.enqueue(answer)
    response = run(edge.ask(chat(stream=streamed)))
    error = failed(response, status, code)
    assert "canary" not in json.dumps([error, dict(response.headers), edge.logs])
    assert "www-authenticate" not in response.headers
    assert all(source.closed for source in edge.upstream.sources)
    assert edge.store is not None
    assert [] == edge.store.names()


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_requests_own_fault_is_passed_on(status: int) -> None:
    body = json.dumps({"error": {"message": "top_k must be -1 or more", "code": status}}).encode()
    error = failed(refused_with(Scripted([body], status=status)), status, "upstream_rejected")
    assert ("top_k must be -1 or more", "invalid_request_error") == (
        error["message"],
        error["type"],
    )


@pytest.mark.parametrize(
    "body",
    [
        b"", b"no json", b"{}", b'{"error":5}', b'{"error":{"message":5}}', b"[" * 70_000, b"\xff",
        b"x" * 200_000, b"[]",
    ],
)  # fmt: skip
def test_a_fault_without_a_message_gets_ours(body: bytes) -> None:
    error = failed(refused_with(Scripted([body], status=400)), 400, "upstream_rejected")
    assert "The model server refused the request." == error["message"]


def test_a_fault_whose_body_breaks_off_gets_our_message() -> None:
    answer = Scripted([b'{"error":', UpstreamBroke("away")], status=400)
    failed(refused_with(answer), 400, "upstream_rejected")


@pytest.mark.parametrize("before", ["", "x" * 493, "x" * 5_000])
def test_a_message_that_repeats_the_edges_own_key_is_not_passed_on(before: str) -> None:
    """Not even the part of the key that stands before the place where long texts are cut."""
    body = json.dumps({"error": {"message": before + " upstream-key"}}).encode()
    error = failed(refused_with(Scripted([body], status=400)), 400, "upstream_rejected")
    assert "The model server refused the request." == error["message"]


def test_a_long_message_is_cut() -> None:
    body = json.dumps({"error": {"message": "x" * 5_000}}).encode()
    assert 500 == len(refused_with(Scripted([body], status=400)).error["message"])


def test_a_context_that_the_server_finds_too_long_is_told_as_such() -> None:
    message = "This model's maximum context length is 2048 tokens. However, you requested 3000."
    body = json.dumps({"error": {"message": message}}).encode()
    answer = Scripted([body], status=400)
    assert message == failed(refused_with(answer), 400, "context_length_exceeded")["message"]


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("seconds", "value"),
    [
        ("7", b"7"),
        ("1", b"0"),
        ("1", b""),
        ("1", b"soon"),
        ("1", b"-5"),
        ("86400", b"9" * 5_000),
        ("86400", b"0000000000000009"),
        ("12", formatdate(WALL_S + 12, usegmt=True).encode()),
        ("1", formatdate(WALL_S - 12, usegmt=True).encode()),
        ("12", formatdate(WALL_S + 12, usegmt=True).replace("GMT", "-0000").encode()),
        ("1", b"Mon, 99 Nov 99999 99:99:99 GMT"),
        ("1", b"\xff\xfe"),
    ],
)
def test_a_full_server_says_when_to_try_again_in_whole_seconds(
    status: int, seconds: str, value: bytes
) -> None:
    answer = Scripted([b"full"], status=status, headers=(("retry-after", value),))
    response = refused_with(answer)
    failed(response, status, "upstream_busy")
    assert seconds == response.headers["retry-after"]


def test_a_full_server_that_says_nothing_is_tried_again_after_a_second() -> None:
    assert "1" == refused_with(Scripted([b""], status=429)).headers["retry-after"]


# It fails afterwards.

BREAKS: dict[str, list[Any]] = {
    "broken off": [*stream("Hello")[:2], UpstreamBroke("The model server broke off.")],
    "ended without its end": stream("Hello")[:2],
    "an error frame": [*stream("Hello")[:2], b'data: {"error":{"message":"canary"}}\n\n', DONE],
    "an error frame in the same read": [
        b"".join([*stream("Hello")[:2], b'data: {"error":{"message":"canary"}}\n\n', DONE])
    ],
    "no JSON": [*stream("Hello")[:2], b"data: canary\n\n"],
}


@pytest.mark.parametrize("what", BREAKS)
def test_a_stream_that_breaks_off_ends_in_an_error_event_and_no_done(what: str) -> None:
    edge = Edge.with_store()
    edge.upstream.enqueue(Scripted(BREAKS[what]))
    response = run(edge.ask(chat(stream=True)))
    assert 200 == response.status
    *events, last = response.payloads()
    assert "upstream_broke" == json.loads(last)["error"]["code"]
    assert "Hello" == "".join(json.loads(e)["choices"][0]["delta"]["content"] for e in events)
    assert b"[DONE]" not in response.body
    assert b"canary" not in response.body
    assert response.log is not None
    assert ("upstream_broke", 200) == (response.log["error"], response.log["status"])
    assert edge.upstream.sources[0].closed


@pytest.mark.parametrize("what", BREAKS)
def test_one_body_that_breaks_off_early_is_a_502(what: str) -> None:
    edge = Edge.with_store()
    edge.upstream.enqueue(Scripted(BREAKS[what]))
    response = run(edge.ask(chat()))
    failed(response, 502, "upstream_broke")
    assert b"canary" not in response.body
    assert edge.upstream.sources[0].closed


def test_a_silence_that_is_too_long_is_a_timeout() -> None:
    answer = Scripted([*stream("Hello")[:2], UpstreamTimeout("late")])
    response = refused_with(answer, stream=True)
    assert "upstream_timeout" == json.loads(response.payloads()[-1])["error"]["code"]
    failed(refused_with(answer), 504, "upstream_timeout")


def test_a_slow_body_gets_its_head_early_and_then_cannot_fail_by_status() -> None:
    edge = Edge.with_store()
    edge.upstream.enqueue(Scripted([*stream("Hello")[:2], Wait(800), UpstreamBroke("away")]))
    response = run(edge.ask(chat()))
    assert 200 == response.status
    assert "upstream_broke" == response.error["code"]
    assert response.sink.aborted
    assert "content-length" not in response.headers
    assert response.log is not None
    assert "upstream_broke" == response.log["error"]


def test_a_slow_body_comes_whole_behind_its_early_head() -> None:
    edge = Edge.with_store()
    events = stream("Hello")
    edge.upstream.enqueue(Scripted([*events[:2], Wait(800), *events[2:]]))
    response = run(edge.ask(chat()))
    assert "Hello" == response.json()["choices"][0]["message"]["content"]
    assert not response.sink.aborted
    assert "hit" == run(edge.ask(chat())).headers["x-cache"]


# The client goes away.


@pytest.mark.parametrize("streamed", [False, True])
def test_a_client_that_goes_away_ends_the_model_call_within_a_second(streamed: bool) -> None:
    edge = Edge.with_store()
    events = stream("Hello")
    edge.upstream.enqueue(Scripted([*events[:2], Wait(600), events[2], Wait(), *events[3:]]))
    sink = RecordingSink(edge.clock, leave_after=2 if streamed else 0)

    async def ask() -> tuple[Response, float]:
        response = await edge.ask(chat(stream=streamed), sink)
        return response, edge.clock.now_ms()

    response, ended_ms = run(ask())
    assert edge.upstream.sources[0].closed
    assert ended_ms - 5_000 < 600 + 1_000
    assert response.log is not None
    assert "client_gone" == response.log["error"]
    assert edge.store is not None
    assert [] == [key for key in edge.store.names() if "answer" in key or "lease" in key]


def test_a_client_that_goes_away_is_seen_while_the_server_says_nothing() -> None:
    edge = Edge.with_store()
    edge.upstream.enqueue(Scripted([*stream("Hello")[:2], Wait()]))
    sink = RecordingSink(edge.clock, leave_after=2)
    run(edge.ask(chat(stream=True), sink))
    assert edge.upstream.sources[0].closed


# The record.


def test_the_record_of_a_stream_comes_in_one_chunk_before_its_end() -> None:
    edge = Edge.with_store()
    edge.upstream.usual = Scripted(stream("Hello", metrics=METRICS), head_ms=40)
    response = run(edge.ask(chat(stream=True), key=TRACER, headers=TRACE))
    last = response.chunks()[-1]
    assert ([], "chatcmpl-1", "served-small") == (last["choices"], last["id"], last["model"])
    assert b"[DONE]" == response.payloads()[-1]
    record = last["nearfar"]
    assert response.headers["x-request-id"] == record["request_id"]
    assert 40.0 == record["derived"]["model_call_first_content_latency"]
    assert METRICS == record["engine"]
    assert {"input": 5, "output": 2} == record["tokens"]


def test_the_record_of_one_body_is_its_last_field() -> None:
    response = run(Edge.with_store().ask(chat(), key=TRACER, headers=TRACE))
    body = response.json()
    assert "nearfar" == list(body)[-1]
    assert ("miss", 200) == (body["nearfar"]["cache"], body["nearfar"]["status"])
    assert response.log is not None
    assert body["nearfar"]["stages"] == response.log["stages"]


@pytest.mark.parametrize("streamed", [False, True])
def test_the_record_of_a_hit_says_that_nobody_was_asked(streamed: bool) -> None:
    edge = Edge.with_store()
    run(edge.ask(chat()))
    response = run(edge.ask(chat(stream=streamed), key=TRACER, headers=TRACE))
    record = response.chunks()[-1]["nearfar"] if streamed else response.json()["nearfar"]
    assert ("hit", None, {"near": 1, "far": 0, "upkeep": 0}) == (
        record["cache"], record["engine"], record["trips"],
    )  # fmt: skip
    assert "the model server was not asked" == record["not_available"]["engine"]
    assert {"input": 5, "output": 2} == record["tokens"]


def test_a_record_names_what_the_request_met() -> None:
    edge = Edge.with_store(region="eu", environment="test", categories="a,b")
    log = run(edge.ask(chat(), headers={"x-nearfar-category": "b"})).log
    assert log is not None
    expected = {
        "environment": "test", "region": "eu", "instance": "cold", "route_table": "7",
        "route": "gpu", "model": "small", "model_revision": "r1", "category": "b",
        "streamed": False, "tenant": "acme", "error": None, "status": 200,
    }  # fmt: skip
    assert expected == {name: log[name] for name in expected}
    assert log["template_version"].startswith("plain@1+")
    assert edge.settings.fingerprint == log["settings_hash"]
    warm = run(edge.ask(chat(), headers={"x-nearfar-category": "made up"})).log
    assert warm is not None
    assert ("warm", None) == (warm["instance"], warm["category"])


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("where", ["store", "first content", "between chunks"])
def test_a_delay_appears_in_its_own_stage_and_nowhere_else(where: str, streamed: bool) -> None:
    edge = Edge.with_store()
    assert edge.store is not None
    events = stream("Hello", " there")
    if where == "store":
        edge.store.delay_ms = 30.0
    if where == "first content":
        edge.upstream.usual = Scripted([events[0], Wait(30), *events[1:]])
    if where == "between chunks":
        edge.upstream.usual = Scripted([*events[:2], Wait(30), *events[2:]])
    log = run(edge.ask(chat(stream=streamed))).log
    assert log is not None
    last = "stream" if streamed else "collect"
    stage = {"store": "look_up", "first content": "model_call", "between chunks": last}[where]
    assert {stage: 30.0} == {name: ms for name, ms in log["stages"].items() if ms}


def test_a_refused_request_has_an_account_of_the_time_it_took() -> None:
    edge = Edge.with_store()
    edge.upstream.enqueue(Scripted([b""], status=500, head_ms=700))
    log = run(edge.ask(chat())).log
    assert log is not None
    assert 700.0 == log["stages"]["model_call"]
    assert log["edge"]["t4"] is None


def test_a_fault_that_the_server_found_took_its_time_there() -> None:
    edge = Edge.with_store()
    body = b'{"error":{"message":"maximum context length is 5"}}'
    edge.upstream.enqueue(Scripted([body], status=400, head_ms=70))
    log = run(edge.ask(chat())).log
    assert log is not None
    assert ("context_length_exceeded", 70.0) == (log["error"], log["stages"]["model_call"])


def test_no_prompt_answer_or_key_stands_in_the_log() -> None:
    edge = Edge.with_store()
    edge.upstream.usual = Scripted(stream("canary-answer"))
    run(edge.ask(chat("canary-question", stream=True)))
    run(edge.ask(chat("canary-question"), key="nf_canary.key"))
    run(edge.ask(b'{"canary": '))
    text = "\n".join(edge.logs)
    assert 3 == len(edge.logs)
    assert "canary" not in text
    assert make_key() not in text


def test_an_error_of_ours_is_told_wherever_it_comes_from() -> None:
    """What an adapter may raise on the way in."""
    exchange = Edge.with_store().exchange(chat())
    exchange.inbound = Unreadable(headers=exchange.inbound.headers)
    assert 500 == run(flow.handle(exchange)).status


def test_requests_of_one_instance_do_not_touch_each_other() -> None:
    """Fifty slow streams of two tenants interleaved, some of them failing."""
    edge = Edge.with_store()
    count = 50

    def answer(number: int) -> Scripted:
        events = stream(f"answer-{number}.", f"again-{number}.")
        end = [UpstreamBroke("away")] if number % 7 == 3 else events[3:]
        return Scripted([*events[:2], Wait(37 + number % 5), events[2], Wait(41), *end])

    async def scene() -> list[Response]:
        edge.upstream.enqueue(*map(answer, range(count)))
        keys = [make_key(tenant=name, key_id=name) for name in ("one", "two")]
        works = [
            edge.ask(
                chat(f"question-{number}.", stream=True, temperature=1),
                key=keys[number % 2],
                headers={"traceparent": f"00-{number + 1:032x}-{1:016x}-01"},
            )
            for number in range(count)
        ]
        return list(await asyncio.gather(*works))

    responses = run(scene())
    names = [response.headers["x-request-id"] for response in responses]
    assert count == len(set(names))
    for number, response in enumerate(responses):
        assert f"answer-{number}.again-{number}." == response.text()
        assert (number % 7 == 3) is (b"[DONE]" not in response.body)
        fields, head = edge.upstream.sent(number), dict(edge.upstream.calls[number].headers)
        assert f"question-{number}." == fields["messages"][0]["content"]
        assert f"00-{number + 1:032x}-" in head["traceparent"].decode()
    logs = {log["request_id"]: log for log in map(json.loads, edge.logs)}
    for number, name in enumerate(names):
        expected = (("one", "two")[number % 2], f"{number + 1:032x}")
        assert expected == (logs[name]["tenant"], logs[name]["trace_id"])
    assert 200 == run(edge.ask(chat())).status
