"""What a run was: the first line of its file. docs/runs.md says what each field means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

SCHEMA = "nearfar.run/1"

Process = Literal["poisson", "constant", "burst", "ramp", "trace", "closed"]
Source = Literal["prompts", "synthetic", "trace"]
CacheState = Literal["cold", "warm", "bypass", "uncontrolled"]


@dataclass(frozen=True, slots=True)
class TargetOf:
    """What was asked. The address holds no user, password or query."""

    url: str
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How requests arrived. `concurrency` bounds a closed loop; an open loop has a rate."""

    process: Process
    rate_per_s: float | None = None
    concurrency: int | None = None
    requests: int | None = None
    duration_s: float | None = None
    seed: int = 0

    @property
    def is_open(self) -> bool:
        """Whether requests are sent when they are due, whatever is still in flight."""
        return self.process != "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What was sent. `sha256` is over all requests that could be drawn, in their order."""

    source: Source
    name: str
    requests: int
    seed: int = 0
    max_tokens: int | None = None
    temperature: float | None = None
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objectives:
    """What a good request keeps, in milliseconds; None: not asked for."""

    first_content_ms: float | None = None
    tpot_ms: float | None = None
    end_to_end_ms: float | None = None

    def __bool__(self) -> bool:
        return (self.first_content_ms, self.tpot_ms, self.end_to_end_ms) != (None, None, None)


@dataclass(frozen=True, slots=True)
class Clock:
    """The one clock that every instant of the run was read from."""

    source: str
    resolution_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The first line. `started_at` is wall time in UTC (ISO 8601), for people only."""

    schema: str = SCHEMA
    run: str
    label: str | None = None
    started_at: str
    nearfar: str
    command: tuple[str, ...] = ()
    target: TargetOf
    placement: str | None = None
    load: Load
    workload: Workload
    objectives: Objectives = field(default_factory=Objectives)
    cache: CacheState = "uncontrolled"
    machine: Mapping[str, Any] = field(default_factory=dict)
    clock: Clock
    settings: Mapping[str, Any] = field(default_factory=dict)
    edge: Mapping[str, Any] | None = None
