"""Requests of a run in blocks: what the bootstrap draws.

Requests under load wait for each other, so they are not independent; blocks of neighbouring
requests nearly are. Everything here is sums and counts by block and group, from which means are
made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearfar.runs import Sample

Floats = NDArray[np.float64]

# Below this many blocks the bootstrap's interval is far too wide or too narrow to say anything
# (docs/decisions/0015).
LEAST_BLOCKS = 8
# A run that came without enough blocks is cut into so many, of at least so many requests each.
CUT_BLOCKS = 20
LEAST_PER_BLOCK = 4


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Sums and counts of one quantity, both of shape (blocks, groups)."""

    sums: Floats
    counts: Floats

    def __post_init__(self) -> None:
        if self.sums.shape != self.counts.shape or self.sums.ndim != 2:
            raise ValueError("sums and counts are of one shape, (blocks, groups)")

    @property
    def blocks(self) -> int:
        """How many blocks hold anything."""
        return int((self.counts.sum(axis=1) > 0).sum())

    @property
    def requests(self) -> int:
        """How many requests are counted."""
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        """The mean over all requests of all groups; nan where there is none."""
        total = self.counts.sum()
        return float(self.sums.sum() / total) if total else float("nan")

    def shares(self) -> Floats:
        """Each group's share of the requests."""
        counts: Floats = self.counts.sum(axis=0)
        return counts / max(1.0, float(counts.sum()))

    def of_blocks(self, rows: NDArray[np.intp]) -> Cells:
        """These blocks only, in this order."""
        return Cells(self.sums[rows], self.counts[rows])


def cells(
    values: Sequence[float],
    blocks: Sequence[int],
    groups: Sequence[int] | None = None,
    *,
    shape: tuple[int, int],
) -> Cells:
    """Sum up values by the numbers of block and group; `shape` is how many there are of each."""
    rows = np.asarray(blocks, dtype=np.intp)
    columns = np.zeros_like(rows) if groups is None else np.asarray(groups, dtype=np.intp)
    sums, counts = np.zeros(shape), np.zeros(shape)
    np.add.at(sums, (rows, columns), np.asarray(values, dtype=float))
    np.add.at(counts, (rows, columns), 1.0)
    return Cells(sums, counts)


def numbered(samples: Sequence[Sample]) -> Mapping[int, int]:
    """Return the block of each sample from 0 on, by the sample's number in this sequence.

    The run's own blocks where there are enough of them; else neighbours in the order in which
    they were sent, in up to `CUT_BLOCKS` runs of equal length.
    """
    own = {block: at for at, block in enumerate(sorted({sample.block for sample in samples}))}
    if len(own) >= LEAST_BLOCKS:
        return {at: own[sample.block] for at, sample in enumerate(samples)}
    wanted = min(CUT_BLOCKS, max(1, len(samples) // LEAST_PER_BLOCK))
    order = sorted(range(len(samples)), key=lambda at: samples[at].sent_s)
    return {at: place * wanted // len(samples) for place, at in enumerate(order)}
