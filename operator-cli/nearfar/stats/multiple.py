"""Looking at many stages at once: Holm's correction (Holm 1979, Scandinavian J. Statistics 6(2)).

It holds the chance of even one false finding at `alpha`, however the stages hang together.
"""

from __future__ import annotations

from collections.abc import Sequence

METHOD = "Holm"
ALPHA = 0.05


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return the adjusted p-values, in the order given; one at most alpha is a finding."""
    order = sorted(range(len(p_values)), key=lambda at: p_values[at])
    adjusted, so_far = [0.0] * len(p_values), 0.0
    for rank, at in enumerate(order):
        so_far = max(so_far, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = so_far
    return tuple(adjusted)
