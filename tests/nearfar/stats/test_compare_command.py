"""nearfar compare as it is typed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakes.made_run import Making, made
from nearfar.runs import Run, RunWriter, TargetOf, Workload

Call = Callable[..., Any]


def written(path: Path, run: Run) -> str:
    """Write a run down as nearfar bench does."""
    with RunWriter(path, run.header) as writer:
        for sample in run.samples:
            writer.add(sample)
        writer.end()
    return str(path)


@pytest.fixture
def before(tmp_path: Path) -> str:
    return written(tmp_path / "before.jsonl", made(Making(seed=1)))


@pytest.fixture
def after(tmp_path: Path) -> str:
    slower = Making(seed=2, more={"engine first token": 30.0})
    return written(tmp_path / "after.jsonl", made(slower))


def test_it_prints_the_table_the_verdict_and_what_is_not_proved(
    run: Call, before: str, after: str
) -> None:
    ran = run("compare", before, after)
    assert (0, "") == (ran.code, ran.err)
    assert "first content: slower by" in ran.out
    assert "most of it  engine first token" in ran.out
    assert "retrieval duration               not available: there is no retrieval" in ran.out
    assert "not proved  " in ran.out


def test_json_says_the_same(run: Call, before: str, after: str) -> None:
    document = run("compare", before, after, "--json").document
    assert "nearfar.comparison/1" == document["schema"]
    assert "engine first token" == document["explanation"]["most"]
    rows = {row["name"]: row for row in document["table"]}
    assert "slower" == rows["first content"]["verdict"]
    assert "there is no retrieval" == rows["documents"]["not_available"]
    assert json.dumps(document)


def test_a_run_is_no_different_from_itself(run: Call, before: str) -> None:
    document = run("compare", before, before, "--json").document
    assert document["explanation"]["most"] is None
    words = {row["verdict"] for row in document["table"] if "verdict" in row}
    assert {"no difference seen"} == words


def test_a_price_gives_a_cost(run: Call, before: str, after: str) -> None:
    document = run("compare", before, after, "--price", "1/2", "--json").document
    cost = next(row for row in document["table"] if row["name"] == "cost")
    assert (34 * 1 + 24 * 2) / 1e6 == pytest.approx(cost["before"])


@pytest.mark.parametrize("price", ["1", "a/b", "-1/2", "1/nan", "1/2/3"])
def test_a_price_that_is_none_is_bad_input(run: Call, before: str, after: str, price: str) -> None:
    assert 2 == run("compare", before, after, "--price", price).code


def test_a_slower_run_can_end_with_code_1(run: Call, before: str, after: str) -> None:
    assert 1 == run("compare", before, after, "--fail-if", "slower").code
    assert 0 == run("compare", after, before, "--fail-if", "slower").code


@pytest.mark.parametrize(
    ("changes", "aspect"),
    [
        ({"target": TargetOf("http://127.0.0.1:3000", "other")}, "model"),
        ({"cache": "warm"}, "cache"),
        ({"machine": {"cores": 64, "processor": "made"}}, "machine"),
        (
            {"workload": Workload(source="prompts", name="other", requests=200, sha256="cd" * 32)},
            "workload",
        ),
    ],
)
def test_unlike_runs_are_refused_unless_that_is_allowed(
    run: Call, before: str, tmp_path: Path, changes: dict[str, Any], aspect: str
) -> None:
    other = written(tmp_path / "other.jsonl", made(Making(seed=3), **changes))
    ran = run("compare", before, other)
    assert (2, "") == (ran.code, ran.out)
    assert "unlike each other" in ran.err
    assert f"--allow {aspect}" in ran.err
    allowed = run("compare", before, other, "--allow", aspect)
    assert 0 == allowed.code
    assert "warning: unlike, and allowed: " in allowed.out


def test_an_empty_run_is_one_clear_line(run: Call, before: str, tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    ran = run("compare", before, str(empty))
    assert 2 == ran.code
    assert 2 == len(ran.err.splitlines())


def test_a_run_of_a_header_alone_holds_nothing_to_compare(
    run: Call, before: str, tmp_path: Path
) -> None:
    header = tmp_path / "header.jsonl"
    header.write_text(Path(before).read_text().splitlines()[0] + "\n")
    ran = run("compare", before, str(header))
    assert 2 == ran.code
    assert "holds no whole answer" in ran.err


def test_a_broken_line_is_named(run: Call, before: str, tmp_path: Path) -> None:
    lines = Path(before).read_text().splitlines()
    lines[7] = lines[7][:40]
    broken = tmp_path / "broken.jsonl"
    broken.write_text("\n".join(lines) + "\n")
    ran = run("compare", before, str(broken))
    assert 2 == ran.code
    assert "line 8 is broken" in ran.err


def test_a_run_that_was_cut_off_is_compared_and_told(
    run: Call, before: str, tmp_path: Path
) -> None:
    text = Path(before).read_text()
    cut = tmp_path / "cut.jsonl"
    cut.write_text(text[: int(len(text) * 0.7)])
    ran = run("compare", before, str(cut))
    assert 0 == ran.code
    assert "run after that is missing" in ran.out


def test_a_file_that_is_not_there_is_bad_input(run: Call, before: str) -> None:
    assert 2 == run("compare", before, "nowhere.jsonl").code


def test_the_arms_of_one_file_are_compared(run: Call, tmp_path: Path) -> None:
    from dataclasses import replace

    halves = [made(Making(seed=n, more={"look_up": 20.0 * n})) for n in (0, 1)]
    samples = [
        replace(s, arm=arm) for arm, half in zip("AB", halves, strict=True) for s in half.samples
    ]
    path = written(tmp_path / "both.jsonl", halves[0].with_samples(samples))
    document = run("compare", f"{path}:A", f"{path}:B", "--json").document
    assert "look_up" == document["explanation"]["most"]
    assert 2 == run("compare", f"{path}:A", f"{path}:C").code
