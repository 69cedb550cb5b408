"""What placements cost: sums of what was observed, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearfar.placement import costs, ways_table
from nearfar.placement.subjects import Placement
from nearfar.placement.vantage import Vantage, document, of_document
from nearfar.placement.ways import Probed, Trip, Way


def way(trip_ms: float, url: str = "http://10.0.0.1") -> Way:
    """A way whose connection takes one trip, and whose answer one more."""
    trips = [
        Trip("new", None, trip_ms, None, trip_ms, 200),
        Trip("reused", None, None, None, trip_ms, 200),
    ]
    return Way(url, "/healthz", trips)


def probed(exchange_ms: float, connect_ms: float = 1.0) -> Probed:
    return Probed(
        region="x",
        store=[{"ms": 9.0, "round_trips": 2}, {"ms": 0.5, "round_trips": 1}],
        upstreams={
            "gpu": {
                "question": "GET /v1/models",
                "connect_ms": [connect_ms],
                "exchanges": [
                    {"status": 200, "head_ms": exchange_ms, "end_ms": None, "first": True}
                ],
                "connect_why_not": "",
                "exchange_why_not": "",
            }
        },
    )


def seen(**changes: Any) -> Vantage:
    """An edge 5 ms from the user and 75 ms from the GPU, which is 80 ms from the user."""
    given: dict[str, Any] = {"edge_probe": probed(75.0), "gpu": way(80.0)} | changes
    return Vantage("here", way(5.0), **given)


@pytest.mark.parametrize(
    ("placement", "answer", "connection", "ms"),
    [
        ("split", "cached", "reused", 5),
        ("split", "cached", "new", 10),
        ("split", "model's", "reused", 80),
        ("split", "model's", "new", 85),
        ("one-box", "cached", "reused", 80),
        ("one-box", "cached", "new", 160),
        ("one-box", "model's", "new", 160),
        ("container", "cached", "reused", 78),
        ("container", "model's", "reused", 80),
    ],
)
def test_a_cost_is_the_sum_of_what_lies_one_after_the_other(
    placement: Placement, answer: str, connection: Any, ms: float
) -> None:
    vantage = seen(container=way(78.0), container_probe=probed(2.0))
    assert ms == costs.cost(vantage, placement, answer, connection).ms


@pytest.mark.parametrize(
    ("changes", "placement", "why_not"),
    [
        ({"gpu": None}, "one-box", "pass --gpu"),
        ({}, "container", "pass --container"),
        ({"edge_probe": Probed(why_not="no key")}, "split", "no key"),
        ({"edge_probe": Probed()}, "split", "no upstream"),
        ({"gpu": Way("http://x", "/", why_not="it is away")}, "one-box", "it is away"),
        ({"gpu": Way("http://x", "/")}, "one-box", "no trip on a reused connection"),
    ],
)
def test_what_was_not_observed_is_never_added(
    changes: dict[str, Any], placement: Placement, why_not: str
) -> None:
    found = costs.cost(seen(**changes), placement, "model's", "reused")
    assert found.ms is None
    assert why_not in found.why_not


def test_a_cached_answer_does_not_need_the_far_way() -> None:
    vantage = seen(edge_probe=Probed(why_not="no key"))
    assert 5 == costs.cost(vantage, "split", "cached", "reused").ms


def test_of_several_upstreams_the_farthest_counts() -> None:
    both = probed(75.0)
    both.upstreams["far"] = probed(300.0).upstreams["gpu"]
    assert 305 == costs.cost(seen(edge_probe=both), "split", "model's", "reused").ms


@settings(deadline=None)
@given(st.floats(0.1, 500), st.floats(0.1, 500), st.floats(0.1, 500))
def test_at_the_turn_both_placements_cost_the_same(edge: float, far: float, box: float) -> None:
    vantage = Vantage("here", way(edge), probed(far), gpu=way(box))
    found = costs.turn(vantage)
    assert found is not None
    assert 0 <= found.share <= 1
    if 0 < found.share < 1:
        split = found.share * edge + (1 - found.share) * (edge + far)
        assert split == pytest.approx(box, abs=1e-6)
    elif found.share == 0:
        assert edge + far <= box + 1e-9
    else:
        assert edge >= box - 1e-9


def test_without_a_way_to_the_box_there_is_no_turn() -> None:
    assert costs.turn(seen(gpu=None)) is None


def test_the_table_names_the_two_distances_first() -> None:
    lines = ways_table.lines([seen()])
    assert "from here" == lines[0]
    assert lines[2].startswith("user to edge, one round trip")
    assert "5.00 ms" in lines[2]
    assert lines[3].startswith("edge to gpu, one round trip")
    assert "1.00 ms" in lines[3]
    text = "\n".join(lines)
    assert "near store, one round trip       0.50 ms" in text
    assert "the server is named by its address" in text


def test_the_table_says_where_the_decision_turns() -> None:
    assert ["At this edge a cached answer is 75.0 ms nearer, and one of the model no farther."] == (
        ways_table.turning(seen())
    )
    text = "\n".join(ways_table.turning(seen(edge_probe=probed(100.0))))
    assert "from 25% cached answers on" in text
    assert "1.00 ms farther at this edge than on the box" in "\n".join(
        ways_table.turning(seen(gpu=way(4.0)))
    )
    assert [] == ways_table.turning(seen(gpu=None))


def test_a_percentile_stands_only_where_n_carries_it() -> None:
    assert "" == ways_table.beyond([1.0] * 9)
    assert ", p90 1.00 ms" == ways_table.beyond([1.0] * 10)
    assert "p99 1.00 ms" in ways_table.beyond([1.0] * 100)
    assert "p99" not in ways_table.beyond([1.0] * 99)


def test_a_document_is_read_as_it_was_written_under_another_name() -> None:
    vantage = seen(container=way(78.0), container_probe=probed(2.0))
    (found,) = of_document(document([vantage]), "tokyo", "x.json")
    assert "tokyo" == found.name
    found.name = "here"
    assert vantage == found


def test_several_vantages_of_one_document_keep_their_names_behind_it() -> None:
    other = seen()
    other.name = "osaka"
    found = of_document(document([seen(), other]), "japan", "x.json")
    assert ["japan/here", "japan/osaka"] == [each.name for each in found]
