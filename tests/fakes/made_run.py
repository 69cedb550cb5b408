"""A fake: runs that were never measured, with parts of known length, for statistics and reports.

The shape is a real run's (docs/runs.md, docs/record.schema.json); the figures are drawn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nearfar.runs import (
    Clock,
    End,
    Failure,
    Header,
    Load,
    Objectives,
    Run,
    Sample,
    TargetOf,
    Usage,
    Workload,
)

# Mean of each part in milliseconds; each is drawn from a gamma distribution of shape `SHAPE`.
PARTS: Mapping[str, float] = {
    "before t0": 3.0,
    "authenticate": 0.4,
    "receive": 0.5,
    "guard": 0.1,
    "look_up": 0.8,
    "admit": 0.05,
    "assemble": 0.1,
    "engine queue": 1.0,
    "engine first token": 40.0,
    "unattributed": 8.0,
    "forward_first": 0.2,
    "engine generation": 120.0,
    "stream beyond the engine": 1.5,
    "after t6": 0.3,
}
SHAPE = 16.0
LABELS: Mapping[str, Any] = {
    "service_version": "0.1.0",
    "settings_hash": "aaaa",
    "environment": "test",
    "region": "eu",
    "route_table": "1",
    "route": "gpu-mock",
    "model": "mock",
    "model_revision": None,
    "template_version": "plain@1:aaaa",
    "guardrails": "none@1",
    "instance": "warm",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """How a run is made. `more` are milliseconds added to parts; `drift_ms` moves whole blocks.

    `known` False: no record came. `told` False: the engine told nothing.
    """

    seed: int = 0
    blocks: int = 20
    per_block: int = 10
    drift_ms: float = 2.0
    drift_seed: int | None = None  # the same: blocks of two runs drift together
    more: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, Any] = field(default_factory=dict)
    categories: tuple[str, ...] = ()
    category_ms: Mapping[str, float] = field(default_factory=dict)
    input_tokens: int = 34
    output_tokens: int = 24
    known: bool = True
    told: bool = True
    failing: float = 0.0
    right: float | None = None
    warm_up: int = 5


def made(making: Making | None = None, **header: Any) -> Run:
    """Make a run; `header` replaces fields of its header."""
    how = making or Making()
    rng = np.random.default_rng(how.seed)
    drift_rng = rng if how.drift_seed is None else np.random.default_rng(how.drift_seed)
    drifts = drift_rng.gamma(2.0, how.drift_ms / 2, how.blocks)
    samples: list[Sample] = []
    at_s = 0.0
    for number in range(-how.warm_up, how.blocks * how.per_block):
        block = max(0, number) // how.per_block
        sample = _sample(how, rng, number, block, at_s, float(drifts[block]))
        samples.append(sample)
        at_s = (sample.end_s or at_s) + 0.002
    end = End("2026-11-30T12:10:00.000+00:00", len(samples), "done")
    return Run(head(**header), tuple(samples), end)


def head(**changes: Any) -> Header:
    """The header of a made run."""
    fields: dict[str, Any] = {
        "run": "made",
        "label": "made",
        "started_at": "2026-11-30T12:00:00.000+00:00",
        "nearfar": "0.1.0",
        "target": TargetOf("http://127.0.0.1:3000", "mock"),
        "load": Load(process="closed", concurrency=1, requests=200),
        "workload": Workload(
            source="prompts", name="made.jsonl", requests=200, temperature=0.0, sha256="ab" * 32
        ),
        "objectives": Objectives(first_content_ms=60.0),
        "cache": "cold",
        "machine": {"cores": 2, "processor": "made"},
        "clock": Clock("made", 1e-9),
    }
    return Header(**{**fields, **changes})


def _sample(
    how: Making, rng: np.random.Generator, number: int, block: int, at_s: float, drift_ms: float
) -> Sample:
    drawn = {n: float(rng.gamma(SHAPE, mean / SHAPE)) for n, mean in PARTS.items()}
    parts = {name: value + how.more.get(name, 0.0) for name, value in drawn.items()}
    parts["unattributed"] += drift_ms
    category = how.categories[number % len(how.categories)] if how.categories else None
    parts["engine first token"] += how.category_ms.get(category or "", 0.0)
    first = sum(list(parts.values())[: list(parts).index("engine generation")])
    whole = sum(parts.values())
    common: dict[str, Any] = {
        "i": number + how.warm_up,
        "block": block,
        "phase": "warmup" if number < 0 else "measured",
        "sent_s": at_s,
        "prompt_id": f"p{max(0, number)}",
        "category": category,
    }
    if number >= 0 and rng.random() < how.failing:
        return Sample(
            **common,
            end_s=at_s + 0.005,
            status=503,
            outcome="refused",
            error=Failure("upstream_busy", "server_error"),
        )
    expected = None if how.right is None else "Oslo"
    answer = None if how.right is None else "Oslo" if rng.random() < how.right else "Bergen"
    return Sample(
        **common,
        headers_s=at_s + parts["before t0"] / 1000,
        first_content_s=at_s + first / 1000,
        first_answer_s=at_s + first / 1000,
        last_content_s=at_s + (whole - 0.1) / 1000,
        end_s=at_s + whole / 1000,
        gaps_ms=tuple([(whole - first) / 23] * 23),
        status=200,
        outcome="ok",
        finish_reason="stop",
        usage=Usage(how.input_tokens, how.output_tokens),
        x_cache="miss",
        request_id="req_" + f"{number + how.warm_up:024x}",
        answer_sha256=hashlib.sha256((answer or f"answer {number}").encode()).hexdigest(),
        record=_record(how, parts, category) if how.known else None,
        answer=answer,
        expected=expected,
    )


def _record(how: Making, parts: Mapping[str, float], category: str | None) -> dict[str, Any]:
    queue, token = parts["engine queue"], parts["engine first token"]
    call = queue + token + parts["unattributed"]
    stages = {
        **{n: parts[n] for n in ("authenticate", "receive", "guard", "look_up", "admit")},
        "assemble": parts["assemble"],
        "model_call": call,
        "forward_first": parts["forward_first"],
        "stream": parts["engine generation"] + parts["stream beyond the engine"],
    }
    t3 = sum(stages[n] for n in list(stages)[:6])
    t5 = t3 + call + parts["forward_first"]
    engine = {
        "queue_time_ms": queue,
        "time_to_first_token_ms": token,
        "generation_time_ms": parts["engine generation"],
        "mean_itl_ms": parts["engine generation"] / 23,
        "tokens_per_second": 1000.0 * 24 / parts["engine generation"],
    }
    return {
        "schema": "nearfar.record/1",
        **LABELS,
        **how.labels,
        "category": category,
        "cache": "miss",
        "status": 200,
        "trips": {"near": 1, "far": 1, "upkeep": 0},
        "tokens": {"input": how.input_tokens, "output": how.output_tokens},
        "edge": {
            "t0": 0.0,
            "t1": None,
            "t2": None,
            "t3": t3,
            "t4": t3 + call,
            "t5": t5,
            "t6": t5 + stages["stream"],
        },
        "stages": stages,
        "derived": {
            "application_first_content_latency": t5,
            "model_call_first_content_latency": call,
            "retrieval_duration": None,
            "stream_forwarding_delay": parts["forward_first"],
            "unattributed": parts["unattributed"] if how.told else call,
        },
        "engine": engine if how.told else None,
        "client": None,
        "not_available": {},
    }
