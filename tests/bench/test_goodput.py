"""What counts as good, and that the load does not wait for its answers."""

import time
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from bench import chart, goodput, open_loop, overload
from bench.goodput import ADMITTED, BARE, Effort, Question, Row
from bench.load import Sample
from bench.open_loop import Arrival
from bench.target import Target
from fakes.script import Script
from fakes.upstream import Upstream

EFFORT = Effort(factors=(1.0,), seconds=4.0, warm_s=2.0, objective_s=0.5, patience_s=1.0)


def answered(due_s: float, first_content_s: float, error: str = "") -> Arrival:
    sample = Sample(due_s, first_content=due_s + first_content_s, ended=due_s + 1, error=error)
    return Arrival(due_s, sample)


def test_good_is_whole_in_time_and_after_the_warm_up() -> None:
    arrivals = [
        answered(0, 0.1),  # in the warm-up
        answered(2.1, 0.5),
        answered(2.2, 0.51),  # late
        answered(2.3, 0.1, error="no [DONE]"),
        Arrival(2.4, None),
        answered(3.9, 0.2),
    ]
    found = goodput.row("x", 1.0, 2.0, arrivals, [arrival.due_s for arrival in arrivals], EFFORT)
    assert (1.0, 0.5, 5, 2.5) == (found.goodput_per_s, found.share, found.n, found.offered_per_s)
    assert {"answered": 3, "no [DONE]": 1, "gave up": 1} == found.outcomes
    assert found.first_content_p99_s is None  # too few


def test_arrivals_are_drawn_at_their_rate_and_drawn_again_the_same() -> None:
    instants = open_loop.poisson(50, 200, seed=1)
    assert 0.97 < len(instants) / 10_000 < 1.03
    assert instants == sorted(instants)
    assert instants == open_loop.poisson(50, 200, seed=1) != open_loop.poisson(50, 200, seed=2)
    gaps = [after - before for before, after in pairwise(instants)]
    # Memoryless: the share of gaps longer than the mean is 1/e.
    assert 0.35 < sum(gap > 1 / 50 for gap in gaps) / len(gaps) < 0.39


async def test_the_load_does_not_wait_for_answers_and_clients_give_up() -> None:
    async with Upstream(Script(first_content_ms=300, chunks=3), slots=1) as u:
        question = Question("one two three", 3, {})
        plan = question.plan(Target("u", u.url), streams=1, count=1)
        began = time.monotonic()
        arrivals = await open_loop.run(u.url, plan, [0.0, 0.01, 0.02, 0.03], patience_s=0.8)
        assert time.monotonic() - began < 1.2
        assert ["answered", "answered", "gave up", "gave up"] == [a.outcome for a in arrivals]
        first, second = (a.first_content_s() or 0.0 for a in arrivals[:2])
        assert 0.3 <= first < 0.5
        assert 0.55 <= second < 0.8
        await u.wait_until(lambda: u.active == 0, 1, "everybody gone")


async def test_the_capacity_is_that_of_full_slots() -> None:
    async with Upstream(Script(first_content_ms=100, chunks=1), slots=4) as u:
        per_s = await goodput.capacity(Question("one", 1, {}), Target("u", u.url), 4, 1.0)
        assert 30 < per_s <= 40


async def test_an_engine_that_fails_alone_is_no_capacity() -> None:
    async with Upstream(Script(status=500)) as u:
        with pytest.raises(RuntimeError, match="status 500"):
            await goodput.capacity(Question("one", 1, {}), Target("u", u.url), 2, 0.2)


def rows(*shares: float) -> list[Row]:
    return [
        Row(name, factor, factor * 10, share * 10, share, 9, {"answered": 9}, 0.1, None)
        for factor, share in zip((0.5, 1.0, 3.0), shares, strict=True)
        for name in (ADMITTED, BARE)
    ]


def test_the_aim_is_that_goodput_stays_up_above_capacity() -> None:
    assert overload.reached(rows(0.5, 0.8, 0.9))
    assert not overload.reached(rows(0.5, 1.0, 0.89))


def test_table_and_drawing_have_every_run() -> None:
    found = {"engine": "a < b", "capacity_per_s": 10.0, "objective_s": 0.5}
    text = overload.table(found, rows(0.5, 1.0, 0.95))
    assert 6 == text.count("answered 9")
    assert "| 3x | with admission | 30.0 | 9.5 | 95% | 9 | 0.10 | - | answered 9 |" in text
    drawn = ET.fromstring(overload.drawing(found, rows(0.5, 1.0, 0.95)))  # noqa: S314
    assert 6 == len(drawn.findall("{*}circle"))
    assert {"with admission", "without admission"} <= {t.text for t in drawn.findall("{*}text")}


def test_a_point_stands_where_its_values_are() -> None:
    drawn = chart.svg("t", ("x", "y"), {"s": [(0, 0), (2, 1)]}, ([0, 1, 2], [0, 1]))
    left, bottom = float(chart.LEFT), float(chart.HEIGHT - chart.BOTTOM)
    right, top = float(chart.WIDTH - chart.RIGHT), float(chart.TOP)
    assert f'points="{left},{bottom} {right},{top}"' in drawn


def test_an_effort_that_counts_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="warm-up"):
        Effort(seconds=1.0, warm_s=1.0)
