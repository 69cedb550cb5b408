"""A dashboard as values: rows of panels, each with its queries, and the JSON that Grafana reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Grafana's grid is 24 wide.
WIDTH = 24
HEIGHT = 8
# The format of dashboards that Grafana 12 and 13 read; older ones are migrated by it.
SCHEMA = 39
SOURCE = {"type": "prometheus", "uid": "prometheus"}


@dataclass(frozen=True, slots=True)
class Panel:
    """One drawing. `queries`: legend → PromQL; `unit` is Grafana's name of one."""

    title: str
    queries: Mapping[str, str]
    unit: str = "short"
    text: str = ""
    kind: str = "timeseries"

    def document(self, number: int, x: int, y: int, width: int) -> dict[str, Any]:
        targets = [
            {"refId": chr(65 + n), "expr": query, "legendFormat": legend, "datasource": SOURCE}
            for n, (legend, query) in enumerate(self.queries.items())
        ]
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.text,
            "datasource": SOURCE,
            "gridPos": {"x": x, "y": y, "w": width, "h": HEIGHT},
            "fieldConfig": {"defaults": {"unit": self.unit, "min": 0}, "overrides": []},
            "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
            "targets": targets,
        }


@dataclass(frozen=True, slots=True)
class Dashboard:
    """Rows of panels; those of a row share its width."""

    uid: str
    title: str
    rows: tuple[tuple[Panel, ...], ...]

    @property
    def queries(self) -> tuple[str, ...]:
        """Every query, for the tests."""
        return tuple(
            query for row in self.rows for panel in row for query in panel.queries.values()
        )

    def document(self) -> dict[str, Any]:
        """The JSON document."""
        panels: list[dict[str, Any]] = []
        for down, row in enumerate(self.rows):
            width = WIDTH // len(row)
            for across, panel in enumerate(row):
                number = len(panels) + 1
                panels.append(panel.document(number, across * width, down * HEIGHT, width))
        return {
            "uid": self.uid,
            "title": self.title,
            "tags": ["nearfar"],
            "timezone": "utc",
            "schemaVersion": SCHEMA,
            "editable": False,
            "refresh": "30s",
            "time": {"from": "now-3h", "to": "now"},
            "panels": panels,
        }


def rate(metric: str, by: str = "", where: str = "") -> str:
    """Events a second, summed."""
    grouped = f" by ({by})" if by else ""
    return f"sum{grouped} (rate({metric}{{{where}}}[5m]))"


def quantile(share: float, metric: str) -> str:
    """A quantile of a histogram over all servers, as far as its buckets can tell."""
    return f"histogram_quantile({share}, sum by (le) (rate({metric}_bucket[5m])))"


def quantiles(metric: str) -> dict[str, str]:
    """Median and 95th; p99 of five minutes of a small deployment would be noise."""
    return {"p50": quantile(0.5, metric), "p95": quantile(0.95, metric)}
