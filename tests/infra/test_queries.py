"""Dashboards, alerts and scaling ask for metrics that the servers really expose."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from infra import exposed, promql
from infra.given import settings
from nearfar_infra import alerts, dashboards
from nearfar_infra.manifests import scaling

DOCS = Path(__file__).parents[2] / "docs"


def every_query() -> dict[str, str]:
    """Where it stands → query."""
    found = {f"alert {alert.name}": alert.query for alert in alerts.ALERTS}
    for name, dashboard in dashboards.DASHBOARDS.items():
        found |= {f"dashboard {name} {n}": q for n, q in enumerate(dashboard.queries)}
    scaled = settings(autoscaleMax="2", gpuNodesMax="2", weights="stream").serving
    return found | {f"scaling {n}": q for n, (q, _) in scaling.queries(scaled).items()}


@pytest.mark.parametrize("where", every_query())
def test_every_name_in_a_query_is_exposed_by_a_server(where: str) -> None:
    used = promql.metrics(every_query()[where])
    assert used, "a query without a metric cannot be right"
    assert set() == used - exposed.known()


@pytest.mark.parametrize("where", every_query())
def test_brackets_of_every_query_close(where: str) -> None:
    query = every_query()[where]
    for opening, closing in ("()", "{}", "[]"):
        assert query.count(opening) == query.count(closing)


def test_the_reader_of_queries_finds_names_and_nothing_else() -> None:
    query = 'sum by (le) (rate(a:b_bucket{x=~"y|z"}[5m])) / on (pod) c_total * 1e6 or vector(0)'
    assert {"a:b_bucket", "c_total"} == promql.metrics(query)


def test_counters_are_asked_for_their_rate_and_gauges_for_their_value() -> None:
    """A counter's value says nothing; a gauge's rate neither."""
    for where, query in every_query().items():
        for name in promql.metrics(query):
            rated = re.search(rf"(rate|increase)\({re.escape(name)}\b", query) is not None
            counts = name.endswith(("_total", "_bucket"))
            assert counts == rated, (where, name)


def test_every_alert_has_a_runbook_under_its_own_name() -> None:
    text = (DOCS / "runbooks.md").read_text("utf-8")
    headings = {line.removeprefix("## ").strip() for line in text.splitlines() if line[:3] == "## "}
    assert {alert.name for alert in alerts.ALERTS} <= headings
    for alert in alerts.ALERTS:
        assert (
            f"docs/runbooks.md#{alert.name.lower()}" == alert.rule()["annotations"]["runbook_url"]
        )


def test_dashboards_have_names_of_their_own_and_panels_that_do_not_overlap() -> None:
    uids = [json.loads(text)["uid"] for text in dashboards.documents().values()]
    assert 3 == len(set(uids))
    for text in dashboards.documents().values():
        panels = json.loads(text)["panels"]
        places = {(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels}
        assert len(panels) == len(places) == len({p["id"] for p in panels})
        assert all(p["gridPos"]["x"] + p["gridPos"]["w"] <= 24 for p in panels)
        assert all(p["datasource"]["uid"] == "prometheus" for p in panels)
