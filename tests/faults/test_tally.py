"""The table of faults tells a pass from a failure, from nothing that checks it, from not built."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from faults.kinds import KINDS, Kind
from faults.tally import Row, Tally, table

pytest_plugins = ("pytester",)

SOURCE = """
import pytest

@pytest.mark.fault(6)
@pytest.mark.parametrize("n", [1, 2])
def test_good(n): pass

@pytest.mark.fault(8, 14)
def test_bad(): assert False

@pytest.fixture
def broken(): raise ValueError

@pytest.mark.fault(17)
def test_never_called(broken): pass

@pytest.mark.fault(18)
def test_skipped(): pytest.skip("not here")

def test_of_no_kind(): assert False
"""


def ends(tally: Tally) -> dict[int, tuple[str, int]]:
    return {row.kind.number: (row.end, row.tests) for row in tally.rows()}


@pytest.fixture
def ini(pytester: pytest.Pytester) -> Path:
    return pytester.makeini("[pytest]\nmarkers =\n    fault(*kinds): kinds\n")


def test_a_kind_fails_when_any_of_its_tests_did_not_pass(
    pytester: pytest.Pytester, ini: Path
) -> None:
    pytester.makepyfile(SOURCE)
    tally = Tally()
    pytester.inline_run("-m", "fault", "-p", "no:asyncio", plugins=[tally])
    found = ends(tally)
    assert ("pass", 2) == found[6]
    assert [("fail", 1)] * 4 == [found[kind] for kind in (8, 14, 17, 18)]
    assert ("fail", 0) == found[1]
    assert [("not built", 0)] * 2 == [found[kind] for kind in (3, 4)]


def test_only_the_wanted_kinds_run(pytester: pytest.Pytester, ini: Path) -> None:
    pytester.makepyfile(SOURCE)
    tally = Tally(frozenset({6, 14}))
    pytester.inline_run("-m", "fault", "-p", "no:asyncio", plugins=[tally])
    assert {6: ("pass", 2), 14: ("fail", 1)} == ends(tally)


def test_a_part_that_is_not_built_is_said_beside_the_rest() -> None:
    half = Kind(9, "t", "paraphrases", whole=False)
    row = Row.of(half, Counter(passed=3))
    assert ("pass", 3, "not built: paraphrases") == (row.end, row.tests, row.note)


def test_the_table_has_every_kind_and_sums_up() -> None:
    text = table(Row.of(kind, Counter(passed=1)) for kind in KINDS)
    numbers = [kind.number for kind in KINDS]
    assert list(range(1, 29)) == numbers
    assert numbers == [int(line.split()[0]) for line in text.splitlines()[:-1]]
    assert text.endswith(f"{len(KINDS) - 2} pass, 0 fail, 2 not built")
