"""Draws one request as a waterfall in three lanes.

The lanes share a scale, not a zero: each counts from its own beginning on its own clock, so bars
of two lanes can be compared in length and never in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nearfar.record import Record

LABEL_CHARS = 26
VALUE_CHARS = 12
MIN_BAR_CHARS = 10

_CLIENT = (
    ("look-up and connect", "client.connected_ms"),
    ("TLS", "client.tls_ms"),
    ("until response head", "client.first_byte_ms"),
    ("until first content", "client.first_content_ms"),
    ("until end", "client.end_ms"),
)
_ENGINE = (
    ("queue", "engine.queue_time_ms"),
    ("scheduled to first token", "engine.time_to_first_token_ms"),
    ("generation", "engine.generation_time_ms"),
)
_MEASURES = (
    ("application_first_content_latency", "t5 - t0"),
    ("model_call_first_content_latency", "t4 - t3"),
    ("retrieval_duration", "t2 - t1"),
    ("stream_forwarding_delay", "t5 - t4"),
    ("unattributed", "of t4 - t3, not network"),
)
_RATES = (("mean_itl_ms", "ms between tokens"), ("tokens_per_second", "tokens/s"))


@dataclass(frozen=True, slots=True)
class Bar:
    """One row: from `start_ms` of its lane, `duration_ms` long; None: not observed, and why."""

    label: str
    start_ms: float
    duration_ms: float | None
    why_not: str = ""


def lines(record: Record, width: int = 100) -> list[str]:
    """Return the whole picture, one string a line, none wider than `width` if that is possible."""
    lanes = {
        "client": list(client_bars(record)),
        "edge": list(edge_bars(record)),
        "engine": list(engine_bars(record)),
    }
    ends = [
        bar.start_ms + bar.duration_ms
        for bars in lanes.values()
        for bar in bars
        if bar.duration_ms is not None
    ]
    space = max(MIN_BAR_CHARS, width - LABEL_CHARS - VALUE_CHARS - 4)
    per_char = max(max(ends, default=0.0) / space, 1e-9)
    drawn = _title(record)
    for name, bars in lanes.items():
        drawn += ["", f"{name} lane (its own clock, from its own zero)"]
        drawn += [_draw(bar, per_char, space) for bar in bars]
    return [*drawn, "", *_measures(record)]


def client_bars(record: Record) -> Iterator[Bar]:
    """What the client saw, cut at the instants that it noted."""
    last = 0.0
    for label, path in _CLIENT:
        at = record.value(path)
        if at is None:
            yield Bar(label, last, None, record.why_not(path))
            continue
        yield Bar(label, last, at - last)
        last = at


def edge_bars(record: Record) -> Iterator[Bar]:
    """The edge's stages, which partition its time, in the order in which they came."""
    last = 0.0
    for stage, duration_ms in (record.value("stages") or {}).items():
        yield Bar(stage, last, duration_ms)
        last += duration_ms


def engine_bars(record: Record) -> Iterator[Bar]:
    """The engine's own durations; they lie somewhere within the edge's model call."""
    if record.value("engine") is None:
        yield Bar("engine", 0.0, None, record.why_not("engine"))
        return
    last = 0.0
    for label, path in _ENGINE:
        duration_ms = record.value(path)
        yield Bar(label, last, duration_ms, record.why_not(path))
        last += duration_ms or 0.0


def _draw(bar: Bar, per_char: float, space: int) -> str:
    label = f"  {bar.label:<{LABEL_CHARS}.{LABEL_CHARS}}"
    if bar.duration_ms is None:
        return f"{label} not available: {bar.why_not}"
    start = min(space - 1, int(bar.start_ms / per_char))
    # A bar that is shorter than a character is still seen.
    length = max(1, min(space - start, round(bar.duration_ms / per_char)))
    return f"{label} {' ' * start + '█' * length:<{space}} {bar.duration_ms:>8.1f} ms"


def _title(record: Record) -> list[str]:
    rows = (
        (("request", "request_id"), ("model", "model"), ("cache", "cache")),
        (
            ("instance", "instance"),
            ("near trips", "trips.near"),
            ("far trips", "trips.far"),
            ("tokens in", "tokens.input"),
            ("tokens out", "tokens.output"),
        ),
    )
    return [
        " · ".join(
            f"{label} {record.value(path)}" for label, path in row if record.value(path) is not None
        )
        for row in rows
    ]


def _measures(record: Record) -> Iterable[str]:
    yield "measures"
    for name, meaning in _MEASURES:
        yield _figure(f"{name} ({meaning})", record, f"derived.{name}", "ms")
    for name, unit in _RATES:
        yield _figure(f"engine {name}", record, f"engine.{name}", unit)


def _figure(label: str, record: Record, path: str, unit: str) -> str:
    value = record.value(path)
    if value is None:
        return f"  {label:<62} not available: {record.why_not(path)}"
    return f"  {label:<62} {value:.1f} {unit}"
