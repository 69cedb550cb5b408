"""Where a request's time went, as parts that add up to what the client waited.

Three lanes with a clock each: instants of two lanes are never subtracted. What is formed here are
differences of durations of which one holds the other, as in the record's own `unattributed`.

    first content  = before t0 + the edge's stages up to t5
    after it       = what the edge streamed (t5 to t6) + after t6

`before t0` is what the client waited and the edge did not see: the way both ways, accept, TLS, the
start of an instance. Of the model call (t3 to t4) the engine's queue and first token are its own
parts; the rest is `unattributed` and may be anything that lies there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edge_frontend.account import STAGES
from nearfar.runs import Sample

BEFORE_T0 = "before t0"
AFTER_T6 = "after t6"
QUEUE = "engine queue"
FIRST_TOKEN = "engine first token"  # noqa: S105 - no secret
GENERATION = "engine generation"
UNATTRIBUTED = "unattributed"
STREAM_REST = "stream beyond the engine"

# In the order of a request's way; a stage of a later edge that is not named here comes last.
ORDER = (
    BEFORE_T0,
    *STAGES[: STAGES.index("model_call")],
    QUEUE,
    FIRST_TOKEN,
    UNATTRIBUTED,
    *(name for name in STAGES[STAGES.index("model_call") + 1 :] if name != "stream"),
    GENERATION,
    STREAM_REST,
    "stream",
    AFTER_T6,
)
MEANING: Mapping[str, str] = {
    BEFORE_T0: "the client waited and the edge did not see it: the way to it and back, accept, "
    "TLS, the start of an instance",
    QUEUE: "from arrival in the engine until it was scheduled, by the engine's own clock",
    FIRST_TOKEN: "from scheduled to the first token (prefill and one step), by the engine's clock",
    UNATTRIBUTED: "between dispatch (t3) and first content (t4), and not told by the engine",
    GENERATION: "from the first token to the last, by the engine's own clock",
    STREAM_REST: "between first content forwarded (t5) and the last chunk (t6), beyond what the "
    "engine says that it generated",
    AFTER_T6: "after first content, the client waited longer than the edge streamed",
}
# Where a part lies: on the way to first content, or after it.
_AFTER_FIRST = frozenset({GENERATION, STREAM_REST, "stream", AFTER_T6})


@dataclass(frozen=True, slots=True)
class Split:
    """What the engine told in every request that was asked of it, on both sides."""

    call: bool
    stream: bool


def splits(samples: Sequence[Sample]) -> Split:
    """Return what can be told apart in all of these; one request without it merges the parts."""
    called = [each for each in samples if _stages(each).get("model_call") is not None]
    return Split(
        call=bool(called) and all(_engine_call(each) is not None for each in called),
        stream=bool(called)
        and all(each.recorded("engine.generation_time_ms") is not None for each in called),
    )


def parts(sample: Sample, split: Split) -> dict[str, float] | None:
    """Return the parts of one request in milliseconds; None where the edge sent no account of it.

    They add up to the request's end to end time.
    """
    t5, first, end = sample.recorded("edge.t5"), sample.first_content_ms, sample.end_to_end_ms
    if t5 is None or first is None or end is None:
        return None
    stages = dict(_stages(sample))
    stream = stages.pop("stream", 0.0)
    call = stages.pop("model_call", None)
    found = {BEFORE_T0: first - t5, **stages}
    if call is not None:
        found |= _call(sample, call) if split.call else {UNATTRIBUTED: call}
    generation = sample.recorded("engine.generation_time_ms")
    if split.stream and generation is not None:
        found |= {GENERATION: generation, STREAM_REST: stream - generation}
    else:
        found["stream"] = stream
    found[AFTER_T6] = (end - first) - stream
    return found


def after_first(name: str) -> bool:
    """Whether a part lies after the first content."""
    return name in _AFTER_FIRST


def ordered(names: set[str]) -> list[str]:
    """Put parts into the order of a request's way."""
    place = {name: at for at, name in enumerate(ORDER)}
    return sorted(names, key=lambda name: (place.get(name, len(place)), name))


def _stages(sample: Sample) -> Mapping[str, float]:
    return sample.recorded("stages") or {}


def _engine_call(sample: Sample) -> tuple[float, float] | None:
    queue = sample.recorded("engine.queue_time_ms")
    token = sample.recorded("engine.time_to_first_token_ms")
    if queue is None or token is None or sample.recorded("derived.unattributed") is None:
        return None
    return queue, token


def _call(sample: Sample, call: float) -> dict[str, float]:
    told = _engine_call(sample)
    if told is None:
        return {UNATTRIBUTED: call}
    queue, token = told
    return {QUEUE: queue, FIRST_TOKEN: token, UNATTRIBUTED: call - queue - token}
