"""The tables of the bench: what was not measured is not shown as a figure."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench import edge, report
from bench.aims import AIMS

ROW = {
    "part": "memory",
    "target": "edge",
    "streams": 64,
    "n": 10,
    "error_rate": 0.0,
    "errors": {},
    "x_cache": "miss",
    "cpu_ms_each": None,
    "rss_before_mib": 70.0,
    "rss_most_mib": 197.5,
    "pss_most_mib": 103.934,
}
PAGE = f"# Title\n{report.BEGIN}\nold\n{report.END}\nrest\n"


def run_with(*rows: dict[str, Any]) -> dict[str, Any]:
    effort = {"rounds": 1, "seconds": 1.0, "streams": 1}
    return {"machine": report.machine(), "effort": effort, "missing": {}, "rows": list(rows)}


def test_an_aim_stands_beside_what_was_measured() -> None:
    text = report.markdown(run_with(ROW))
    assert "| memory with 64 open streams: under 128 MiB | 103.93 MiB |     yes |" in text


def test_an_aim_whose_part_was_not_measured_is_not_shown() -> None:
    text = report.markdown(run_with(ROW))
    assert [aim.text in text for aim in AIMS] == [aim.part == "memory" for aim in AIMS]


def test_what_was_not_observed_is_no_number() -> None:
    text = report.markdown(run_with({**ROW, "pss_most_mib": None}))
    assert "not available" in text
    assert "|            - |" in text


def test_a_missed_aim_says_so() -> None:
    assert "|      no |" in report.markdown(run_with({**ROW, "pss_most_mib": 128.0}))


def test_every_aim_is_about_a_figure_that_its_part_shows() -> None:
    columns = {part: columns for part, (_, columns) in report._PARTS.items()}
    for aim in AIMS:
        assert aim.figure in columns[aim.part]


def test_the_tables_take_the_place_of_the_old_ones(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    report.write_into(page, "new")
    assert f"# Title\n{report.BEGIN}\nnew\n{report.END}\nrest\n" == page.read_text()


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n")
    with pytest.raises(ValueError, match="lacks"):
        report.write_into(page, "new")
    assert "# Title\n" == page.read_text()


@pytest.mark.parametrize(
    ("change", "doubt"),
    [
        ({"error_rate": 0.02, "errors": {"status 503": 2}}, "failed"),
        ({"x_cache": "bypass"}, "x-cache said bypass"),
        ({"x_cache": "hit miss"}, "x-cache said hit miss"),
    ],
)
def test_figures_that_say_nothing_are_doubted(change: dict[str, Any], doubt: str) -> None:
    assert [] == edge._doubts(ROW)
    (found,) = edge._doubts({**ROW, **change})
    assert doubt in found


def test_a_run_without_the_edge_fails(tmp_path: Path) -> None:
    kept = tmp_path / "run.json"
    kept.write_text(json.dumps(run_with(ROW)))
    assert 0 == edge.main(["--read", str(kept)])
    kept.write_text(json.dumps(run_with() | {"missing": {"edge": "it let anybody in"}}))
    assert 1 == edge.main(["--read", str(kept)])
