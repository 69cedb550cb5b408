"""Requests that share an instance, a process or an upstream share nothing else."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from edge_frontend.headers import SENT_UPSTREAM
from fakes.script import Script
from stack.answers import DONE, assembled, events, record_of_stream
from stack.caller import CHAT, Caller
from stack.calls import Calls
from stack.edges import UPSTREAM_KEY, Edge

# The host's HTTP client adds the first of these itself.
HOST_ADDS = {"host", "transfer-encoding"}


@pytest.mark.fault(2)
class TestInterleaved:
    """Fifty slow streams of two keys at once, one of which fails in the middle."""

    async def test_no_word_key_or_trace_crosses(
        self, edge: Edge, caller: Caller, calls: Calls
    ) -> None:
        callers = (caller, Caller())
        marks = [f"{callers[i % 2].marker}-n{i:02}" for i in range(50)]
        calls.answer(Script(chunks=12, gap_ms=30, end="error", end_after=5), f"{marks[7]} ")
        for each in callers:
            calls.answer(Script(chunks=12, gap_ms=30), f"{each.marker}-")
        async with httpx.AsyncClient(trust_env=False, timeout=30) as session:
            bodies = await asyncio.gather(
                *(
                    self._ask(session, edge, callers[i % 2], mark, f"{i + 1:032x}")
                    for i, mark in enumerate(marks)
                )
            )
        for i, (mark, body) in enumerate(zip(marks, bodies, strict=True)):
            if i == 7:
                assert "upstream_broke" == events(body)[-1]["error"]["code"]
                assert DONE not in events(body)
            else:
                content = assembled(events(body))["choices"][0]["message"]["content"]
                assert f"{mark} slow " * 6 == content + " "
                assert f"{i + 1:032x}" == record_of_stream(body)["trace_id"]
            assert not [m for m in marks if m != mark and m.encode() in body]
        text = edge.log_text()
        assert not [m for m in marks if m in text], "a prompt stands in the log"
        assert UPSTREAM_KEY not in text
        assert "nf_" not in text

    async def test_later_requests_of_the_same_instances_succeed(
        self, edge: Edge, caller: Caller, calls: Calls
    ) -> None:
        calls.answer(Script(end="rst", end_after=2, gap_ms=5))
        async with httpx.AsyncClient(trust_env=False, timeout=30) as session:
            broken = await asyncio.gather(
                *(
                    self._ask(session, edge, caller, f"{caller.marker} {i}", "1" * 32)
                    for i in range(16)
                )
            )
            assert ["upstream_broke"] * 16 == [events(b)[-1]["error"]["code"] for b in broken]
            calls.answer(Script())
            well = await asyncio.gather(
                *(
                    self._ask(session, edge, caller, f"{caller.marker} {i}", "2" * 32)
                    for i in range(16)
                )
            )
        assert [DONE] * 16 == [events(body)[-1] for body in well]

    async def _ask(
        self, session: httpx.AsyncClient, edge: Edge, caller: Caller, mark: str, trace_id: str
    ) -> bytes:
        body = caller.body(stream=True) | {
            "messages": [{"role": "user", "content": f"{mark} slow"}]
        }
        trace = {"traceparent": f"00-{trace_id}-00000000000000aa-01", "x-nearfar-trace": "1"}
        answer = await session.post(edge.url + CHAT, json=body, headers=caller.headers() | trace)
        assert answer.status_code == 200
        return answer.content


@pytest.mark.fault(8)
def test_the_upstream_sees_only_allowed_headers(edge: Edge, caller: Caller, calls: Calls) -> None:
    sent = {
        "connection": "keep-alive, x-custom, te",
        "x-custom": "canary-custom",
        "te": "trailers",
        "proxy-authorization": "Basic canary-proxy",
        "x-api-key": "canary-api-key",
        "cookie": "session=canary-cookie",
        "forwarded": "for=192.0.2.1",
        "x-forwarded-for": "192.0.2.1",
        "x-real-ip": "192.0.2.1",
        "openai-organization": "canary-org",
        "x-request-id": "canary-request-id",
        "tracestate": "canary=1",
        "baggage": "canary=2",
    }
    answer = caller.post(edge, caller.body(), **{k.replace("-", "_"): v for k, v in sent.items()})
    assert 200 == answer.status_code
    seen = {name.lower(): value for name, value in calls.only.headers}
    without_a_gate = set(SENT_UPSTREAM) - {"x-nearfar-grant"}
    assert without_a_gate == set(seen) - HOST_ADDS
    assert f"Bearer {UPSTREAM_KEY}" == seen["authorization"]
    assert not [
        name for name, value in seen.items() if "canary-" in value and UPSTREAM_KEY not in value
    ]
    assert seen["x-request-id"] == answer.headers["x-request-id"]


@pytest.mark.fault(9)
def test_two_tenants_never_share_an_answer(edge: Edge, caller: Caller, calls: Calls) -> None:
    foreign = caller.other(tenant=Caller().tenant)
    for count, who in enumerate((caller, foreign), 1):
        answer = who.post(edge, caller.body())
        assert ("miss", count) == (answer.headers["x-cache"], len(calls.seen))
    colleague = caller.other()  # another key of the same tenant
    assert "hit" == colleague.post(edge, caller.body()).headers["x-cache"]


PARENT = "4bf92f3577b34da6a3ce929d0e0e4736"
VALID = f"00-{PARENT}-00f067aa0ba902b7-01"


@pytest.mark.fault(14)
class TestTraceparent:
    @pytest.mark.parametrize("flags", ["01", "00"])
    def test_a_valid_one_goes_on_with_the_edge_as_parent(
        self, edge: Edge, caller: Caller, calls: Calls, flags: str
    ) -> None:
        answer = self._ask(edge, caller, [VALID[:-2] + flags])
        version, trace_id, parent, sent = self._sent(calls)
        assert ("00", PARENT, flags) == (version, trace_id, sent)
        assert "00f067aa0ba902b7" != parent
        assert PARENT == answer.json()["nearfar"]["trace_id"]

    @pytest.mark.parametrize(
        "values",
        [
            ["nonsense"],
            [f"00-{'0' * 32}-00f067aa0ba902b7-01"],
            [f"00-{PARENT}-{'0' * 16}-01"],
            [f"ff-{PARENT}-00f067aa0ba902b7-01"],
            [VALID.upper().replace("00-", "00-")],
            [VALID, VALID],
        ],
        ids=["malformed", "zero-trace", "zero-parent", "version-ff", "upper-case", "twice"],
    )
    def test_a_malformed_one_starts_a_new_trace(
        self, edge: Edge, caller: Caller, calls: Calls, values: list[str]
    ) -> None:
        answer = self._ask(edge, caller, values)
        _, trace_id, parent, _ = self._sent(calls)
        assert PARENT != trace_id.lower()
        assert int(trace_id, 16)
        assert int(parent, 16)
        assert trace_id == answer.json()["nearfar"]["trace_id"]

    def test_without_one_every_request_is_a_trace_of_its_own(
        self, edge: Edge, caller: Caller, calls: Calls
    ) -> None:
        for text in ("a", "b"):
            assert 200 == caller.post(edge, caller.body(text)).status_code
        first, second = (record.header("traceparent") for record in calls.seen)
        assert first
        assert second
        assert first.split("-")[1] != second.split("-")[1]

    def _ask(self, edge: Edge, caller: Caller, values: list[str]) -> httpx.Response:
        head: list[tuple[str, str]] = [("traceparent", value) for value in values]
        head += [*caller.headers().items(), ("x-nearfar-trace", "1")]
        content = json.dumps(caller.body()).encode()
        answer = httpx.post(
            edge.url + CHAT, content=content, headers=head, trust_env=False, timeout=20
        )
        assert answer.status_code == 200
        return answer

    def _sent(self, calls: Calls) -> list[str]:
        values = [value for name, value in calls.only.headers if name.lower() == "traceparent"]
        (value,) = values
        parts = value.split("-")
        assert [2, 32, 16, 2] == [len(part) for part in parts]
        return parts


def test_every_reply_has_a_request_id_of_its_own(edge: Edge, caller: Caller) -> None:
    replies: list[Any] = [
        caller.post(edge, caller.body()),
        caller.post(edge, b"{"),
        caller.get(edge, "/v1/models"),
        caller.get(edge, "/healthz"),
        caller.get(edge, "/no-such-path"),
    ]
    ids = [reply.headers["x-request-id"] for reply in replies]
    assert [200, 400, 200, 200, 404] == [reply.status_code for reply in replies]
    assert 5 == len(set(ids))
    assert replies[1].headers["x-request-id"] in edge.log_text()
