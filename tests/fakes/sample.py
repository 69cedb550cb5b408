"""A record as the edge sends it, for the tests that read one."""

from __future__ import annotations

import copy
import json
from typing import Any

MISS: dict[str, Any] = {
    "schema": "nearfar.record/1",
    "request_id": "req_1",
    "trace_id": "0af7651916cd43dd8448eb211c80319c",
    "service_version": "0.1.0",
    "settings_hash": "abc",
    "environment": "local",
    "region": "local",
    "instance": "warm",
    "route_table": "local-1",
    "route": "gpu",
    "model": "mock",
    "model_revision": "r",
    "template_version": "plain@1",
    "category": None,
    "streamed": True,
    "status": 200,
    "error": None,
    "cache": "miss",
    "trips": {"near": 1, "far": 1, "upkeep": 2},
    "tokens": {"input": 3, "output": 16},
    "client": None,
    "edge": {"t0": 0.0, "t1": None, "t2": None, "t3": 2.0, "t4": 52.0, "t5": 52.5, "t6": 200.0},
    "stages": {"authenticate": 0.5, "look_up": 1.5, "model_call": 50.0, "stream": 148.0},
    "derived": {
        "application_first_content_latency": 52.5,
        "model_call_first_content_latency": 50.0,
        "retrieval_duration": None,
        "stream_forwarding_delay": 0.5,
        "unattributed": 8.0,
    },
    "engine": {
        "queue_time_ms": 2.0,
        "time_to_first_token_ms": 40.0,
        "generation_time_ms": 150.0,
        "mean_itl_ms": 10.0,
        "tokens_per_second": None,
    },
    "not_available": {
        "edge.t1": "there is no retrieval",
        "edge.t2": "there is no retrieval",
        "derived.retrieval_duration": "there is no retrieval",
        "engine.tokens_per_second": "the model server did not give it",
        "client": "the client's lane is measured by the client",
    },
}


def miss() -> dict[str, Any]:
    """A fresh copy of a miss with all three lanes."""
    return copy.deepcopy(MISS)


def hit() -> dict[str, Any]:
    """A hit: the model server was not asked, so there is no engine lane."""
    record = miss()
    record["cache"], record["engine"] = "hit", None
    record["not_available"]["engine"] = "the model server was not asked"
    return record


def chunk(**fields: Any) -> bytes:
    """One event of a stream."""
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def delta(content: str, **fields: Any) -> bytes:
    """One event with a piece of text, or other fields of a delta."""
    return chunk(choices=[{"index": 0, "delta": {"content": content, **fields}}])


END = chunk(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
CUT = chunk(choices=[{"index": 0, "delta": {}, "finish_reason": "length"}])
USAGE = chunk(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 2})
DONE = b"data: [DONE]\n\n"


def stream(*, record: dict[str, Any] | None = None, end: bytes = END) -> bytes:
    """A whole stream: "Hello you", its usage, a record if one is given, and the end."""
    traced = chunk(choices=[], nearfar=record) if record else b""
    return delta("") + delta("Hello") + delta(" you") + end + USAGE + traced + DONE
