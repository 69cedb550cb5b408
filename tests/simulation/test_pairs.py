"""The comparison is right as often as it says, over simulated runs of known difference."""

from __future__ import annotations

import pytest

from simulation.pairs import DESIGNS, Design, simulate

SIMULATIONS = 200  # `just coverage` has more


@pytest.mark.parametrize("design", [d for d in DESIGNS if d.blocks in (8, 20)], ids=str)
def test_intervals_cover_and_nothing_is_called_slower_that_is_not(design: Design) -> None:
    """Seeded: with so few simulations another seed may fall out of the bounds by chance."""
    found = simulate(design, SIMULATIONS, seed=1)
    assert 0.93 <= found.covered <= 0.97
    assert found.false_slower <= 0.05
    assert found.false_findings <= 0.05
