"""docs/gate.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from gpu_backend.gate import answers, metrics, settings, usage
from gpu_backend.gate.answers import Refusal, Standing, Window, rate_headers
from gpu_backend.gate.scripts import Keys, once_key, spent_key, usage_key

TEXT = (Path(__file__).parents[3] / "docs" / "gate.md").read_text(encoding="utf-8")


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def rows(heading: str) -> list[list[str]]:
    """The rows of every table in a section."""
    section = TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [cells(line) for line in section.splitlines() if line.startswith("| `")]


def test_every_setting_is_there_with_its_default() -> None:
    told = {name.strip("`"): default.strip("`") for name, default, _ in rows("Settings")}
    assert {settings.PREFIX + name for name in settings._KNOWN} == told.keys()
    chosen = settings.Settings()
    for name in ("redis_timeout_ms", "without_redis", "max_running", "max_waiting", "lease_s"):
        assert str(getattr(chosen, name)) == told[settings.PREFIX + name.upper()]


def test_every_refusal_is_there_with_its_status() -> None:
    told = set(re.findall(r"\| (\d+) \| `(\w+)` \|", TEXT))
    classes = [c for c in vars(answers).values() if isinstance(c, type) and issubclass(c, Refusal)]
    known = {(str(c.status), c.code) for c in classes if c not in (Refusal, answers.Limited)}
    limited = {"rate_limit_exceeded", "parallel_limit_exceeded", "monthly_budget_exceeded"}
    assert known | {("429", code) for code in limited} == told


def test_every_rate_header_is_there() -> None:
    window = Window(1, 1, 1.0)
    for name, _ in rate_headers(Standing(window, window)):
        assert f"`{name.decode()}`" in TEXT


def test_every_key_and_count_is_there() -> None:
    owner = Keys.of("tenant", "key").key
    told = {name.strip("`") for name, *_ in rows("Keys in Redis")}
    known = {once_key("REQUEST"), usage_key("YYYY-MM"), spent_key("YYYY-MM"), "nf:1:revoked"}
    known |= {key.replace("tenant/key", "OWNER") for key in (owner.log, owner.live, owner.state)}
    assert known == told
    assert not [count for count in usage.COUNTS if f"`{count}`" not in TEXT]


def test_every_metric_is_there() -> None:
    told = {name.strip("`") for name, *_ in rows("Metrics")}
    assert {f"nearfar_gate_{name}" for name in metrics.NAMES} == told
