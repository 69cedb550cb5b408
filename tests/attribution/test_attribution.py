"""Ten runs of the attribution benchmark, one for each place that is built and one for none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from attribution import __main__ as report
from attribution.bench import Attribution, Bench
from attribution.places import NOTHING, NOWHERE, PLACES, Injection

# The component is built first, where its source changed.
pytestmark = pytest.mark.timeout(600)
# Far above what a machine that also runs other tests does to a request.
DELAY_MS = 80.0
ROUNDS = (12, 24, 48)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Bench(tmp_path_factory.mktemp("attribution")) as found:
        yield found


BUILT = [place for place in PLACES if place.built]


@pytest.mark.parametrize("place", BUILT, ids=lambda place: place.name)
def test_a_delay_is_found_where_it_was_put(bench: Bench, place: object) -> None:
    number = BUILT.index(place)  # type: ignore[arg-type]
    side = ("before", "after")[number % 2]
    injection = Injection(BUILT[number], DELAY_MS, side, number)
    for rounds in ROUNDS:
        found = bench.attribute(injection, rounds)
        if found.said != NOTHING or injection.place.name == NOWHERE:
            break  # a busy machine needs more rounds to be sure; a wrong name gets no second try
    assert found.right, found
    assert [] == report.claimed_unseen([found])


def made(pairs: Sequence[tuple[str, str]]) -> list[Attribution]:
    by_name = {place.name: place for place in PLACES}
    return [
        Attribution(Injection(by_name[at], 20.0, "after", 0), said, None, 1.0) for at, said in pairs
    ]


def test_the_tables_count_what_was_said() -> None:
    found = made(
        [
            ("cache", "look_up"),
            ("cache", "nothing"),
            ("client link", "client link"),
            (NOWHERE, "nothing"),
            (NOWHERE, "look_up"),
        ]
    )
    told = "\n".join(report.summary(found))
    assert "can be proved: 1 of 3" in told
    assert "named another part: 1 of 3; named none: 1 of 3" in told
    assert "could not see: 1 of 5" in told
    assert "where nothing was: 1 of 2" in told
    (row,) = [line for line in report.matrix(found) if line.startswith("cache ")]
    assert ["cache", "·", "·", "1"] == row.split()[:4]
    assert any(
        line.startswith("retrieval") and "not built" in line for line in report.matrix(found)
    )
