"""The account of time: named instants of one request on the edge's monotonic clock.

    t0  the component got the request          t4  first content arrived from the model server
    t1  retrieval starts (none yet)            t5  first content forwarded to the client
    t2  retrieval ends                         t6  last chunk of the answer forwarded
    t3  model request dispatched

What lies before t0 (accept, TLS, instance start) belongs to the client's lane. Stages are the
spans between marks, so they partition t0 to t6 by construction. The engine's own durations nest
under t3 to t6 and are never added to them. docs/record.schema.json is the form of a record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SCHEMA = "nearfar.record/1"
INSTANTS = ("t0", "t1", "t2", "t3", "t4", "t5", "t6")
STAGES = (
    "authenticate",
    "receive",
    "guard",
    "look_up",
    "follow",
    "admit",
    "assemble",
    "model_call",
    "forward_first",
    "stream",
    "collect",
    "forward",
)
LABELS = (
    "service_version",
    "settings_hash",
    "environment",
    "region",
    "instance",
    "route_table",
    "route",
    "model",
    "model_revision",
    "template_version",
    "guardrails",
    "rules_fired",
    "category",
    "streamed",
)
ENGINE_FIELDS = (
    "queue_time_ms",
    "time_to_first_token_ms",
    "generation_time_ms",
    "mean_itl_ms",
    "tokens_per_second",
)
_MOST = 1e12  # ms: thirty years
_NO_MODEL_CALL = "the model server was not asked"
_ENDED_EARLY = "the request ended before"
_NOT_GIVEN = "the model server did not give it"
_NO_CATEGORY = "the request named none of the configured categories"


@dataclass(slots=True)
class Account:
    """Marks of one request; all instants in milliseconds of the edge's clock."""

    started_ms: float
    request_id: str
    trace_id: str
    marks: list[tuple[str, float]] = field(default_factory=list)
    instants: dict[str, float] = field(default_factory=dict)
    near_trips: int = 0
    upkeep_trips: int = 0
    far_trips: int = 0
    cache: str = "bypass"
    input_tokens: int | None = None
    output_tokens: int | None = None
    engine: Mapping[str, Any] | None = None
    labels: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    status: int = 0

    def __post_init__(self) -> None:
        self.instants["t0"] = self.started_ms

    def mark(self, stage: str, now_ms: float, instant: str = "") -> None:
        """End a stage now; what came since the last mark is its time."""
        self.marks.append((stage, now_ms))
        if instant:
            self.instants[instant] = now_ms

    def stages(self) -> dict[str, float]:
        """Durations by stage in the order they came; a stage marked twice is added up.

        Differences of rounded instants, so that they add up to the last instant to the microsecond.
        """
        durations: dict[str, float] = {}
        last = 0.0
        for stage, at in self.marks:
            now = round(at - self.started_ms, 3)
            durations[stage] = round(durations.get(stage, 0.0) + now - last, 3)
            last = now
        return durations

    def span(self, start: str, end: str) -> float | None:
        """The time between two instants, None unless both were observed."""
        if start not in self.instants or end not in self.instants:
            return None
        return round(self.instants[end] - self.instants[start], 3)

    def server_timing(self) -> str:
        """What is known when the head leaves, as a Server-Timing header."""
        stages = ", ".join(f"{name};dur={value}" for name, value in self.stages().items())
        cache = f"cache;desc={self.cache}"
        return f"{stages}, {cache}" if stages else cache

    def record(self) -> dict[str, Any]:
        """The whole account, as docs/record.schema.json has it."""
        absent: dict[str, str] = {}
        instants = {name: self.span("t0", name) for name in INSTANTS}
        for name, value in instants.items():
            if value is None:
                absent[f"edge.{name}"] = self._why(name)
        derived = {
            "application_first_content_latency": self.span("t0", "t5"),
            "model_call_first_content_latency": self.span("t3", "t4"),
            "retrieval_duration": self.span("t1", "t2"),
            "stream_forwarding_delay": self.span("t4", "t5"),
            "unattributed": self._unattributed(absent),
        }
        for name, end in (
            ("application_first_content_latency", "t5"),
            ("model_call_first_content_latency", "t4"),
            ("retrieval_duration", "t2"),
            ("stream_forwarding_delay", "t4"),
        ):
            if derived[name] is None:
                absent[f"derived.{name}"] = self._why(end)
        tokens = {"input": self.input_tokens, "output": self.output_tokens}
        for name, count in tokens.items():
            if count is None:
                answered = self.far_trips or self.cache in ("hit", "shared")
                absent[f"tokens.{name}"] = _NOT_GIVEN if answered else _ENDED_EARLY
        absent["client"] = "the client's lane is measured by the client"
        if self.error is None:
            absent["error"] = "nothing failed"
        return {
            "schema": SCHEMA,
            "request_id": self.request_id,
            "trace_id": self.trace_id,
            **self._labels(absent),
            "status": self.status,
            "error": self.error,
            "cache": self.cache,
            "trips": {
                "near": self.near_trips,
                "far": self.far_trips,
                "upkeep": self.upkeep_trips,
            },
            "tokens": tokens,
            "client": None,
            "edge": instants,
            "stages": self.stages(),
            "derived": derived,
            "engine": self._engine(absent),
            "not_available": absent,
        }

    def _labels(self, absent: dict[str, str]) -> dict[str, Any]:
        labels = {name: self.labels.get(name) for name in LABELS}
        for name, value in labels.items():
            if value is None:
                routed = name == "category" and "category" in self.labels
                absent[name] = _NO_CATEGORY if routed else _ENDED_EARLY
        return labels

    def _engine(self, absent: dict[str, str]) -> dict[str, float | None] | None:
        if self.engine is None:
            absent["engine"] = _NOT_GIVEN if self.far_trips else _NO_MODEL_CALL
            return None
        lane = {name: _number(self.engine.get(name)) for name in ENGINE_FIELDS}
        absent.update(
            {f"engine.{name}": _NOT_GIVEN for name, value in lane.items() if value is None}
        )
        return lane

    def _unattributed(self, absent: dict[str, str]) -> float | None:
        """What is left of t4−t3 when the engine's queue and first token are taken out."""
        call = self.span("t3", "t4")
        if call is None:
            absent["derived.unattributed"] = self._why("t4")
            return None
        engine = self.engine or {}
        known = [_number(engine.get(name)) or 0.0 for name in ENGINE_FIELDS[:2]]
        left = round(call - sum(known), 3)
        if left < 0:
            absent["derived.unattributed"] = "the engine's durations exceed the model call"
            return None
        return left

    def _why(self, instant: str) -> str:
        if instant in ("t1", "t2"):
            return "there is no retrieval"
        if instant in ("t3", "t4") and not self.far_trips:
            return _NO_MODEL_CALL
        return _ENDED_EARLY


def _number(value: Any) -> float | None:
    """A duration that JSON can write; a server's NaN or 1e999 is as good as none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return round(float(value), 3) if is_number and abs(value) < _MOST else None


def log_line(
    record: Mapping[str, Any], wall_s: float, tenant: str | None, client: str | None = None
) -> str:
    """One JSON line a request: who, what, how long; no prompt, answer, key or header.

    `client` is a keyed hash of an address; in a record that name stands for the client's lane.
    """
    kept = {
        name: value for name, value in record.items() if name not in ("not_available", "client")
    }
    line = {"time": round(wall_s, 3), "tenant": tenant, "client": client, **kept}
    return json.dumps(line, separators=(",", ":"))


def fault_line(fault: BaseException, request_id: str) -> str:
    """One JSON line for a fault of ours: its kind and place, never its text."""
    place = fault.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f"{place.tb_frame.f_code.co_name}:{place.tb_lineno}" if place is not None else None
    return json.dumps({"request_id": request_id, "fault": type(fault).__name__, "at": where})
