"""The recipe itself, small: by proxies, which any machine permits, and by the best way there is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from distance import places, table
from distance.links import TESTS, possible
from distance.run import FIRST_CONTENT_MS, Found
from nearfar import checkout
from nearfar.placement.subjects import PLACEMENTS, Placement

# The recipe builds the component where that was not done.
pytestmark = pytest.mark.timeout(300)
AWAY_MS = 60.0
# A busy machine wakes late; nothing arrives early.
EARLY_MS = 1.0


@pytest.mark.parametrize("away_ms", [0.0, 3.0, *places.AWAY_MS])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_every_path_stands_on_the_way_from_the_user_to_the_gpu(
    placement: Placement, away_ms: float
) -> None:
    found = places.place(placement, away_ms)
    assert found.user_ms + found.gpu_ms == pytest.approx(away_ms)
    assert found.user_ms >= 0
    assert found.gpu_ms >= 0


def test_the_placements_differ_in_where_the_path_stands() -> None:
    box, container, edge = (places.place(each, 80) for each in PLACEMENTS)
    assert (80, 0, "process") == (box.user_ms, box.gpu_ms, box.host)
    assert (78, 2, "process") == (container.user_ms, container.gpu_ms, container.host)
    assert (5, 75, "component") == (edge.user_ms, edge.gpu_ms, edge.host)


def sample(answer: str, connection: str, ms: float) -> dict[str, Any]:
    return {
        "answer": answer,
        "connection": connection,
        "first_content_ms": ms,
        "connect_ms": 1.0 if connection == "new" else None,
    }


def test_the_table_has_a_row_for_each_place_and_tells_what_is_left_out(tmp_path: Path) -> None:
    found = Found(places.place("split", 80), [sample("cached", "new", 7)], ["cached: status 500"])
    text = "\n".join(table.lines([found], "proxy"))
    assert "a TCP proxy delays what is sent" in text
    assert "| 80 ms | edge plus GPU | 5 + 75 | 1.0 (1.0 to 1.0 seen) | not available" in text
    assert "1 answers were not as asked and are left out: edge plus GPU: cached" in text
    page = tmp_path / "page.md"
    page.write_text(f"a\n{table.BEGIN}\nold\n{table.END}\nb\n")
    table.write_into(page, "new")
    assert f"a\n{table.BEGIN}\nnew\n{table.END}\nb\n" == page.read_text()
    page.write_text("no marks")
    with pytest.raises(ValueError, match="lacks"):
        table.write_into(page, "new")


def median(place: Mapping[str, Any], answer: str, connection: str, name: str) -> float:
    values = sorted(
        s[name] for s in place["samples"] if (s["answer"], s["connection"]) == (answer, connection)
    )
    return float(values[len(values) // 2])


@pytest.mark.parametrize("mode", sorted({possible()[0], "proxy"}))
def test_each_placement_waits_for_the_trips_that_it_makes(mode: str) -> None:
    env = os.environ | {"PYTHONPATH": f"{checkout.python_path(checkout.here())}:{TESTS}"}
    argv = [sys.executable, "-P", "-m", "distance", "--json", "--mode", mode]
    argv += ["--away", f"{AWAY_MS:g}", "--repeats", "3"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr
    found = {each["place"]["placement"]: each for each in json.loads(done.stdout)["places"]}
    assert set(PLACEMENTS) == set(found)
    for name, place in found.items():
        user_ms, gpu_ms = place["place"]["user_ms"], place["place"]["gpu_ms"]
        assert [] == place["wrong"]
        assert 12 == len(place["samples"])
        hit = median(place, "cached", "reused", "first_content_ms")
        miss = median(place, "model's", "reused", "first_content_ms")
        new = median(place, "cached", "new", "first_content_ms")
        assert hit >= user_ms - EARLY_MS, name
        assert new >= 2 * user_ms - EARLY_MS, name
        assert miss >= user_ms + gpu_ms + FIRST_CONTENT_MS - EARLY_MS, name
        if mode != "proxy":  # a proxy takes a connection at once
            assert median(place, "cached", "new", "connect_ms") >= user_ms - EARLY_MS
    hits = {n: median(p, "cached", "reused", "first_content_ms") for n, p in found.items()}
    assert hits["split"] < hits["one-box"]


def test_a_mode_that_is_not_permitted_is_told() -> None:
    env = os.environ | {
        "PYTHONPATH": f"{checkout.python_path(checkout.here())}:{TESTS}",
        "PATH": str(Path(sys.executable).parent),
    }
    argv = [sys.executable, "-P", "-m", "distance", "--mode", "netem"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert 2 == done.returncode
    assert "this machine does not permit netem" in done.stderr
