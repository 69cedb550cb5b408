"""A pod's start from what the Kubernetes API tells of it: conditions, container states, events.

Its instants are whole seconds, written by the API server (creation), the scheduler (scheduled) and
the node (all others), each by its own clock: a step is a second wrong at the least, and a step of
0 s was shorter than a second. Nothing is timed here.

Source: the API reference of Pod (PodStatus, PodCondition, ContainerStatus) and Event, v1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from nearfar.placement.steps import Mark, Start, Step, started

NOTE = "whole seconds, by the clocks of API server, scheduler and node"
FIRST_TOKEN = Step(
    "first token", None, "the API does not tell of it; the engine's own start here does"
)
_DISAGREE = "the clocks disagree: it would have ended before the step in front of it"


class NotStarted(ValueError):
    """The pod is not ready, so its start has no end; the message says what it waits for."""


def start_of(pod: Mapping[str, Any], events: Sequence[Mapping[str, Any]], number: int) -> Start:
    """The start of one pod that is ready.

    Raises:
        NotStarted: it is not ready, or restarted since.
    """
    name = _of(pod, "metadata", "name") or "?"
    created, ready = _at(_of(pod, "metadata", "creationTimestamp")), _condition(pod, "Ready")
    if created is None:
        raise NotStarted(f"pod {name} has no creation time")
    if ready is None:
        raise NotStarted(f"pod {name} is not ready ({_reason(pod)})")
    restarts = sum(int(each.get("restartCount") or 0) for each in _containers(pod))
    if restarts:
        # Ready and started are then those of the last container, and the creation is the pod's.
        raise NotStarted(f"pod {name} restarted {restarts} times, so its start is not to be seen")
    marks = [
        Mark("scheduled", _since(created, _condition(pod, "PodScheduled")), "no such condition"),
        Mark("volumes, sandbox", _since(created, _event(events, "Pulling")), _no_pull(events)),
        Mark("image", _since(created, _event(events, "Pulled")), _gone(events)),
        Mark("container start", _since(created, _started_at(pod)), "no container says when"),
        Mark("ready", _since(created, ready)),
    ]
    note = f"{NOTE}; pod {name}"
    start = started("pod", "cold", number, created, _in_order(marks), note=note)
    return replace(start, steps=(*start.steps, FIRST_TOKEN))


def _in_order(marks: Sequence[Mark]) -> list[Mark]:
    """Marks whose clocks disagree are not seen, so that no step is shorter than nothing."""
    end_ms = marks[-1].at_ms
    if end_ms is None or end_ms < 0:
        raise NotStarted("the clocks of the API server and the node disagree about the whole start")
    kept, before_ms = list[Mark](), 0.0
    for mark in marks:
        if mark.at_ms is not None and not before_ms <= mark.at_ms <= end_ms:
            mark = Mark(mark.name, None, _DISAGREE)
        if mark.at_ms is not None:
            before_ms = mark.at_ms
            mark = Mark(mark.name, mark.at_ms)
        kept.append(mark)
    return kept


def _condition(pod: Mapping[str, Any], kind: str) -> float | None:
    """When a condition became true."""
    for each in _of(pod, "status", "conditions") or ():
        if each.get("type") == kind and each.get("status") == "True":
            return _at(each.get("lastTransitionTime"))
    return None


def _started_at(pod: Mapping[str, Any]) -> float | None:
    """When the last of its containers started."""
    times = [_at(_of(each, "state", "running", "startedAt")) for each in _containers(pod)]
    seen = [at for at in times if at is not None]
    return max(seen) if seen and len(seen) == len(times) else None


def _event(events: Sequence[Mapping[str, Any]], reason: str) -> float | None:
    """When an event of this reason came: first for a beginning, last for an end."""
    times = [
        _at(each.get("firstTimestamp") or each.get("eventTime"))
        for each in events
        if each.get("reason") == reason
    ]
    seen = [at for at in times if at is not None]
    return (min if reason == "Pulling" else max)(seen) if seen else None


def _no_pull(events: Sequence[Mapping[str, Any]]) -> str:
    if _event(events, "Pulled") is not None:
        return "nothing was pulled: the image was on the node"
    return _gone(events)


def _gone(events: Sequence[Mapping[str, Any]]) -> str:
    if not events:
        return "the API has no events of it any more; a cluster keeps them for an hour"
    return "the API has no such event"


def _reason(pod: Mapping[str, Any]) -> str:
    for each in _containers(pod):
        waiting = _of(each, "state", "waiting", "reason")
        if waiting:
            return str(waiting)
    return str(_of(pod, "status", "phase") or "unknown")


def _containers(pod: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return _of(pod, "status", "containerStatuses") or ()


def _of(value: Any, *names: str) -> Any:
    """A field of fields, None where one is not there."""
    for name in names:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def _at(text: object) -> float | None:
    """An instant like 2026-11-30T12:00:00Z in seconds since 1970."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def _since(created: float, at: float | None) -> float | None:
    return None if at is None else (at - created) * 1000
