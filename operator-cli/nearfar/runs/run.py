"""A whole run, as the tables, the comparison and the report take it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from nearfar.runs.header import Header
from nearfar.runs.sample import Sample

Reason = Literal["done", "interrupted", "failed"]


@dataclass(frozen=True, slots=True)
class End:
    """The last line. `requests` counts the samples before it, those of the warm-up included."""

    ended_at: str
    requests: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Run:
    """A header, its samples in the order in which they ended, and the end if one was written."""

    header: Header
    samples: tuple[Sample, ...] = ()
    end: End | None = None

    @property
    def measured(self) -> tuple[Sample, ...]:
        """The samples after the warm-up."""
        return tuple(sample for sample in self.samples if sample.phase == "measured")

    @property
    def good(self) -> tuple[Sample, ...]:
        """The measured samples with a whole answer: what latency is taken from."""
        return tuple(sample for sample in self.measured if sample.ok)

    @property
    def is_whole(self) -> bool:
        """Whether the run came to the end that was planned."""
        return self.end is not None and self.end.reason == "done"

    @property
    def error_rate(self) -> float | None:
        """The share of measured requests without a whole answer; None where none was sent.

        Requests that were ended by us (ctrl-C) are neither good nor failed, and not counted.
        """
        counted = [sample for sample in self.measured if sample.outcome != "aborted"]
        return sum(not s.ok for s in counted) / len(counted) if counted else None

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms of an interleaved run, in the order in which they first appear."""
        return tuple(dict.fromkeys(s.arm for s in self.samples if s.arm is not None))

    def of_arm(self, arm: str) -> Run:
        """The same run with one arm's samples only."""
        return self.with_samples(s for s in self.samples if s.arm == arm)

    def with_samples(self, samples: Iterable[Sample]) -> Run:
        """The same run with other samples."""
        return replace(self, samples=tuple(samples))
