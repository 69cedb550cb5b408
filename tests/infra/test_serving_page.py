"""docs/serving.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from infra.given import settings
from nearfar_infra.fields import FIELDS
from nearfar_infra.manifests import redis, scaling
from nearfar_infra.manifests.start_up import StartUp

TEXT = (Path(__file__).parents[2] / "docs" / "serving.md").read_text("utf-8")


def rows(heading: str) -> list[list[str]]:
    """The cells of every row of a section's tables."""
    section = TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_start_up_budget_is_the_codes() -> None:
    budget = StartUp(settings().serving.weight_bytes)
    minutes = [row[2] for row in rows("How long a start may take")[2:]]
    counted = [budget.load_s, budget.progress_s, budget.await_s]
    assert [f"{seconds / 60:g} min" for seconds in counted] == minutes


def test_every_setting_that_it_names_is_one() -> None:
    for row in rows("Faster starts, and what each costs")[2:]:
        for name in re.findall(r"`(\w+)(?:: \w+)?`", row[1]):
            assert name in FIELDS, name


def test_every_trigger_is_there() -> None:
    chosen = settings(autoscaleMax="2", gpuNodesMax="2", weights="stream").serving
    told = {row[0].strip("`") for row in rows("Scaling")[2:]}
    assert scaling.queries(chosen).keys() == told


def test_every_user_of_redis_is_there() -> None:
    told = {row[0].strip("`") for row in rows("The gates' Redis")[2:]}
    lines = redis.acl("a", "b", "c").splitlines()
    assert {line.split()[1] for line in lines} - {"default"} == told
