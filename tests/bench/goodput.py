"""Goodput under load: how many answers a second came in time, with admission and without.

An answer is good when it is whole and its first content came within the objective, counted from
the instant its request was due.
"""

import asyncio
import json
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from . import load, open_loop
from .figures import percentile
from .load import Plan
from .open_loop import Arrival
from .target import Target

ADMITTED, BARE = "with admission", "without admission"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: always the same amount of work, and never a cached answer."""

    text: str
    chunks: int | None  # content deltas of a whole answer; None: any
    fields: dict[str, Any]

    def plan(self, target: Target, **how: Any) -> Plan:
        """The question for one target."""
        message = {"role": "user", "content": self.text}
        document = {"model": target.model, "messages": [message], "stream": True, **self.fields}
        body = json.dumps(document).encode()
        return Plan(lambda _: body, headers=target.headers, chunks=self.chunks, **how)


@dataclass(frozen=True, slots=True)
class Effort:
    """How the load is put on: factors of the capacity, and what counts."""

    factors: tuple[float, ...] = (0.5, 1.0, 2.0, 3.0)
    seconds: float = 12.0
    warm_s: float = 2.0  # at the start of each run, not counted
    objective_s: float = 0.5
    patience_s: float = 4.0  # a client gives up after that

    def __post_init__(self) -> None:
        if not 0 <= self.warm_s < self.seconds or self.objective_s > self.patience_s:
            raise ValueError("a run is longer than its warm-up, and patience than the objective")


@dataclass(frozen=True, slots=True)
class Row:
    """One run. Rates are a second; `share` is the goodput over the capacity."""

    name: str
    factor: float
    offered_per_s: float
    goodput_per_s: float
    share: float
    n: int
    outcomes: dict[str, int]
    first_content_p50_s: float | None
    first_content_p99_s: float | None


async def capacity(question: Question, direct: Target, slots: int, seconds: float) -> float:
    """Answers a second of an engine with all its slots in use, asked without edge and gate.

    As many streams as there are slots, so that none waits: slots over the mean time of an answer.
    """
    plan = question.plan(direct, streams=slots, seconds=seconds, warm_up=1)
    result = await load.run(direct.url, plan)
    times = [sample.ended - sample.started for sample in result.good if sample.ended is not None]
    if result.errors or not times:
        raise RuntimeError(f"the engine alone failed: {result.errors}")
    return slots / statistics.fmean(times)


async def measure(
    targets: Sequence[Target],
    question: Question,
    per_s: float,
    effort: Effort,
    say: Callable[[str], None],
) -> list[Row]:
    """Each target at each factor of the capacity `per_s`, in turns, under the same arrivals."""
    rows = []
    for factor in effort.factors:
        instants = open_loop.poisson(factor * per_s, effort.seconds, seed=round(factor * 100))
        for target in targets:
            plan = question.plan(target, streams=1, count=1)
            arrivals = await open_loop.run(target.url, plan, instants, effort.patience_s)
            rows.append(row(target.name, factor, per_s, arrivals, instants, effort))
            say(f"{factor:g} times capacity {target.name}: {rows[-1].share:.0%} of it was good")
            await asyncio.sleep(0.5)  # what is under way ends, what was heard of the load is stale
    return rows


def row(
    name: str,
    factor: float,
    per_s: float,
    arrivals: Sequence[Arrival],
    instants: Sequence[float],
    effort: Effort,
) -> Row:
    """The figures of one run, over what was due after the warm-up."""
    pairs = zip(arrivals, instants, strict=True)
    counted = [arrival for arrival, after_s in pairs if after_s >= effort.warm_s]
    answered = [arrival for arrival in counted if arrival.outcome == "answered"]
    waits = [s for arrival in answered if (s := arrival.first_content_s()) is not None]
    window_s = effort.seconds - effort.warm_s
    good = sum(wait <= effort.objective_s for wait in waits) / window_s
    return Row(
        name=name,
        factor=factor,
        offered_per_s=len(counted) / window_s,
        goodput_per_s=good,
        share=good / per_s,
        n=len(counted),
        outcomes=dict(Counter(arrival.outcome for arrival in counted)),
        first_content_p50_s=statistics.median(waits) if waits else None,
        first_content_p99_s=percentile(waits, 0.99) if len(waits) >= 100 else None,
    )


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows, to be kept."""
    return [asdict(each) for each in rows]
