"""What the gate counts, as Prometheus reads it: GET /nearfar/metrics, docs/gate.md lists the names.

The text is written by hand: a process in front of a server has no client library, and vLLM's own
registry is vLLM's. No label holds a tenant, a key or anything else that a request can choose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gpu_backend.gate.answers import Refusal, Replayed, Send, Unauthorized
from gpu_backend.gate.load import Load
from gpu_backend.gate.outcome import Outcome
from gpu_backend.grant import Grant

PATH = "/nearfar/metrics"

# Name after `nearfar_gate_` → (type, help).
NAMES: dict[str, tuple[str, str]] = {
    "answers_total": ("counter", "Requests that were let in and have ended, by how they ended."),
    "refusals_total": ("counter", "Requests that the gate refused, by error code."),
    "generated_tokens_total": ("counter", "Tokens generated, by how they were counted."),
    "input_tokens_total": ("counter", "Prompt tokens of requests that were let in."),
    "cached_input_tokens_total": ("counter", "Those of them from the engine's prefix cache."),
    "edge_hits_total": ("counter", "Answers of the edges' caches, as told with later misses."),
    "edge_hit_tokens_total": ("counter", "Tokens of those answers."),
    "in_flight": ("gauge", "Places taken at the engine."),
    "seats": ("gauge", "Places that run at once."),
    "capacity": ("gauge", "All places: seats and waiting room."),
    "redis_up": ("gauge", "1 while the gate's Redis answers, 0 while it does not."),
}


class Metrics:
    """The counts of one gate since it started."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def refused(self, refusal: Refusal, grant: Grant | None = None) -> None:
        """Count a refusal, and what its grant told of hits unless it had told it before."""
        self._counts["refusals_total", f'code="{refusal.code}"'] += 1
        if grant is not None and not isinstance(refusal, Replayed | Unauthorized):
            self._told(grant)

    def answered(self, grant: Grant, outcome: Outcome) -> None:
        """Count a request that was let in, when it has ended."""
        self._told(grant)
        self._counts["answers_total", f'ended="{_ended(outcome)}"'] += 1
        if outcome.undo:
            return
        counted = "exact" if outcome.exact else "estimate"
        self._counts["generated_tokens_total", f'counted="{counted}"'] += outcome.generated
        self._counts["input_tokens_total", ""] += outcome.input_tokens
        self._counts["cached_input_tokens_total", ""] += outcome.cached_input

    def text(self, load: Load, redis_up: bool | None) -> bytes:
        """The exposition (text format 0.0.4). `redis_up` None: there is no Redis to be up."""
        samples = dict(self._counts)
        samples["in_flight", ""] = load.in_flight
        samples["seats", ""] = load.max_running
        samples["capacity", ""] = load.capacity
        if redis_up is not None:
            samples["redis_up", ""] = int(redis_up)
        return "".join(_lines(samples)).encode()

    def _told(self, grant: Grant) -> None:
        self._counts["edge_hits_total", ""] += grant.hits
        self._counts["edge_hit_tokens_total", ""] += grant.cached_tokens


def _ended(outcome: Outcome) -> str:
    if outcome.undo:
        return "undone"
    if outcome.failed:
        return "failed"
    return "complete" if outcome.exact else "aborted"


def _lines(samples: dict[tuple[str, str], int]) -> Iterator[str]:
    for name, (kind, told) in NAMES.items():
        yield f"# HELP nearfar_gate_{name} {told}\n# TYPE nearfar_gate_{name} {kind}\n"
        for (of, labels), value in sorted(samples.items()):
            if of == name:
                yield f"nearfar_gate_{name}{{{labels}}} {value}\n"


async def answer(text: bytes, send: Send) -> None:
    """Send an exposition as the whole answer."""
    headers = [
        (b"content-type", b"text/plain; version=0.0.4; charset=utf-8"),
        (b"content-length", b"%d" % len(text)),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text})
