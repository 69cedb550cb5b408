"""The report's page, its pictures and its command, without a browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from fakes.made_run import Making, made
from nearfar.figures import summary, tables
from nearfar.plots import load_curve, palette, report, stack
from nearfar.plots.html import escaped, table, tag
from nearfar.plots.palette import DARK, LIGHT
from nearfar.runs import Load, Objectives, Run, RunWriter

Call = Callable[..., Any]


def load(rate: float) -> Load:
    return Load(process="poisson", rate_per_s=rate, requests=200)


def written(path: Path, run: Run) -> str:
    with RunWriter(path, run.header) as writer:
        for sample in run.samples:
            writer.add(sample)
        writer.end()
    return str(path)


def test_the_page_holds_the_numbers_of_the_tables() -> None:
    run = made(Making(seed=1))
    page = report.render([run], "A page")
    for row in summary.of(run).rows:
        if row.figure.n and row.kind.lane != "generator":
            assert tables.number(row.figure.mean) in page
            assert tables.number(row.figure.at(0.5)) in page


def test_the_page_refers_to_nothing_outside_itself() -> None:
    page = report.render([made()], "A page")
    assert [] == re.findall(r"<(?:script|link|img|iframe|object|embed)\b", page)
    assert set() == {ref for ref in re.findall(r'(?:href|src)="([^"]*)"', page) if ref[0] != "#"}
    assert set() == {ref for ref in re.findall(r"url\(([^)]*)\)", page) if ref[0] != "#"}
    assert "@import" not in page


def test_names_in_one_page_are_used_once() -> None:
    ids = re.findall(r' id="([^"]*)"', report.render([made(), made(Making(seed=2))], "A page"))
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("text", ["<b>", "a & b", '"quoted"', "'", "</style>", "]]>"])
def test_text_is_escaped_wherever_it_stands(text: str) -> None:
    made_of = [escaped(text), str(tag("p", text)), str(tag("p", title=text))]
    made_of.append(str(table([text], [[text, text]], text)))
    for each in made_of:
        inner = re.sub(r"</?(p|div|table|caption|thead|tbody|tr|th|td)\b[^<>]*>", "", each)
        assert "<" not in inner
    assert "&quot;" in str(tag("p", title='"'))


def test_a_run_without_records_says_why_nothing_is_stacked() -> None:
    page = report.render([made(Making(known=False))], "A page")
    assert "the key needs the permission trace" in page
    names = [picture.name for picture in report.pictures_of([made(Making(known=False))])]
    assert "stages" not in names


def test_bars_add_up_to_the_clients_wait() -> None:
    run = made()
    (bar,) = stack.bars("run", run.good)
    waits = [sample.end_to_end_ms or 0.0 for sample in run.good]
    assert sum(waits) / len(waits) == pytest.approx(bar.whole_ms)
    assert bar.whole_ms == pytest.approx(sum(bar.piles_ms.values()))


def test_hits_and_misses_have_a_bar_each() -> None:
    run = made()
    mixed = [replace(s, x_cache="hit" if s.i % 2 else "miss") for s in run.good]
    assert {"hit", "miss"} == {
        bar.name.split(": ")[1].split(",")[0] for bar in stack.bars("run", mixed)
    }


def test_goodput_is_what_kept_the_objectives_a_second() -> None:
    run = made(objectives=Objectives(first_content_ms=55.0), load=load(3))
    summed = summary.of(run)
    (point,) = load_curve.points([("a", summed)])
    kept = sum((s.first_content_ms or 0) <= 55.0 for s in run.good)
    assert summed.window_s is not None
    assert kept / summed.window_s == pytest.approx(point.good_per_s)
    assert (3.0, "requests a second") == (point.load, point.kind)
    assert "first content ≤ 55 ms" == point.objectives


def test_runs_of_one_label_are_told_apart() -> None:
    names = [one.name for one in report.named([made(label="x" * 99), made(label="x" * 99)])]
    assert 2 == len(set(names))
    assert all(len(name) <= report.MOST_NAME_CHARS + 2 for name in names)


def luminance(colour: str) -> float:
    """WCAG 2.2's relative luminance."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_lines_stand_out_from_the_ground(colours: dict[str, str]) -> None:
    """WCAG 2.2: 4.5 for text, 3 for what has to be seen of a picture."""
    for name in ("ink", "muted", "blue"):
        assert contrast(colours[name], colours["ground"]) >= 4.5
    for one in palette.SERIES:
        assert contrast(colours[one.colour], colours["ground"]) >= 3
    for pile in stack.PILES:
        assert contrast(colours[pile.colour], colours["ground"]) >= 3


def test_nothing_is_told_by_colour_alone() -> None:
    for one, two in combinations(palette.SERIES, 2):
        assert one.dash != two.dash
        assert one.mark != two.mark
    looks = [(pile.colour, pile.hatch) for pile in stack.PILES]
    assert len(looks) - 1 <= len(set(looks))


def test_every_picture_is_a_file_too(run: Call, tmp_path: Path) -> None:
    source = written(tmp_path / "run.jsonl", made(label="a label with $mathematics"))
    document = run(
        "report", source, "--out", str(tmp_path / "page.html"), "--png", "--json"
    ).document
    assert 5 == len(document["png"])
    for name in document["png"]:
        with Image.open(name) as image:
            assert image.width > 1000
            assert len(image.convert("RGB").getcolors(1 << 24) or ()) > 20
    assert Path(document["page"]).read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_command_names_what_it_wrote(run: Call, tmp_path: Path) -> None:
    source = written(tmp_path / "run.jsonl", made())
    page = tmp_path / "new" / "page.html"
    ran = run("report", source, "--out", str(page))
    assert (0, f"{page}\n", "") == (ran.code, ran.out, ran.err)


def test_a_run_without_requests_is_one_clear_line(run: Call, tmp_path: Path) -> None:
    source = written(tmp_path / "run.jsonl", made().with_samples([]))
    ran = run("report", source, "--out", str(tmp_path / "page.html"))
    assert (2, "") == (ran.code, ran.out)
    assert "no request after the warm-up" in ran.err


def test_a_page_that_cannot_be_written_is_bad_input(run: Call, tmp_path: Path) -> None:
    source = written(tmp_path / "run.jsonl", made())
    assert 2 == run("report", source, "--out", source + "/page.html").code


def test_a_file_that_is_no_run_is_bad_input(run: Call, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text("{}\n")
    assert 2 == run("report", str(wrong)).code
