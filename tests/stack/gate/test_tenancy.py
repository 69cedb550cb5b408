"""Neither header nor timing tells a tenant what another asked; `just tenancy` asks more often.

With so few pairs chance alone reaches further: the bound is wider, and a leak of a fraction of a
millisecond is the recipe's to find. What a cache that two tenants share would do is far beyond it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tenancy.__main__ import lines
from tenancy.judge import TOGETHER
from tenancy.run import tenancy

PAIRS = 160
PLANTED_MS = 30.0  # what so few pairs see on a machine that does other things too
TRIES = 3


@pytest.mark.fault(9)
@pytest.mark.timeout(300)
def test_another_tenants_answer_looks_like_none(tmp_path: Path) -> None:
    """What tells two tenants apart does so each time; a machine's own moods do not."""
    for number in range(TRIES):
        run = tmp_path / str(number)
        run.mkdir()
        found = tenancy(PAIRS, run, print, seed=number, planted_ms=PLANTED_MS)
        if all(each.right for each in found):
            break
    text = "\n".join(lines(found))
    assert ["other's", "underway", "own", "planted"] == [each.kind for each in found]
    assert all(each.right for each in found), text
    own = next(each for each in found if each.kind == "own")
    assert max(own.figures[TOGETHER], 1 - own.figures[TOGETHER]) > 0.95, "it would see a hit"
    assert not own.same_heads, "and the headers of one"
