"""Far above an engine's capacity admission keeps goodput up, where without it it collapses.

`just overload` measures it at length; here one short run has to do, with bounds that a busy
machine keeps.
"""

from __future__ import annotations

from pathlib import Path

from bench import engines, goodput, overload
from bench.goodput import ADMITTED, BARE, Effort

THREE_TIMES = Effort(factors=(3.0,), seconds=5.0, warm_s=1.5, patience_s=2.0)


async def test_goodput_at_three_times_the_capacity(tmp_path: Path) -> None:
    with engines.fake(tmp_path) as engine, overload.stacks(engine, tmp_path) as targets:
        per_s, rows = await overload.run(engine, targets, THREE_TIMES)
    share = {row.name: row.share for row in rows}
    text = overload.table(
        {"engine": engine.name, "capacity_per_s": per_s, "objective_s": 0.5}, rows
    )
    assert share[ADMITTED] >= 0.7, text
    assert share[BARE] <= 0.3, text
    admitted = next(row for row in rows if row.name == ADMITTED)
    # Whoever was not answered was told so at once, and nobody was left waiting.
    assert {"answered", "status 503"} >= set(admitted.outcomes), text
    assert goodput.as_json(rows)
