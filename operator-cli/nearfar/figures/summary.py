"""What a run says: its figures, what failed, its rates, its goodput. Made from the run alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nearfar.figures.lanes import LATE, Kind, kinds
from nearfar.figures.percentiles import Figure
from nearfar.runs import Objectives, Run, Sample

# A generator that is later than this at its 99th percentile has measured itself as well.
LATE_MS = 5.0


@dataclass(frozen=True, slots=True)
class Row:
    """One figure over the good samples."""

    kind: Kind
    figure: Figure


@dataclass(frozen=True, slots=True)
class Class:
    """The samples of one kind of answer: from the cache or not, by a new instance or not."""

    name: str
    n: int
    first_content_ms: Figure
    end_to_end_ms: Figure


@dataclass(frozen=True, slots=True)
class Goodput:
    """Requests that kept every objective: a second, and of those that were measured."""

    kept: int
    of: int
    per_s: float | None

    @property
    def share(self) -> float | None:
        """None where nothing was measured."""
        return self.kept / self.of if self.of else None


@dataclass(frozen=True, slots=True)
class Summary:
    """A run's figures. Failed samples are in `outcomes` and the error rate, never in latency."""

    run: Run
    rows: tuple[Row, ...]
    classes: tuple[Class, ...]
    outcomes: Mapping[str, int]
    failures: Mapping[str, int]
    window_s: float | None
    goodput: Goodput | None
    late: Figure | None

    @property
    def error_rate(self) -> float | None:
        """See `Run.error_rate`."""
        return self.run.error_rate

    def per_s(self, count: float) -> float | None:
        """A count over the time that was measured."""
        return count / self.window_s if self.window_s else None


def of(run: Run) -> Summary:
    """Sum a run up."""
    good, measured = run.good, run.measured
    window_s = window(measured)
    return Summary(
        run=run,
        rows=tuple(_rows(good)),
        classes=tuple(_classes(good)),
        outcomes=dict(Counter(sample.outcome for sample in measured)),
        failures=_failures(measured),
        window_s=window_s,
        goodput=goodput(run, window_s),
        late=_late(measured),
    )


def window(samples: Sequence[Sample]) -> float | None:
    """Seconds from the first request that was due, or sent, to the last one's end."""
    began = [s.sent_s if s.scheduled_s is None else s.scheduled_s for s in samples]
    ended = [s.end_s for s in samples if s.end_s is not None]
    return max(ended) - min(began) if ended and max(ended) > min(began) else None


def goodput(run: Run, window_s: float | None) -> Goodput | None:
    """None where no objective was set. A request that failed kept none."""
    if not run.header.objectives:
        return None
    counted = [sample for sample in run.measured if sample.outcome != "aborted"]
    kept = sum(keeps(sample, run.header.objectives) for sample in counted)
    return Goodput(kept, len(counted), kept / window_s if window_s else None)


def keeps(sample: Sample, objectives: Objectives) -> bool:
    """Whether a request kept every objective.

    In an open loop first content and end count from when the request was due: that is what its
    user waited. A TPOT that is not available keeps no objective, unless one token was all.
    """
    is_due = sample.scheduled_s is not None
    pairs = (
        (
            objectives.first_content_ms,
            sample.from_schedule_ms if is_due else sample.first_content_ms,
        ),
        (
            objectives.end_to_end_ms,
            sample.end_from_schedule_ms if is_due else sample.end_to_end_ms,
        ),
        (objectives.tpot_ms, 0.0 if sample.output_tokens == 1 else sample.tpot_ms),
    )
    return sample.ok and all(
        most is None or (value is not None and value <= most) for most, value in pairs
    )


def _rows(good: Sequence[Sample]) -> Iterable[Row]:
    for kind in kinds(good):
        figure = Figure.of(value for sample in good for value in kind.values(sample))
        yield Row(kind, figure)


def _classes(good: Sequence[Sample]) -> Iterable[Class]:
    named: dict[str, list[Sample]] = {}
    for sample in good:
        named.setdefault(_class_of(sample), []).append(sample)
    for name, samples in sorted(named.items()):
        yield Class(
            name,
            len(samples),
            Figure.of(sample.first_content_ms for sample in samples),
            Figure.of(sample.end_to_end_ms for sample in samples),
        )


def _class_of(sample: Sample) -> str:
    cache = f"cache {sample.x_cache}" if sample.x_cache else "no x-cache"
    instance = sample.recorded("instance")
    return f"{cache}, {instance} instance" if instance else cache


def _failures(measured: Iterable[Sample]) -> dict[str, int]:
    """What went wrong, and how often: `refused 503 upstream_busy`."""
    named = Counter(
        " ".join(
            str(part)
            for part in (s.outcome, s.status, s.error.code if s.error else None)
            if part is not None
        )
        for s in measured
        if not s.ok
    )
    return dict(named.most_common())


def _late(measured: Iterable[Sample]) -> Figure | None:
    figure = Figure.of(value for sample in measured for value in LATE.values(sample))
    return figure if figure.n else None


def document(summary: Summary) -> dict[str, Any]:
    """The same for JSON. Every figure has n and the error rate beside it."""
    run = summary.run
    output = sum(sample.output_tokens or 0 for sample in run.good)
    return {
        "run": run.header.run,
        "end": run.end.reason if run.end else "cut off",
        "requests": {
            "measured": len(run.measured),
            "good": len(run.good),
            "warm_up": len(run.samples) - len(run.measured),
            "outcomes": dict(summary.outcomes),
            "failures": dict(summary.failures),
        },
        "error_rate": summary.error_rate,
        "window_s": summary.window_s,
        "rates": {
            "good_requests_per_s": summary.per_s(len(run.good)),
            "output_tokens_per_s": summary.per_s(output) if output else None,
        },
        "goodput": _goodput(summary.goodput),
        "figures": {
            row.kind.key: {
                "lane": row.kind.lane,
                "unit": row.kind.unit,
                "error_rate": summary.error_rate,
                **row.figure.document(),
            }
            for row in summary.rows
        },
        "classes": {
            each.name: {
                "n": each.n,
                "first_content_ms": each.first_content_ms.document(),
                "end_to_end_ms": each.end_to_end_ms.document(),
            }
            for each in summary.classes
        },
        "generator": {"late_ms": summary.late.document() if summary.late else None},
    }


def _goodput(found: Goodput | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {"kept": found.kept, "of": found.of, "share": found.share, "per_s": found.per_s}
