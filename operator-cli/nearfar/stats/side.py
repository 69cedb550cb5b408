"""Two runs as the statistics take them: the good requests of each, and their blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nearfar.errors import BadInput
from nearfar.runs import Run, Sample
from nearfar.stats.blocks import Cells, cells, numbered

# Runs that were measured in turns carry the same value here, and their blocks are pairs.
INTERLEAVED = "interleaved"


@dataclass(frozen=True, slots=True)
class Sides:
    """Whole answers before and after, and the row of each request's block.

    `paired`: row k of one side ran beside row k of the other.
    """

    before: tuple[Sample, ...]
    after: tuple[Sample, ...]
    places: tuple[Mapping[int, int], Mapping[int, int]]
    rows: tuple[int, int]
    paired: bool

    def cells(self, which: int, values: Mapping[int, float]) -> Cells:
        """Sum up values of a side, which are given by the number of their request."""
        place = self.places[which]
        return cells(
            list(values.values()), [place[at] for at in values], shape=(self.rows[which], 1)
        )

    def both(self, value: Callable[[Sample], float | None]) -> tuple[Cells, Cells]:
        """Sum up a quantity on both sides."""
        found = []
        for which, samples in enumerate((self.before, self.after)):
            taken = {at: v for at, s in enumerate(samples) if (v := value(s)) is not None}
            found.append(self.cells(which, taken))
        return found[0], found[1]


def sides(before: Run, after: Run) -> Sides:
    """Take the good requests of two runs.

    Raises:
        BadInput: a run has none.
    """
    for run, name in ((before, "before"), (after, "after")):
        if not run.good:
            raise BadInput(f"The run {name} holds no whole answer after its warm-up.", _why(run))
    if interleaved(before, after):
        blocks = [tuple(sample.block for sample in run.good) for run in (before, after)]
        row = {block: at for at, block in enumerate(sorted({*blocks[0], *blocks[1]}))}
        one, two = ({at: row[b] for at, b in enumerate(side)} for side in blocks)
        return Sides(before.good, after.good, (one, two), (len(row), len(row)), True)
    places = (numbered(before.good), numbered(after.good))
    sizes = (1 + max(places[0].values()), 1 + max(places[1].values()))
    return Sides(before.good, after.good, places, sizes, False)


def interleaved(before: Run, after: Run) -> bool:
    """Whether the runs were measured in turns, so that what else happened happened to both."""
    one, two = (run.header.settings.get(INTERLEAVED) for run in (before, after))
    return one is not None and one == two


def _why(run: Run) -> str:
    failed = [sample for sample in run.measured if not sample.ok]
    if not failed:
        return "measure again; the run is empty or was stopped in its warm-up."
    codes = sorted({s.error.code if s.error else s.outcome for s in failed})
    return f"all {len(failed)} requests failed ({', '.join(codes[:4])})."
