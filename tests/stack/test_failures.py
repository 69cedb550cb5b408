"""What goes wrong between the edge and the upstream, and what the client is told of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from fakes.script import End, Framing, Script
from fakes.upstream import UpstreamThread
from stack.answers import DONE, events
from stack.caller import Caller
from stack.calls import Calls
from stack.edges import UPSTREAM_KEY, Edge, Edges, settings
from stack.stores import RedisServer
from stack.streams import leaver

TESTS = Path(__file__).parents[1]
GENERIC = {"message", "type", "param", "code"}


def error_of(answer: httpx.Response) -> dict[str, str]:
    """The OpenAI error object, after a look at everything that may not be in it."""
    assert "application/json" == answer.headers["content-type"]
    everything = answer.text + repr(answer.headers.raw)
    for leak in (UPSTREAM_KEY, "127.0.0.1", "no-such-host", "Traceback", "ErrorCode", "uvicorn"):
        assert leak not in everything
    error: dict[str, str] = answer.json()["error"]
    assert GENERIC == set(error)
    return error


@pytest.mark.fault(17)
@pytest.mark.parametrize("streamed", [False, True])
class TestUnreachable:
    @pytest.mark.parametrize("model", ["closed", "nowhere"])
    def test_a_server_that_is_not_there_is_a_502(
        self, edge: Edge, caller: Caller, model: str, *, streamed: bool
    ) -> None:
        answer = caller.post(edge, caller.body(stream=streamed) | {"model": model})
        assert 502 == answer.status_code
        assert "upstream_unreachable" == error_of(answer)["code"]

    @pytest.mark.parametrize("reuse_count", [None, 1], ids=["warm", "fresh"])
    def test_a_server_that_does_not_begin_is_a_504(
        self,
        own_edges: Edges,
        upstream: UpstreamThread,
        store: RedisServer,
        caller: Caller,
        calls: Calls,
        reuse_count: int | None,
        *,
        streamed: bool,
    ) -> None:
        wanted = settings({"mock": upstream.url}, store.url, first_byte_timeout_ms=300)
        edge = own_edges.start(wanted, reuse_count=reuse_count)
        calls.answer(Script(head_ms=5000))
        began = time.monotonic()
        answer = caller.post(edge, caller.body(stream=streamed))
        assert time.monotonic() - began < 2
        assert 504 == answer.status_code
        assert "upstream_timeout" == error_of(answer)["code"]
        calls.answer(Script())
        assert 200 == caller.post(edge, caller.body()).status_code

    def test_a_server_that_closes_instead_of_answering_is_a_502(
        self, edge: Edge, caller: Caller, calls: Calls, *, streamed: bool
    ) -> None:
        ends: tuple[End, ...] = ("fin", "rst")
        for end in ends:
            calls.answer(Script(end=end, end_before_head=True))
            answer = caller.post(edge, caller.body(end, stream=streamed))
            assert 502 == answer.status_code
            assert error_of(answer)["code"].startswith("upstream_")


@pytest.mark.fault(17)
@pytest.mark.parametrize(
    ("status", "told"),
    [
        (401, 502),
        (403, 502),
        (404, 502),
        (500, 502),
        (502, 502),
        (503, 503),
        (504, 504),
        (408, 504),
    ],
)
def test_an_upstreams_status_never_looks_like_the_clients(
    edge: Edge, caller: Caller, calls: Calls, status: int, told: int
) -> None:
    calls.answer(Script(status=status, echo_key=True))
    answer = caller.post(edge, caller.body())
    assert told == answer.status_code
    assert "Incorrect key" not in error_of(answer)["message"]
    assert "www-authenticate" not in answer.headers
    assert (status == 503) == ("retry-after" in answer.headers)


@pytest.mark.fault(17)
def test_even_a_refusal_that_is_passed_on_holds_no_key(
    edge: Edge, caller: Caller, calls: Calls
) -> None:
    calls.answer(Script(status=400, echo_key=True))
    answer = caller.post(edge, caller.body())
    assert 400 == answer.status_code
    error_of(answer)


@pytest.mark.fault(17)
def test_no_log_line_holds_a_key_or_a_prompt(edge: Edge, caller: Caller, calls: Calls) -> None:
    wrong = caller.other(secret="another-secret-of-forty-characters-000000")
    requests = [
        wrong.post(edge, caller.body()),
        caller.post(edge, b'{"model": "' + caller.marker.encode() + b'"'),
        caller.post(edge, caller.body() | {"model": caller.marker}),
        caller.get(edge, f"/{caller.marker}"),
        caller.post(edge, caller.body(), traceparent=caller.marker, x_custom=caller.marker),
    ]
    for status in (400, 401, 500):
        calls.answer(Script(status=status, echo_key=True))
        requests.append(caller.post(edge, caller.body(stream=True)))
    calls.answer(Script(end="error", end_after=1))
    requests.append(caller.post(edge, caller.body(stream=True)))
    text = edge.log_text()
    for answer in requests:
        assert answer.headers["x-request-id"] in text
    for secret in (UPSTREAM_KEY, "nf_", caller.marker, wrong.key):
        assert secret not in text


class TestBrokenOff:
    """After the first byte a failure is an error event, never a made-up end."""

    @pytest.mark.parametrize("after", [1, 5])
    @pytest.mark.parametrize("mid_frame", [False, True])
    @pytest.mark.parametrize("framing", ["chunked", "close"])
    @pytest.mark.parametrize("end", ["fin", "rst"])
    def test_a_stream_ends_in_an_error_event(
        self,
        warm: Edge,
        caller: Caller,
        calls: Calls,
        end: End,
        framing: Framing,
        after: int,
        *,
        mid_frame: bool,
    ) -> None:
        calls.answer(
            Script(end=end, framing=framing, end_after=after, end_mid_frame=mid_frame, gap_ms=20)
        )
        answer = caller.post(warm, caller.body("a b c d e f g", stream=True))
        found = events(answer.content)
        assert DONE not in found
        assert "upstream_broke" == found[-1]["error"]["code"]
        assert after == sum(bool(e["choices"][0]["delta"].get("content")) for e in found[:-1])

    def test_it_does_so_on_a_fresh_instance(
        self, fresh: Edge, caller: Caller, calls: Calls
    ) -> None:
        calls.answer(Script(end="rst", end_after=3, gap_ms=20))
        found = events(caller.post(fresh, caller.body(stream=True)).content)
        assert (True, "upstream_broke") == (DONE not in found, found[-1]["error"]["code"])

    @pytest.mark.parametrize("end", ["no_done", "error"])
    def test_a_clean_close_without_an_end_is_no_end(
        self, edge: Edge, caller: Caller, calls: Calls, end: End
    ) -> None:
        calls.answer(Script(end=end))
        found = events(caller.post(edge, caller.body(stream=True)).content)
        assert (True, "upstream_broke") == (DONE not in found, found[-1]["error"]["code"])

    @pytest.mark.parametrize("end", ["fin", "rst", "no_done", "error"])
    def test_one_body_is_a_502_while_the_head_is_ours(
        self, edge: Edge, caller: Caller, calls: Calls, end: End
    ) -> None:
        calls.answer(Script(end=end, end_after=2))
        answer = caller.post(edge, caller.body())
        assert 502 == answer.status_code
        assert "upstream_broke" == error_of(answer)["code"]

    @pytest.mark.parametrize("end", ["rst", "error"])
    def test_one_body_whose_head_has_left_is_never_taken_for_an_answer(
        self, edge: Edge, caller: Caller, calls: Calls, end: End
    ) -> None:
        calls.answer(Script(end=end, end_after=3, gap_ms=400))
        try:
            document = caller.post(edge, caller.body()).json()
        except (httpx.HTTPError, json.JSONDecodeError):
            return  # the transfer was broken off
        assert "error" in document
        assert "choices" not in document

    def test_a_silent_upstream_is_ended_after_the_bound(
        self,
        own_edges: Edges,
        upstream: UpstreamThread,
        store: RedisServer,
        caller: Caller,
        calls: Calls,
    ) -> None:
        wanted = settings({"mock": upstream.url}, store.url, between_bytes_timeout_ms=400)
        edge = own_edges.start(wanted)
        calls.answer(Script(end="hang", end_after=2))
        began = time.monotonic()
        found = events(caller.post(edge, caller.body(stream=True)).content)
        assert time.monotonic() - began < 3
        assert "upstream_timeout" == found[-1]["error"]["code"]

    def test_an_upstream_that_is_killed_ends_in_an_error_event(
        self, own_edges: Edges, store: RedisServer, caller: Caller
    ) -> None:
        argv = [sys.executable, "-m", "fakes.upstream", "--api-key", UPSTREAM_KEY]
        argv += ["--chunks", "100", "--gap-ms", "50"]
        with subprocess.Popen(argv, cwd=TESTS, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                url = json.loads(process.stdout.readline())["url"]
                edge = own_edges.start(settings({"mock": url}, store.url))
                with leaver(edge, caller, caller.body(stream=True)) as client:
                    client.read_until(5, b'"content":"')
                    process.kill()
                    client.read_until(1, b"0\r\n\r\n")
            finally:
                process.kill()
        assert b'"code":"upstream_broke"' in client.received
        assert DONE.encode() not in client.received
        assert 502 == caller.post(edge, caller.body("next")).status_code


class TestHttp:
    def test_a_path_that_is_not_there_is_a_404(self, edge: Edge, caller: Caller) -> None:
        answer = caller.get(edge, "/v1/embeddings")
        assert (404, "not_found") == (answer.status_code, error_of(answer)["code"])

    @pytest.mark.parametrize(
        ("method", "path", "allow"),
        [
            ("GET", "/v1/chat/completions", {"POST", "OPTIONS"}),
            ("DELETE", "/v1/models", {"GET", "OPTIONS"}),
            ("POST", "/healthz", {"GET", "OPTIONS"}),
        ],
    )
    def test_a_method_that_is_not_there_is_a_405(
        self, warm: Edge, caller: Caller, method: str, path: str, allow: set[str]
    ) -> None:
        with httpx.Client(trust_env=False, headers=caller.headers()) as session:
            answer = session.request(method, warm.url + path)
        assert (405, "method_not_allowed") == (answer.status_code, error_of(answer)["code"])
        assert allow == set(answer.headers["allow"].split(", "))

    def test_options_names_the_methods_without_a_key(self, warm: Edge) -> None:
        with httpx.Client(trust_env=False) as session:
            answer = session.options(f"{warm.url}/v1/chat/completions")
        assert (204, {"POST", "OPTIONS"}) == (
            answer.status_code,
            set(answer.headers["allow"].split(", ")),
        )

    @pytest.mark.parametrize(
        "value", ["", "Bearer", "Basic x", "Bearer nf_", "Bearer nf_a.b", "Bearer sk-1"]
    )
    def test_what_is_no_key_is_a_401(self, warm: Edge, caller: Caller, value: str) -> None:
        with httpx.Client(trust_env=False) as session:
            answer = session.post(
                f"{warm.url}/v1/chat/completions",
                json=caller.body(),
                headers={"authorization": value} if value else {},
            )
        assert (401, "invalid_api_key") == (answer.status_code, error_of(answer)["code"])
        assert "Bearer" in answer.headers["www-authenticate"]

    def test_the_scheme_is_known_in_any_case(self, warm: Edge, caller: Caller) -> None:
        with httpx.Client(trust_env=False) as session:
            head = {"authorization": f"bEARER {caller.key}"}
            assert 200 == session.get(f"{warm.url}/v1/models", headers=head).status_code

    @pytest.mark.parametrize("chunked", [False, True])
    def test_a_body_above_the_limit_is_a_413(
        self, warm: Edge, caller: Caller, *, chunked: bool
    ) -> None:
        body = json.dumps(caller.body("x" * 1_100_000)).encode()
        with httpx.Client(trust_env=False, timeout=10) as session:
            content = iter([body[:5000], body[5000:]]) if chunked else body
            answer = session.post(
                f"{warm.url}/v1/chat/completions", content=content, headers=caller.headers()
            )
        assert (413, "request_too_large") == (answer.status_code, error_of(answer)["code"])

    def test_a_chunked_body_is_read_whole(self, edge: Edge, caller: Caller) -> None:
        body = json.dumps(caller.body("x " * 20_000)).encode()
        pieces = iter([body[:7], body[7:30_000], body[30_000:]])
        with httpx.Client(trust_env=False, timeout=10) as session:
            answer = session.post(
                f"{edge.url}/v1/chat/completions", content=pieces, headers=caller.headers()
            )
        assert 200 == answer.status_code
