"""Which figures a run has: the client's own, the edge's stages, the engine's durations.

The three lanes have a clock each. They stand beside each other and are never subtracted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from edge_frontend.account import STAGES
from nearfar.runs.sample import Sample

Lane = Literal["client", "edge", "engine", "generator"]
Values = Callable[[Sample], Iterable[float | None]]

_DERIVED = {
    "application_first_content_latency": "first content (t5 - t0)",
    "model_call_first_content_latency": "model call (t4 - t3)",
    "retrieval_duration": "retrieval (t2 - t1)",
    "stream_forwarding_delay": "forwarding delay (t5 - t4)",
    "unattributed": "unattributed (of t4 - t3)",
}
_ENGINE = {
    "queue_time_ms": ("queue", "ms"),
    "time_to_first_token_ms": ("scheduled to first token", "ms"),
    "generation_time_ms": ("generation", "ms"),
    "mean_itl_ms": ("mean between tokens", "ms"),
    "tokens_per_second": ("tokens a second", "/s"),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of figure: its key in JSON, what people call it, its unit, where it comes from."""

    key: str
    title: str
    lane: Lane
    values: Values
    unit: str = "ms"


def _one(key: str, title: str, value: Callable[[Sample], float | None], unit: str = "ms") -> Kind:
    return Kind(key, title, "client", lambda sample: (value(sample),), unit)


CLIENT = (
    _one("headers_ms", "response head", lambda s: s.headers_ms),
    _one("first_content_ms", "first content", lambda s: s.first_content_ms),
    _one("first_answer_ms", "first answer content", lambda s: s.first_answer_ms),
    _one("from_schedule_ms", "first content from schedule", lambda s: s.from_schedule_ms),
    Kind("gap_ms", "between chunks", "client", lambda sample: sample.gaps_ms),
    _one("tpot_ms", "TPOT (from usage)", lambda s: s.tpot_ms),
    _one("end_to_end_ms", "end to end", lambda s: s.end_to_end_ms),
    _one("end_from_schedule_ms", "end from schedule", lambda s: s.end_from_schedule_ms),
    _one("input_tokens", "input tokens", lambda s: s.input_tokens, "tokens"),
    _one("output_tokens", "output tokens", lambda s: s.output_tokens, "tokens"),
)

# Every request tells how late the generator was, whatever became of it.
LATE = Kind("late_ms", "sent after it was due", "generator", lambda sample: (sample.late_ms,))


def kinds(samples: Iterable[Sample]) -> tuple[Kind, ...]:
    """The client's figures, and those that the records of these samples hold, in lane order."""
    records = [sample.record for sample in samples if sample.record is not None]
    return (*CLIENT, *_edge(records), *_engine(records))


def _edge(records: list[Mapping[str, Any]]) -> Iterable[Kind]:
    met = dict.fromkeys(name for record in records for name in record.get("stages") or ())
    known = [name for name in STAGES if name in met]
    for name in (*known, *(name for name in met if name not in STAGES)):
        yield _recorded(f"stages.{name}", name, "edge")
    if records:
        for name, title in _DERIVED.items():
            yield _recorded(f"derived.{name}", title, "edge")


def _engine(records: list[Mapping[str, Any]]) -> Iterable[Kind]:
    if any(record.get("engine") for record in records):
        for name, (title, unit) in _ENGINE.items():
            yield _recorded(f"engine.{name}", title, "engine", unit)


def _recorded(path: str, title: str, lane: Lane, unit: str = "ms") -> Kind:
    return Kind(path, title, lane, lambda sample: (_number(sample.recorded(path)),), unit)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)
