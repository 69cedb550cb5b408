"""How often the comparison is right, over simulated pairs of runs with a known difference.

    python -m tests.simulation.pairs --simulations 1000      (just coverage)

Requests within a block wait for each other (a first-order autoregression) and blocks drift; their
times are skewed, as latencies are. Nothing here is a normal distribution.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nearfar.stats.blocks import Cells
from nearfar.stats.bootstrap import difference
from nearfar.stats.verdict import Measured, judged

PER_BLOCK = 12
CARRIED = 0.6  # how much of a request's excess its successor inherits
DRAWS = 999
# Truth: nothing, and half and twice what would just be seen at 20 blocks.
EFFECTS_MS = (0.0, 2.0, 8.0)
FELT = 3  # rows that are judged together


@dataclass(frozen=True, slots=True)
class Design:
    """One way of measuring."""

    blocks: int
    paired: bool

    def __str__(self) -> str:
        return f"{self.blocks} blocks, {'in turns' if self.paired else 'one after the other'}"


DESIGNS = tuple(Design(blocks, paired) for paired in (True, False) for blocks in (8, 12, 20, 40))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the comparisons of one design said, in shares of all."""

    design: Design
    covered: float
    false_slower: float
    false_findings: float
    simulations: int


def requests(rng: np.random.Generator, count: int, blocks: int) -> np.ndarray:
    """Times of (count, blocks, PER_BLOCK) requests: skewed, and each like the one before."""
    fresh = rng.gamma(2.0, 10.0, (count, blocks, PER_BLOCK)) - 20.0
    excess = np.zeros((count, blocks))
    times = np.empty_like(fresh)
    for at in range(PER_BLOCK):
        excess = CARRIED * excess + fresh[:, :, at]
        times[:, :, at] = 100.0 + excess
    return times


def simulate(design: Design, simulations: int, seed: int) -> Outcome:
    """Compare so many simulated pairs."""
    rng = np.random.default_rng([seed, design.blocks, design.paired])
    covered = slower = found = 0
    for number in range(simulations):
        drift = rng.gamma(1.5, 8.0, (FELT, design.blocks, 1))
        other = drift if design.paired else rng.gamma(1.5, 8.0, (FELT, design.blocks, 1))
        before = requests(rng, FELT, design.blocks) + drift
        after = requests(rng, FELT, design.blocks) + other
        effect = EFFECTS_MS[number % len(EFFECTS_MS)]
        family = [
            difference(_cells(a), _cells(b), paired=design.paired, draws=DRAWS, seed=number)
            for a, b in zip(before, after, strict=True)
        ]
        known = difference(
            _cells(before[0]),
            _cells(after[0] + effect),
            paired=design.paired,
            draws=DRAWS,
            seed=number,
        )
        low, high = known.interval()
        covered += low <= effect <= high
        verdicts = judged([Measured(str(n), "ms", one, (1, 1)) for n, one in enumerate(family)])
        slower += any(one.word == "slower" for one in verdicts)
        found += any(one.seen for one in verdicts)
    return Outcome(
        design, covered / simulations, slower / simulations, found / simulations, simulations
    )


def _cells(times: np.ndarray) -> Cells:
    counts = np.full((len(times), 1), float(times.shape[1]))
    return Cells(times.sum(axis=1, keepdims=True), counts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one line for each design; 1 where one is out of its bounds."""
    parser = argparse.ArgumentParser(prog="coverage", description="Is the comparison right?")
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    print(f"{'design':<36} {'95% interval covers':>20} {'false slower':>13} {'false finding':>14}")
    wrong = 0
    for design in DESIGNS:
        one = simulate(design, given.simulations, given.seed)
        print(
            f"{design!s:<36} {one.covered:>20.1%} {one.false_slower:>13.1%} "
            f"{one.false_findings:>14.1%}",
            flush=True,
        )
        wrong += not (0.93 <= one.covered <= 0.97 and one.false_slower <= 0.05)
    print(f"of {given.simulations} each; bounds: 93 to 97%, at most 5%")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
